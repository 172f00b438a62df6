# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Fetch (1), v4-18: record batches from an offset on, for consumers and followers. Answers with stretches of files.

v5 log start offset · v7 sessions (KIP-227) · v9 leader epoch · v10 zstd · v11 nearest replica · v12 diverging epochs
v13 topics by id · v15 the replica's state · v16 the current leader (KIP-951) · v17 replica directory · v18 high watermark

Of all partitions together at most `max_bytes` (and the broker's `fetch.max.bytes`) are answered, of each at most
`partition_max_bytes`; but the first one that has anything gives a whole batch, so that a reader always gets on. Waits up to
`max_wait_ms` for `min_bytes` (`delayed_fetch`).

A consumer that has a replica in its own rack is sent there (`closest_replica`); what it asked for beside is answered at once.

Where this differs from Kafka: the replica's directory and high watermark of v17 and v18 tell nothing yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tidelog.broker.data.closest_replica import ClosestReplica
from tidelog.broker.data.delayed_fetch import DelayedFetch
from tidelog.broker.data.fetch_answer import TOPIC_ID_VERSION, topic_of
from tidelog.broker.data.fetch_sessions import INITIAL_EPOCH, NO_SESSION, entries_of
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.quorum_requests import ask_quorum
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.storage.fetched import FetchIsolation
from tidelog.wire.typed.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from tidelog.broker.data.fetch_entry import FetchEntry
    from tidelog.broker.data.fetch_sessions import FetchSession, FetchSessions
    from tidelog.broker.quotas.meter import Meter
    from tidelog.broker.requests.caller import Caller
    from tidelog.broker.requests.node_view import Node
    from tidelog.replication.partitions import TopicReplicas

REPLICA_STATE_VERSION = 15
# Consumers may read from followers from here on (KIP-392).
FOLLOWER_READ_VERSION = 11

READ_COMMITTED = 1
# The replica id of a tool that looks into any replica, as far as its log goes.
LOOKS_INTO_REPLICAS = -2

# Members that are reached through their class cost more, and these are asked for by every request.
_READ = AclOperation.READ
_TOPIC = ResourceType.TOPIC
_HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK

# The same for this module alone: what C knows by its type, Python does not see.
_TOPIC_ID_VERSION = TOPIC_ID_VERSION
_REPLICA_STATE_VERSION = REPLICA_STATE_VERSION
_FOLLOWER_READ_VERSION = FOLLOWER_READ_VERSION
_READ_COMMITTED = READ_COMMITTED
_LOOKS_INTO_REPLICAS = LOOKS_INTO_REPLICAS


@handles(FetchRequest, wakes=True)
def fetch(request: FetchRequest, caller: Caller, node: Node) -> Answer[FetchResponse]:
    if node.is_controller_listener(caller.connection.listener_name):
        # There Fetch reads the metadata log, which is the quorum's.
        return cast("Answer[FetchResponse]", ask_quorum(request, caller, node))
    return _fetch(request, caller, node)


def _fetch(request: FetchRequest, caller: Caller, node: Node) -> Answer[FetchResponse]:
    version = caller.api_version
    connection = caller.connection
    uses_topic_ids = version >= _TOPIC_ID_VERSION
    sessions = node.fetch_sessions
    found = sessions.session_of(request, uses_topic_ids)
    if type(found) is ErrorCode:  # which costs less than to ask an enumeration for its instances
        return FetchResponse(throttle_time_ms=0, error_code=found, session_id=NO_SESSION, responses=[])
    session: FetchSession | None = found  # type: ignore[assignment] # it is no error
    delayed = DelayedFetch()
    delayed.node = node
    delayed.version = version
    delayed.client_id = caller.client_id
    delayed.correlation_id = caller.correlation_id
    delayed.listener_name = connection.listener_name
    delayed.session = session
    delayed.refused = []
    delayed.elsewhere = []
    _set_limits(delayed, request, sessions)
    if caller.meter is not None:
        _meter(delayed, caller.meter)
    closest = None
    if request.rack_id and not delayed.leader_only:
        closest = ClosestReplica.for_fetch(request.rack_id, caller, node)
    if session is None:
        delayed.expected_epoch = -1
        delayed.wants_session = request.session_epoch == INITIAL_EPOCH
        delayed.entries = entries_of(request, uses_topic_ids)
    else:
        delayed.expected_epoch = session.epoch
        delayed.wants_session = False
        watch = delayed.watch = session.watch
        where = None if closest is None else closest.place
        seen_by = (connection.principal, connection.host, caller.revision(), where)
        if not watch.sees_as(delayed.isolation, delayed.leader_only, delayed.follower, delayed.follower_epoch, seen_by):
            for entry in session.entries.values():
                watch.note(entry)
        delayed.entries = watch.noted_entries()
    if not caller.is_free:
        delayed.caller = caller
        delayed.revision = caller.revision()
        delayed.resolve_again = _resolve_again
    _resolve(delayed, caller, node)
    if closest is not None and _send_elsewhere(delayed, closest):
        delayed.max_wait_ms = 0
    return delayed.start()


def _resolve_again(delayed: DelayedFetch) -> None:
    """The rules of who may read what have changed while it waited: only what may still be read is answered."""
    delayed.refused = []
    _resolve(delayed, delayed.caller, delayed.node)


def _set_limits(delayed: DelayedFetch, request: FetchRequest, sessions: FetchSessions) -> None:
    """How the fetch reads, the same for all of its partitions."""
    replica_id, epoch = request.replica_id, -1
    if delayed.version >= _REPLICA_STATE_VERSION:
        state = request.replica_state
        replica_id, epoch = state.replica_id, state.replica_epoch
    delayed.follower = follower = NodeId(replica_id) if replica_id >= 0 else None
    delayed.follower_epoch = epoch
    isolation = _HIGH_WATERMARK
    if follower is not None or replica_id == _LOOKS_INTO_REPLICAS:
        isolation = FetchIsolation.LOG_END
    elif request.isolation_level == _READ_COMMITTED:
        isolation = FetchIsolation.LAST_STABLE_OFFSET
    delayed.isolation = isolation
    delayed.leader_only = follower is not None or (
        delayed.version < _FOLLOWER_READ_VERSION and replica_id != _LOOKS_INTO_REPLICAS
    )
    delayed.max_bytes = max_bytes = min(request.max_bytes, sessions.max_bytes)
    delayed.min_bytes = min(request.min_bytes, max_bytes)
    delayed.max_wait_ms = request.max_wait_ms


def _meter(delayed: DelayedFetch, meter: Meter) -> None:
    """Where clients have quotas: no more is read than the client may have at once. A follower is no client."""
    if delayed.follower is not None:
        meter.is_exempt = True
        return
    delayed.meter = meter
    bytes_max = meter.fetch_bytes_max()
    if bytes_max >= 0:
        delayed.max_bytes = min(delayed.max_bytes, bytes_max)
        delayed.min_bytes = min(delayed.min_bytes, delayed.max_bytes)


def _resolve(delayed: DelayedFetch, caller: Caller, node: Node) -> None:
    """Find what can be read, and what is refused without a look at a replica."""
    is_replica = delayed.follower is not None
    connection = caller.connection
    if is_replica:
        if not caller.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            for entry in delayed.entries:
                delayed.reads(entry, None, None)
                delayed.refused.append((entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            return
        # What this follower has not got, producers wait for.
        connection.is_exempt = True
    is_judged = not is_replica and not caller.is_free
    others: list[tuple[FetchEntry, ErrorCode]] = []
    partitions = node.partitions
    last: str | bytes | None = None
    hosted: TopicReplicas = {}
    may_read = True
    for entry in delayed.entries:
        if entry.topic != last:
            # Those of one topic mostly come in a row.
            last = entry.topic
            hosted = partitions.identified(last) if isinstance(last, bytes) else partitions.named(last)  # type: ignore[arg-type]
            may_read = not is_judged or _may_read(last, hosted, caller, node, delayed.entries)
        index = entry.asked.partition
        partition = hosted.get(index) if may_read else None
        error: ErrorCode | None = None
        if partition is None:
            error = _refusal(last, index, may_read, node)
            if error is ErrorCode.UNKNOWN_TOPIC_ID:
                delayed.refused.append((entry, error))
                error = None
            elif error is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                others.append((entry, error))
                error = None
        delayed.reads(entry, partition, error)
    if others:
        delayed.refused += others


def _may_read(topic: str | bytes, hosted: TopicReplicas, caller: Caller, node: Node, entries: list[FetchEntry]) -> bool:
    """Whether the caller may read a topic. One that is unknown by its id has no name to ask for."""
    name: str | None = None
    for partition in hosted.values():
        name = partition.topic_partition.topic
        break
    else:
        known = topic_of(topic, node)
        if known is not None:
            name = known.name
        elif isinstance(topic, str):
            name = topic
    if name is None:
        return True
    is_allowed = caller.decide(_READ, _TOPIC, name)
    if caller.is_audited(is_allowed):
        count = 0
        for entry in entries:
            count += entry.topic == topic
        caller.audit(is_allowed, _READ, _TOPIC, name, count)
    return is_allowed


def _refusal(topic: str | bytes, index: int, may_read: bool, node: Node) -> ErrorCode:
    """Why there is no replica to read."""
    if not may_read:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = topic_of(topic, node)
    if known is not None and index in known.partitions:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if known is None and isinstance(topic, bytes):
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _send_elsewhere(delayed: DelayedFetch, closest: ClosestReplica) -> bool:
    """Take out what is closer to the consumer elsewhere. Whether there is any."""
    for entry in delayed.entries:
        partition = entry.partition
        if partition is None:
            continue
        # A follower there may have the offset at any time, of which the partition tells nobody.
        entry.stays_noted = closest.may_change(partition)
        told = closest.answer(entry.asked, partition)
        if told is not None:
            delayed.reads(entry, None, None)
            delayed.elsewhere.append((entry, told))
    return bool(delayed.elsewhere)
