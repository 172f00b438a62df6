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

from collections.abc import Sequence
from typing import cast

import msgspec

from tidelog.broker.data.closest_replica import ClosestReplica
from tidelog.broker.data.delayed_fetch import UNCHANGED, FetchLimits, FetchReading, ReadResult, Target
from tidelog.broker.data.fetch_sessions import NO_SESSION, FetchContext, FetchEntry
from tidelog.broker.data.leader_hints import LeaderHints
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.requests.quorum_requests import ask_quorum
from tidelog.controller.image import Topic
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.data_plane_config import FETCH_MAX_BYTES
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, NodeId, PartitionIndex, TopicId, TopicName
from tidelog.replication.partition import Diverged, Partition
from tidelog.replication.partitions import TopicReplicas
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.transaction_index import AbortedTransaction as StoredAbort
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

TOPIC_ID_VERSION = 13
REPLICA_STATE_VERSION = 15
LEADER_HINT_VERSION = 16
# Consumers may read from followers from here on (KIP-392).
FOLLOWER_READ_VERSION = 11
# The first version whose clients understand KAFKA_STORAGE_ERROR.
STORAGE_ERROR_VERSION = 6

READ_COMMITTED = 1
# The replica id of a tool that looks into any replica, as far as its log goes.
LOOKS_INTO_REPLICAS = -2

# Members that are reached through their class cost more, and these are asked for by every request.
_READ = AclOperation.READ
_TOPIC = ResourceType.TOPIC
_HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK

_UNKNOWN = -1


@handles(FetchRequest)
def fetch(request: FetchRequest, caller: Caller, node: Node) -> Answer[FetchResponse]:
    if node.is_controller_listener(caller.listener_name):
        # There Fetch reads the metadata log, which is the quorum's.
        return cast("Answer[FetchResponse]", ask_quorum(request, caller, node))
    context = node.fetch_sessions.context_of(request, uses_topic_ids=caller.api_version >= TOPIC_ID_VERSION)
    if isinstance(context, ErrorCode):
        return FetchResponse(throttle_time_ms=0, error_code=context, session_id=NO_SESSION, responses=[])
    limits = _limits_of(request, caller, node, is_incremental=context.session is not None)
    resolved = _Resolved()
    resolved.resolve(context, caller, node, is_replica=limits.follower is not None)
    if not limits.leader_only:
        closest = ClosestReplica.for_fetch(request.rack_id, caller, node)
        if closest is not None and resolved.send_elsewhere(closest):
            limits = msgspec.structs.replace(limits, max_wait_ms=0)
    return _reading(context, resolved, limits, caller, node).start(node.timers)


def answer_follower(context: FetchContext, limits: FetchLimits, caller: Caller, node: Node) -> FetchResponse:
    """The response to a follower's fetch of a session that has waited, of what is there now."""
    resolved = _Resolved()
    resolved.resolve(context, caller, node, is_replica=True)
    return _reading(context, resolved, limits, caller, node).answer_now()


def _reading(
    context: FetchContext, resolved: _Resolved, limits: FetchLimits, caller: Caller, node: Node
) -> FetchReading:
    follower = limits.follower
    is_follower = follower is not None

    def answer_of(results: Sequence[ReadResult]) -> FetchResponse:
        node.metrics.topics.fetched(resolved.targets, results, is_follower=is_follower)
        if follower is not None:
            node.partitions.throttles.sent(resolved.targets, results)
            _count_sent(node, resolved.targets, results, follower)
        return _FetchAnswer(context, caller, node, is_follower=is_follower).build(resolved, results)

    throttles = node.partitions.throttles if is_follower else None
    return FetchReading(resolved.entries, resolved.targets, limits, answer_of, throttles)


def _count_sent(node: Node, targets: Sequence[Target], results: Sequence[ReadResult], follower: NodeId) -> None:
    sent = node.partitions.traffic.sent
    for target, result in zip(targets, results, strict=True):
        if type(target) is Partition and type(result) is Fetched and result.regions:
            sent(target, follower, result.size_bytes)


def answer_of_read(
    entries: list[FetchEntry],
    targets: Sequence[Target],
    results: Sequence[ReadResult],
    caller: Caller,
    node: Node,
) -> FetchResponse:
    """The response to a consumer without a session, of what was read, place by place."""
    node.metrics.topics.fetched(targets, results, is_follower=False)
    resolved = _Resolved()
    resolved.entries = entries
    return _FetchAnswer(FetchContext(entries), caller, node, is_follower=False).build(resolved, results)


def _limits_of(request: FetchRequest, caller: Caller, node: Node, *, is_incremental: bool) -> FetchLimits:
    state = request.replica_state
    replica_id, epoch = request.replica_id, -1
    if caller.api_version >= REPLICA_STATE_VERSION:
        replica_id, epoch = state.replica_id, state.replica_epoch
    follower = NodeId(replica_id) if replica_id >= 0 else None
    isolation = _HIGH_WATERMARK
    if follower is not None or replica_id == LOOKS_INTO_REPLICAS:
        isolation = FetchIsolation.LOG_END
    elif request.isolation_level == READ_COMMITTED:
        isolation = FetchIsolation.LAST_STABLE_OFFSET
    max_bytes = min(request.max_bytes, node.config[FETCH_MAX_BYTES])
    return FetchLimits(
        isolation,
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.max_wait_ms,
        follower is not None or (caller.api_version < FOLLOWER_READ_VERSION and replica_id != LOOKS_INTO_REPLICAS),
        is_incremental,
        follower,
        epoch,
    )


class _Resolved:
    """The partitions of a fetch: what can be read, and what is refused without looking at a replica."""

    __slots__ = ("elsewhere", "entries", "refused", "targets")

    def __init__(self) -> None:
        self.elsewhere: list[tuple[FetchEntry, PartitionData]] = []
        """What the consumer had better read from another replica."""
        self.entries: list[FetchEntry] = []
        self.targets: list[Target] = []
        self.refused: list[tuple[FetchEntry, ErrorCode]] = []
        """Unknown ids first, as in Kafka's answers."""

    def resolve(self, context: FetchContext, caller: Caller, node: Node, *, is_replica: bool) -> None:
        if is_replica and not caller.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            self.refused = [(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for entry in context.entries]
            return
        others: list[tuple[FetchEntry, ErrorCode]] = []
        last: str | bytes | None = None
        hosted: TopicReplicas = {}
        topic: Topic | None = None
        may_read = True
        for entry in context.entries:
            if entry.topic != last:
                # Those of one topic mostly come in a row.
                last = entry.topic
                topic = _topic_of(last, node)
                hosted = {} if topic is None else node.partitions.identified(topic.topic_id)
                name = topic.name if topic is not None else last
                may_read = is_replica or isinstance(name, bytes) or caller.may(_READ, _TOPIC, name)
            partition = hosted.get(entry.asked.partition)
            if not may_read:
                others.append((entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif partition is not None:
                self.entries.append(entry)
                self.targets.append(partition)
            elif topic is not None and entry.asked.partition in topic.partitions:
                self.entries.append(entry)
                self.targets.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif topic is None and isinstance(last, bytes):
                self.refused.append((entry, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                others.append((entry, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        self.refused += others

    def send_elsewhere(self, closest: ClosestReplica) -> bool:
        """Take out what is closer to the consumer elsewhere. Whether there is any."""
        entries, targets = self.entries, self.targets
        self.entries, self.targets = [], []
        for entry, target in zip(entries, targets, strict=True):
            told = None if isinstance(target, ErrorCode) else closest.answer(entry.asked, target)
            if told is not None:
                self.elsewhere.append((entry, told))
            else:
                self.entries.append(entry)
                self.targets.append(target)
        return bool(self.elsewhere)


def _topic_of(topic: str | bytes, node: Node) -> Topic | None:
    if isinstance(topic, bytes):
        return node.image.topics.get(TopicId(topic))
    return node.image.topic(TopicName(topic))


class _FetchAnswer:
    """Makes the response of what was read, in the form of the request's version and session."""

    def __init__(self, context: FetchContext, caller: Caller, node: Node, *, is_follower: bool) -> None:
        self._context = context
        self._version = caller.api_version
        self._listener_name = caller.listener_name
        self._node = node
        self._is_follower = is_follower
        self._hints: LeaderHints | None = None
        self._topics: list[FetchableTopicResponse] = []
        self._last_topic: str | bytes | None = None

    def build(self, resolved: _Resolved, results: Sequence[ReadResult]) -> FetchResponse:
        context, session = self._context, self._context.session
        if session is not None and context.is_superseded:
            return FetchResponse(
                throttle_time_ms=0,
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                session_id=session.session_id,
                responses=[],
            )
        for place, result in enumerate(results):
            if result is UNCHANGED:
                continue
            entry = resolved.entries[place]
            if isinstance(result, Fetched):
                self._add_read(entry, result)
            elif isinstance(result, Diverged):
                self._add(entry, _diverged(entry, result), 0)
            elif isinstance(result, ErrorCode):
                self._add_error(entry, result)
        for entry, data in resolved.elsewhere:
            self._add(entry, data, 0)
        for entry, error in resolved.refused:
            self._add_error(entry, error, is_read=False)
        session_id = NO_SESSION
        if session is not None:
            session_id = session.session_id
        elif context.wants_session:
            session_id = self._node.fetch_sessions.begin(
                context, is_privileged=self._is_follower, uses_topic_ids=self._version >= TOPIC_ID_VERSION
            )
        response = FetchResponse(throttle_time_ms=0, error_code=0, session_id=session_id, responses=self._topics)
        if self._hints is not None:
            response.node_endpoints = [
                NodeEndpoint(node_id=each.node_id, host=each.endpoint.host, port=each.endpoint.port, rack=each.rack)
                for each in self._hints.endpoints.values()
            ]
        return response

    def _add_read(self, entry: FetchEntry, fetched: Fetched) -> None:
        regions = fetched.regions
        data = PartitionData(
            partition_index=entry.asked.partition,
            error_code=0,
            high_watermark=fetched.high_watermark,
            last_stable_offset=fetched.last_stable_offset,
            log_start_offset=fetched.log_start_offset,
            aborted_transactions=_aborted(fetched.aborted_transactions),
            records=regions[0] if regions else b"",
        )
        self._add(entry, data, regions[0].count if regions else 0)

    def _add_error(self, entry: FetchEntry, error: ErrorCode, *, is_read: bool = True) -> None:
        if error is ErrorCode.KAFKA_STORAGE_ERROR and self._version < STORAGE_ERROR_VERSION:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data = PartitionData(
            partition_index=entry.asked.partition,
            error_code=error,
            high_watermark=_UNKNOWN,
            last_stable_offset=_UNKNOWN,
            log_start_offset=_UNKNOWN,
            # Kafka has no list where it tried to read, and an empty one where it did not.
            aborted_transactions=None if is_read else [],
            records=b"",
        )
        if self._version >= LEADER_HINT_VERSION and error in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
        ):
            self._add_leader_hint(entry, data)
        self._add(entry, data, 0)

    def _add_leader_hint(self, entry: FetchEntry, data: PartitionData) -> None:
        topic = _topic_of(entry.topic, self._node)
        if topic is None:
            return
        self._hints = self._hints or LeaderHints(self._node.image, self._listener_name)
        hint = self._hints.leader_of(topic.name, PartitionIndex(data.partition_index))
        data.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)

    def _add(self, entry: FetchEntry, data: PartitionData, record_bytes: int) -> None:
        session = self._context.session
        is_news = entry.is_news(data, record_bytes)
        if session is not None:
            if not is_news:
                return
            if record_bytes:
                session.move_to_end(entry)
        if entry.topic != self._last_topic:
            self._last_topic = topic = entry.topic
            if isinstance(topic, bytes):
                self._topics.append(FetchableTopicResponse(topic_id=topic, partitions=[]))
            else:
                self._topics.append(FetchableTopicResponse(topic=topic, topic_id=ZERO_UUID, partitions=[]))
        self._topics[-1].partitions.append(data)


def _diverged(entry: FetchEntry, diverged: Diverged) -> PartitionData:
    return PartitionData(
        partition_index=entry.asked.partition,
        error_code=0,
        high_watermark=diverged.high_watermark,
        last_stable_offset=diverged.last_stable_offset,
        log_start_offset=diverged.log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=diverged.end.leader_epoch, end_offset=diverged.end.end_offset),
        aborted_transactions=None,
        records=b"",
    )


def _aborted(transactions: Sequence[StoredAbort] | None) -> list[AbortedTransaction] | None:
    if transactions is None:
        return None
    return [AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in transactions]
