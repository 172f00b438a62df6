# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The response to a Fetch: of what was read, in the form of the request's version and session, counted as it is made.

The answer of a session leaves out what its client knows already. A few records are a part of the answer's bytes; more leave
straight from their file, by `sendfile`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog import plain_cython
from tidelog.broker.data.leader_hints import LeaderHints
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, PartitionIndex, TopicId, TopicName
from tidelog.net.parts import SENDFILE_BYTES_MIN
from tidelog.replication.divergence import Diverged
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched
from tidelog.wire.typed.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import cython

    from tidelog.broker.data.delayed_fetch import DelayedFetch
    from tidelog.broker.data.fetch_entry import FetchEntry
    from tidelog.broker.quotas.meter import Meter
    from tidelog.broker.requests.node_view import Node
    from tidelog.controller.image import Topic
    from tidelog.model.ids import NodeId
    from tidelog.storage.file_region import FileRegion
    from tidelog.storage.transaction_index import AbortedTransaction as StoredAbort
else:
    cython = plain_cython

if cython.compiled:
    from cython.cimports.tidelog.wire.typed.message import bytes_beside_records, records_bytes
else:
    from tidelog.wire.typed.message import bytes_beside_records, records_bytes

NO_SESSION = 0
TOPIC_ID_VERSION = 13
LEADER_HINT_VERSION = 16
# The first version whose clients understand KAFKA_STORAGE_ERROR.
STORAGE_ERROR_VERSION = 6

_UNKNOWN = -1
_SIZE_BYTES = 4

# The same for this module alone: what C knows by its type, Python does not see.
_TOPIC_ID_VERSION = TOPIC_ID_VERSION
_SENDFILE_BYTES_MIN = SENDFILE_BYTES_MIN


class FetchAnswer:
    """Makes one response."""

    __slots__ = ("_copied_bytes", "_fetch", "_hints", "_is_incremental", "_last", "_last_topic", "_topics", "_version")

    def __init__(self, fetch: DelayedFetch) -> None:
        self._fetch = fetch
        self._version = fetch.version
        self._is_incremental = fetch.session is not None
        self._hints: LeaderHints | None = None
        self._topics: list[FetchableTopicResponse] = []
        self._last: FetchableTopicResponse | None = None
        self._last_topic: str | bytes | None = None
        self._copied_bytes = 0

    def build(self) -> FetchResponse:
        fetch = self._fetch
        session = fetch.session
        if session is not None and session.epoch != fetch.expected_epoch:
            # The session has moved on: nothing else is left to say.
            return FetchResponse(
                throttle_time_ms=0,
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                session_id=session.session_id,
                responses=[],
            )
        if fetch.meter is None:
            self._add_all()
        else:
            throttle_ms = self._add_metered(fetch.meter)
            if throttle_ms:
                return self._throttled(throttle_ms)
        self._count()
        session_id = NO_SESSION
        if session is not None:
            session_id = session.session_id
            session.watch.settle(fetch.entries)
        elif fetch.wants_session:
            session_id = fetch.node.fetch_sessions.begin(
                fetch.entries,
                is_privileged=fetch.follower is not None,
                uses_topic_ids=self._version >= _TOPIC_ID_VERSION,
            )
        # Without arguments, which would all be put into a tuple, and taken out again.
        response = FetchResponse.__new__(FetchResponse)
        response.throttle_time_ms = 0
        response.error_code = 0
        response.session_id = session_id
        response.responses = self._topics
        response.node_endpoints = [] if self._hints is None else self._endpoints()
        return response

    def _add_all(self) -> None:
        fetch = self._fetch
        for entry in fetch.entries:
            result = entry.result
            if result is None:
                continue
            if type(result) is Fetched:
                self._add_read(entry, result)
            elif type(result) is Diverged:
                self._add(entry, _diverged(entry, result))
            else:
                assert isinstance(result, ErrorCode)
                self._add_error(entry, result, True)
        for entry, data in fetch.elsewhere:
            self._add(entry, data)
        for entry, error in fetch.refused:
            self._add_error(entry, error, False)

    # --- a client that has a quota -----------------------------------------------------------------------------------------

    def _add_metered(self, meter: Meter) -> int:
        """How long the client has to wait first, which the size of the whole answer decides. Then it was told nothing."""
        fetch = self._fetch
        entries = fetch.entries
        if fetch.elsewhere or fetch.refused:
            entries = [*entries, *[each[0] for each in fetch.elsewhere], *[each[0] for each in fetch.refused]]
        for entry in entries:
            entry.remember()
        self._add_all()
        size_bytes = self._size_bytes()
        throttle_ms = 0 if size_bytes < 0 else meter.fetched(size_bytes)
        if throttle_ms:
            for entry in entries:
                entry.recall()
        return throttle_ms

    def _size_bytes(self) -> int:
        """Of the whole answer, with the size before it and without a header, as Kafka counts it. -1: it cannot be sent."""
        response = FetchResponse.__new__(FetchResponse)
        response.throttle_time_ms = 0
        response.error_code = 0
        response.session_id = 0
        response.responses = self._topics
        response.node_endpoints = [] if self._hints is None else self._endpoints()
        size_bytes: int = bytes_beside_records(response, self._version)
        if size_bytes < 0:
            return -1
        for topic in self._topics:
            for data in topic.partitions:
                size_bytes += records_bytes(data.records)
        return _SIZE_BYTES + size_bytes

    def _throttled(self, throttle_ms: int) -> FetchResponse:
        """Nothing for now: all of it is still to be told."""
        session = self._fetch.session
        if session is not None:
            session.watch.nothing_told(self._fetch.entries)
        return FetchResponse(
            throttle_time_ms=throttle_ms,
            error_code=0,
            session_id=NO_SESSION if session is None else session.session_id,
            responses=[],
        )

    def _endpoints(self) -> list[NodeEndpoint]:
        assert self._hints is not None
        return [
            NodeEndpoint(node_id=each.node_id, host=each.endpoint.host, port=each.endpoint.port, rack=each.rack)
            for each in self._hints.endpoints.values()
        ]

    # --- counting ----------------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        fetch = self._fetch
        topics = fetch.node.metrics.topics
        follower = fetch.follower
        for entry in fetch.entries:
            partition, result = entry.partition, entry.result
            if partition is None or result is None:
                continue
            if type(result) is Fetched:
                counts = topics[partition.topic_partition.topic]
                counts.total_fetch_requests += 1
                if partition.trace is not None:
                    fetch.trace(entry, result)
                if follower is None:
                    counts.bytes_out += entry.size_bytes
                elif entry.size_bytes:
                    counts.replication_bytes_out += entry.size_bytes
                    self._count_sent(entry, follower)
            elif isinstance(result, ErrorCode):
                topics[partition.topic_partition.topic].fetch_refused(result)

    def _count_sent(self, entry: FetchEntry, follower: NodeId) -> None:
        partition = entry.partition
        assert partition is not None
        partitions = self._fetch.node.partitions
        partitions.throttles.sent(partition, entry.size_bytes)
        partitions.traffic.sent(partition, follower, entry.size_bytes)

    # --- partitions --------------------------------------------------------------------------------------------------------

    def _add_read(self, entry: FetchEntry, fetched: Fetched) -> None:
        regions = fetched.regions
        if not regions and self._is_incremental and entry.knows(fetched.high_watermark, fetched.log_start_offset):
            return
        records: bytes | FileRegion = b""
        if regions:
            records = self._records_of(regions[0])
        aborted = fetched.aborted_transactions
        # By position: names would be put into a dict, and taken out again.
        data = PartitionData(  # type: ignore[call-arg]
            entry.asked.partition,
            0,
            fetched.high_watermark,
            fetched.last_stable_offset,
            fetched.log_start_offset,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            None if aborted is None else _aborted(aborted),
            -1,
            records,
        )
        if regions:
            session = self._fetch.session
            if session is not None:
                session.move_to_end(entry)
        self._add(entry, data)

    def _records_of(self, region: FileRegion) -> bytes | FileRegion:
        """The records, where they are few enough to be a part of the answer's other bytes; else where they are."""
        count = region.count
        if self._copied_bytes + count >= _SENDFILE_BYTES_MIN:
            return region
        try:
            records = region.read()
        except StorageError:
            # Whoever sends it finds out again, and ends the connection.
            return region
        if len(records) != count:
            return region
        self._copied_bytes += count
        return records

    def _add_error(self, entry: FetchEntry, error: ErrorCode, is_read: bool) -> None:
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
        # An error is told every time. It comes with a high watermark of -1, so that its end is news as well.
        self._add(entry, data)

    def _add_leader_hint(self, entry: FetchEntry, data: PartitionData) -> None:
        fetch = self._fetch
        topic = topic_of(entry.topic, fetch.node)
        if topic is None:
            return
        self._hints = self._hints or LeaderHints(fetch.node.image, fetch.listener_name)
        hint = self._hints.leader_of(topic.name, PartitionIndex(data.partition_index))
        data.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)

    def _add(self, entry: FetchEntry, data: PartitionData) -> None:
        entry.high_watermark = data.high_watermark
        entry.log_start_offset = data.log_start_offset
        topic = entry.topic
        last = self._last
        if last is not None and topic == self._last_topic:
            last.partitions.append(data)
            return
        self._last_topic = topic
        if isinstance(topic, bytes):
            self._last = FetchableTopicResponse("", topic, [data])  # type: ignore[call-arg]
        else:
            self._last = FetchableTopicResponse(topic, ZERO_UUID, [data])  # type: ignore[call-arg]
        self._topics.append(self._last)


def topic_of(topic: str | bytes, node: Node) -> Topic | None:
    """The topic that a fetch means by a name, or by an id."""
    if isinstance(topic, bytes):
        return node.image.topics.get(TopicId(topic))
    return node.image.topic(TopicName(topic))


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


def _aborted(transactions: Sequence[StoredAbort]) -> list[AbortedTransaction]:
    return [AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in transactions]
