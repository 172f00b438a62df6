"""Fetch as a model: every request reads every partition that it fetches, whatever has happened to it or not.

    answer = model_fetch(request, caller, node)

The broker's own Fetch looks only at what may have changed. This one knows no watch, nothing that is noted, and nothing that is
kept from one request to the next but what KIP-227 makes a session of: it reads all of a session's partitions each time, in their
order, and leaves out what the client knows. It is what the broker's answers are compared with. Its sessions never go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from tidelog.broker.data.closest_replica import ClosestReplica
from tidelog.broker.data.leader_hints import LeaderHints
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer
from tidelog.broker.requests.node_view import Node
from tidelog.controller.image import Topic
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.data_plane_config import FETCH_MAX_BYTES
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, NodeId, PartitionIndex, TopicId, TopicName
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.replication.divergence import Diverged
from tidelog.replication.partition import Partition
from tidelog.replication.partitions import TopicReplicas
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.transaction_index import AbortedTransaction as StoredAbort
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

NO_SESSION = 0
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

WAIT_MS_MAX = 5 * 60 * 1000
_UNKNOWN = -1

FetchKey: TypeAlias = tuple[str | bytes, PartitionIndex]
ReadResult: TypeAlias = Fetched | Diverged | ErrorCode
# What to read, or the error where this node has no replica.
Target: TypeAlias = Partition | ErrorCode


class FetchEntry(msgspec.Struct, gc=False):
    """One partition of a fetch: what the client asks for, and what it was told last."""

    topic: str | bytes
    asked: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def is_news(self, data: PartitionData, record_bytes: int) -> bool:
        """Whether an incremental answer has to carry `data`. Remembers what the client knows once it has read it."""
        # An error is told every time. It comes with a high watermark of -1, so that its end is news as well.
        is_news = (
            record_bytes > 0
            or data.error_code != 0
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.end_offset >= 0
        )
        if self.high_watermark != data.high_watermark:
            is_news = True
            self.high_watermark = data.high_watermark
        if self.log_start_offset != data.log_start_offset:
            is_news = True
            self.log_start_offset = data.log_start_offset
        return is_news


class FetchSession:
    """What one client fetches. `epoch` is that of the request that comes next."""

    def __init__(self, session_id: int, entries: dict[FetchKey, FetchEntry], *, uses_topic_ids: bool) -> None:
        self.session_id = session_id
        self.entries = entries
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.parked: FetchReading | None = None

    def update(self, request: FetchRequest) -> None:
        """Take in what an incremental request names and forgets."""
        entries = self.entries
        for topic in request.topics:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for asked in topic.partitions:
                key = (name, PartitionIndex(asked.partition))
                entry = entries.get(key)
                if entry is None:
                    entries[key] = FetchEntry(name, asked)
                else:
                    entry.asked = asked
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for partition in forgotten.partitions:
                entries.pop((name, PartitionIndex(partition)), None)

    def move_to_end(self, entry: FetchEntry) -> None:
        """Who has just had records comes last next time, so that a limit on bytes starves nobody."""
        key = (entry.topic, PartitionIndex(entry.asked.partition))
        if self.entries.pop(key, None) is entry:
            self.entries[key] = entry


class FetchContext:
    """What one request fetches: `entries` in their order, and the session that it belongs to, if any."""

    __slots__ = ("entries", "expected_epoch", "session", "wants_session")

    def __init__(
        self, entries: list[FetchEntry], session: FetchSession | None = None, *, wants_session: bool = False
    ) -> None:
        self.entries = entries
        self.session = session
        self.wants_session = wants_session
        # Another request of the session may come in before this one is answered.
        self.expected_epoch = -1 if session is None else session.epoch

    @property
    def is_superseded(self) -> bool:
        """Whether the session has moved on: INVALID_FETCH_SESSION_EPOCH is the only answer left."""
        return self.session is not None and self.session.epoch != self.expected_epoch


class ModelSessions:
    """The sessions of a node."""

    def __init__(self) -> None:
        self._sessions: dict[int, FetchSession] = {}

    def context_of(self, request: FetchRequest, *, uses_topic_ids: bool) -> FetchContext | ErrorCode:
        """What a request fetches, or the error of a session that does not fit it."""
        epoch = request.session_epoch
        if epoch in (0, -1):
            self.close(request.session_id)
            return FetchContext(entries_of(request, uses_topic_ids=uses_topic_ids), wants_session=epoch == 0)
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch += 1
        if session.parked is not None:
            # It has only an error left to tell, and need not wait to tell it.
            session.parked.give_up()
        session.update(request)
        if not session.entries:
            self.close(session.session_id)
            return FetchContext(entries_of(request, uses_topic_ids=uses_topic_ids))
        return FetchContext(list(session.entries.values()), session)

    def begin(self, context: FetchContext, session_id: int, *, uses_topic_ids: bool) -> None:
        """A session for what a full request fetches, by the id that the broker has given it."""
        entries = {(entry.topic, PartitionIndex(entry.asked.partition)): entry for entry in context.entries}
        self._sessions[session_id] = FetchSession(session_id, entries, uses_topic_ids=uses_topic_ids)

    def close(self, session_id: int) -> None:
        """Forget a session, if there is one of this id."""
        self._sessions.pop(session_id, None)


def entries_of(request: FetchRequest, *, uses_topic_ids: bool) -> list[FetchEntry]:
    """The partitions that a request names, each once: of a repeated one the last counts."""
    entries: dict[FetchKey, FetchEntry] = {}
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        for asked in topic.partitions:
            entries[name, PartitionIndex(asked.partition)] = FetchEntry(name, asked)
    return list(entries.values())


class FetchLimits(msgspec.Struct, frozen=True, gc=False):
    """How a fetch reads, the same for all of its partitions."""

    isolation: FetchIsolation
    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    leader_only: bool
    follower: NodeId | None = None
    """The replica that asks; None for a consumer."""
    follower_epoch: int = -1


class FetchReading:
    """One fetch, as a watcher of its partitions. `answer_of` makes the response of what was read, once.

    `entries` and `targets` belong together, place by place.
    """

    is_waiting = True

    def __init__(
        self,
        entries: Sequence[FetchEntry],
        targets: Sequence[Target],
        limits: FetchLimits,
        answer_of: Callable[[Sequence[ReadResult]], FetchResponse],
        node: Node,
        session: FetchSession | None,
        resolve_again: Callable[[], tuple[Sequence[FetchEntry], Sequence[Target]] | None],
    ) -> None:
        """`resolve_again` gives what is read instead, where the rules of who may read what have changed since."""
        self._resolve_again = resolve_again
        self._entries = entries
        self._targets = targets
        self._limits = limits
        self._answer_of = answer_of
        self._node = node
        self._session = session
        self._results: list[ReadResult] = []
        self._sizes: list[int] = []
        self._total = 0
        self._places: dict[Partition, int] = {}
        self._pending: Pending[FetchResponse] = Pending()
        self._timer: Timer | None = None

    def start(self, timers: Timers) -> FetchResponse | Pending[FetchResponse]:
        """Read, and answer now or later."""
        limits = self._limits
        is_settled = self._read_all(note_progress=True)
        if is_settled or limits.max_wait_ms <= 0 or not self._targets or self._total >= limits.min_bytes:
            return self._answer_of(self._results)
        for place, partition in enumerate(self._targets):
            if isinstance(partition, Partition):
                self._places[partition] = place
                partition.watch(self)
        self._timer = timers.after(min(limits.max_wait_ms, WAIT_MS_MAX), self._expired)
        if self._session is not None:
            self._session.parked = self
        if limits.follower is not None:
            self._look_for_missed()
        return self._pending

    def give_up(self) -> None:
        """Another request of the session has come."""
        self._resolve_again = lambda: None
        self._complete(read_again=False)

    def _look_for_missed(self) -> None:
        """A follower's progress commits records, on which a coordinator may append at once to a partition that this fetch has
        read already and did not watch yet."""
        for partition, place in tuple(self._places.items()):
            result, log = self._results[place], partition.log
            if type(result) is Fetched and log is not None and log.log_end_offset != result.log_end_offset:
                self.partition_changed(partition)

    def partition_changed(self, partition: Partition) -> None:
        """A partition that is waited for has more, or nothing any more."""
        place = self._places.get(partition)
        if place is None:
            return
        others = self._total - self._sizes[place]
        is_settled = self._read(place, self._limits.max_bytes - others, is_first=not others, note_progress=False)
        if is_settled or self._total >= self._limits.min_bytes:
            self._complete(read_again=others > 0)

    def _expired(self) -> None:
        self._complete(read_again=self._total > 0)

    def _complete(self, *, read_again: bool) -> None:
        for partition in self._places:
            partition.unwatch(self)
        self._places = {}
        if self._session is not None and self._session.parked is self:
            self._session.parked = None
        if self._timer is not None:
            self._timer.cancel()
        instead = self._resolve_again()
        if instead is not None:
            self._entries, self._targets = instead
        if read_again or instead is not None:
            self._read_all(note_progress=False)
        self._pending.complete(self._answer_of(self._results))

    def _read_all(self, *, note_progress: bool) -> bool:
        """Read every partition. Whether one of them is reason enough to answer, whatever was found."""
        count = len(self._targets)
        self._results = [ErrorCode.NONE] * count
        self._sizes = [0] * count
        self._total = 0
        is_settled = False
        for place in range(count):
            left = max(0, self._limits.max_bytes - self._total)
            if self._read(place, left, is_first=not self._total, note_progress=note_progress):
                is_settled = True
        return is_settled

    def _read(self, place: int, bytes_max: int, *, is_first: bool, note_progress: bool) -> bool:
        """Read one partition. However small the limits, the first that has anything gives a whole batch."""
        partition, asked = self._targets[place], self._entries[place].asked
        limits = self._limits
        if isinstance(partition, ErrorCode):
            self._results[place] = partition
            return True
        bytes_max = max(0, min(bytes_max, asked.partition_max_bytes))
        if limits.follower is None:
            result = partition.read(
                asked.fetch_offset,
                bytes_max,
                limits.isolation,
                current_leader_epoch=asked.current_leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                min_one_batch=is_first,
                leader_only=limits.leader_only,
            )
        else:
            result = partition.read_as_follower(
                limits.follower,
                asked.fetch_offset,
                bytes_max,
                broker_epoch=limits.follower_epoch,
                log_start_offset=asked.log_start_offset,
                current_leader_epoch=asked.current_leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                min_one_batch=is_first,
                note_progress=note_progress,
            )
            if (
                type(result) is Fetched
                and result.regions
                and self._node.partitions.throttles.holds_back(partition, limits.follower)
            ):
                result = msgspec.structs.replace(result, regions=())
        self._results[place] = result
        if type(result) is not Fetched:
            return True
        size = result.size_bytes
        self._total += size - self._sizes[place]
        self._sizes[place] = size
        return False


_SESSIONS: WeakKeyDictionary[Node, ModelSessions] = WeakKeyDictionary()


def sessions_of(node: Node) -> ModelSessions:
    """The sessions that the model has of a node's clients."""
    return _SESSIONS.setdefault(node, ModelSessions())


def model_fetch(request: FetchRequest, caller: Caller, node: Node) -> Answer[FetchResponse]:
    """The handler of Fetch, as the model has it."""
    context = sessions_of(node).context_of(request, uses_topic_ids=caller.api_version >= TOPIC_ID_VERSION)
    if isinstance(context, ErrorCode):
        return FetchResponse(throttle_time_ms=0, error_code=context, session_id=NO_SESSION, responses=[])
    limits = _limits_of(request, caller, node)
    resolved = _Resolved()
    resolved.resolve(context, caller, node, is_replica=limits.follower is not None)
    if not limits.leader_only:
        closest = ClosestReplica.for_fetch(request.rack_id, caller, node)
        if closest is not None and resolved.send_elsewhere(closest):
            limits = msgspec.structs.replace(limits, max_wait_ms=0)

    def answer_of(results: Sequence[ReadResult]) -> FetchResponse:
        if context.session is None or not context.is_superseded:
            _count(node, resolved.targets, results, limits.follower)
        return _FetchAnswer(context, caller, node).build(resolved, results)

    revision = caller.authorizer.revision

    def resolve_again() -> tuple[Sequence[FetchEntry], Sequence[Target]] | None:
        if caller.authorizer.revision == revision:
            return None
        resolved.entries, resolved.targets, resolved.refused = [], [], []
        resolved.resolve(context, caller, node, is_replica=limits.follower is not None)
        return resolved.entries, resolved.targets

    reading = FetchReading(resolved.entries, resolved.targets, limits, answer_of, node, context.session, resolve_again)
    return reading.start(node.timers)


def _count(node: Node, targets: Sequence[Target], results: Sequence[ReadResult], follower: NodeId | None) -> None:
    for target, result in zip(targets, results, strict=True):
        if type(target) is not Partition:
            continue
        counts = node.metrics.topics[target.topic_partition.topic]
        if type(result) is Fetched:
            counts.total_fetch_requests += 1
            if follower is None:
                counts.bytes_out += result.size_bytes
            else:
                counts.replication_bytes_out += result.size_bytes
                node.partitions.throttles.sent(target, result.size_bytes)
                node.partitions.traffic.sent(target, follower, result.size_bytes)
        elif isinstance(result, ErrorCode):
            counts.fetch_refused(result)


def _limits_of(request: FetchRequest, caller: Caller, node: Node) -> FetchLimits:
    state = request.replica_state
    replica_id, epoch = request.replica_id, -1
    if caller.api_version >= REPLICA_STATE_VERSION:
        replica_id, epoch = state.replica_id, state.replica_epoch
    follower = NodeId(replica_id) if replica_id >= 0 else None
    isolation = FetchIsolation.HIGH_WATERMARK
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
                may_read = (
                    is_replica or isinstance(name, bytes) or caller.may(AclOperation.READ, ResourceType.TOPIC, name)
                )
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

    def __init__(self, context: FetchContext, caller: Caller, node: Node) -> None:
        self._context = context
        self._version = caller.api_version
        self._listener_name = caller.listener_name
        self._node = node
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
            # The broker gives it the same: both draw from a generator of the same seed.
            session_id = self._node.random.randint(1, 2**31 - 1)
            sessions_of(self._node).begin(context, session_id, uses_topic_ids=self._version >= TOPIC_ID_VERSION)
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
