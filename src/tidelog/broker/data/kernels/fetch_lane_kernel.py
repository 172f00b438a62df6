# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What every plain Fetch of a consumer runs through: `FetchLaneCore`, the quick part of `fetch_lane.FetchLane`, and the
`WaitingFetch` of one that found nothing.

This is one source for two twins: plain Python, and compiled with the types of
`_fetch_lane_kernel.pxd`. `fetch_lane` has the contract, and the answer of a fetch that meets an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct as Layout
from typing import TYPE_CHECKING, TypeAlias

from tidelog.broker.data.delayed_fetch import WAIT_MS_MAX as _LONGEST_WAIT_MS
from tidelog.broker.data.fetch_sessions import FINAL_EPOCH as _NO_EPOCH, NO_SESSION
from tidelog.broker.handlers.fetch import READ_COMMITTED as _READ_COMMITTED, TOPIC_ID_VERSION
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.data_plane_config import FETCH_MAX_BYTES, RACK_AWARE_SELECTOR, REPLICA_SELECTOR_CLASS
from tidelog.net.parts import SENDFILE_BYTES_MIN as _SENDFILE_BYTES
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.varint import write_uvarint

if TYPE_CHECKING:
    from tidelog.broker.metrics.request_counts import RequestCounts
    from tidelog.broker.requests.caller import Authorizer
    from tidelog.broker.requests.node_view import Node
    from tidelog.model.errors import ErrorCode
    from tidelog.model.timers import Timer
    from tidelog.net.connection import AnswerSlot, Connection
    from tidelog.net.parts import Part
    from tidelog.replication.partition import Diverged, Partition
    from tidelog.replication.partitions import TopicReplicas
    from tidelog.storage.file_region import FileRegion

    # The topic as the request names it, the partition's number, the leader's epoch, the offset, and the most bytes.
    Asked: TypeAlias = "tuple[bytes, int, int, int, int]"
    ReadFetch: TypeAlias = "Callable[[memoryview], tuple[int, int, int, int, int, int, int, int, list[Asked]] | None]"
    WriteFetched: TypeAlias = "Callable[[int, bytes, int, int, int, int, bool, int, bytes | None], bytearray]"

FETCH_KEY = FetchRequest.api_key

_NO_SESSION = NO_SESSION
_FINAL_EPOCH = _NO_EPOCH
_COMMITTED_LEVEL = _READ_COMMITTED
_TOPIC_ID_VERSION = TOPIC_ID_VERSION
_WAIT_MS_MAX = _LONGEST_WAIT_MS
_SENDFILE_BYTES_MIN = _SENDFILE_BYTES

_READ = AclOperation.READ
_TOPIC = ResourceType.TOPIC
_HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
_LAST_STABLE_OFFSET = FetchIsolation.LAST_STABLE_OFFSET

# Correlation id and its tagged fields, no throttling, no error, the session.
_HEAD = Layout(">iBihi")
# Index, no error, high watermark, last stable offset, log start offset.
_PARTITION = Layout(">ihqqq")
_ABORTED = Layout(">qqB")
# No aborted transactions were asked for, or none are there; no other replica to read from.
_NO_LIST = b"\0\xff\xff\xff\xff"
_EMPTY_LIST = b"\1\xff\xff\xff\xff"
_NO_REPLICA = b"\xff\xff\xff\xff"
# The ends of the partition, the topic and the answer.
_END_OF_ONE = bytes(3)


class FetchLaneCore:
    """Takes requests, answers them or lets them wait."""

    __slots__ = (
        "_authorizer",
        "_counts",
        "_counts_version",
        "_head",
        "_head_topic",
        "_head_version",
        "_looks_at_racks",
        "_max_bytes",
        "_node",
        "_now_ns",
        "_read_fetch",
        "_requests",
        "_timers",
        "_topics",
        "_write_fetched",
    )

    def __init__(self, node: Node, authorizer: Authorizer, read_fetch: ReadFetch, write_fetched: WriteFetched) -> None:
        self._node = node
        self._authorizer = authorizer
        self._read_fetch = read_fetch
        self._write_fetched = write_fetched
        self._now_ns = node.clock.monotonic_ns
        self._timers = node.timers
        self._requests = node.metrics.requests
        self._topics = node.metrics.topics
        self._counts: RequestCounts | None = None
        self._counts_version = -1
        # Of the last answer for one partition: what lies before it, and for whom.
        self._head = b""
        self._head_topic: bytes | None = None
        self._head_version = -1
        self._looks_at_racks = node.config[REPLICA_SELECTOR_CLASS] == RACK_AWARE_SELECTOR
        # As every key that is only read, it is what it was at the start.
        self._max_bytes = node.config[FETCH_MAX_BYTES]

    def _answer_with_errors(self, fetch: WaitingFetch) -> int:
        """For the subclass: give the answer, as the handler would. How many bytes it takes."""
        raise NotImplementedError

    def take(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        """Whether the request goes this way. If not, nothing of it was noted or changed."""
        return self._take(connection, frame, begun_ns)

    def _take(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        # Which replica is closest to a consumer is for the handler to say. One that names no rack ends with an empty name and no
        # tagged fields.
        size = len(frame)
        if self._looks_at_racks and (size < 2 or frame[size - 2] != 1):
            return False
        read = self._read_fetch(frame)
        if read is None:
            return False
        version, correlation_id, max_wait_ms, min_bytes, max_bytes, level, session_id, session_epoch, asked = read
        if min_bytes > 1 or not asked or session_epoch != _FINAL_EPOCH or session_id != _NO_SESSION:
            return False
        max_bytes = min(max_bytes, self._max_bytes)
        partitions = self._partitions_of(asked, version >= _TOPIC_ID_VERSION, connection)
        if max_bytes < 1 or partitions is None:
            return False
        isolation = _LAST_STABLE_OFFSET if level == _COMMITTED_LEVEL else _HIGH_WATERMARK
        results: list[Fetched] = []
        total = 0
        for number, partition in enumerate(partitions):
            _, _, epoch, offset, bytes_max = asked[number]
            bytes_max = min(bytes_max, max_bytes - total)
            bytes_max = max(bytes_max, 0)
            result = partition.read(offset, bytes_max, isolation, epoch, not total, False)
            if type(result) is not Fetched:
                return False
            results.append(result)
            if result.regions:
                total += result.regions[0].count
        counts = self._counts_of(version)
        slot = connection.expect_answer()
        if total or max_wait_ms <= 0 or min_bytes < 1:
            sent_bytes = self._answer(slot, version, correlation_id, asked, partitions, results, False)
            counts.answered_together(1, self._now_ns() - begun_ns, size, sent_bytes, 1 + len(results))
        else:
            counts.waiting += 1
            # Without arguments, which would all be put into a tuple, and taken out again by their names.
            waiting = WaitingFetch.__new__(WaitingFetch)
            waiting.lane = self
            waiting.connection = connection
            waiting.slot = slot
            waiting.version = version
            waiting.correlation_id = correlation_id
            waiting.asked = asked
            waiting.partitions = partitions
            waiting.results = results  # type: ignore[assignment] # from here on it may hold an error as well
            waiting.isolation = isolation
            waiting.max_bytes = max_bytes
            waiting.begun_ns = begun_ns
            waiting.request_bytes = size
            max_wait_ms = min(max_wait_ms, _WAIT_MS_MAX)
            waiting.timer = self._timers.after(max_wait_ms, waiting.expired)
            for partition in partitions:
                partition.watch(waiting)
            waiting.local_ns = self._now_ns() - begun_ns
        return True

    def _partitions_of(self, asked: list[Asked], by_id: bool, connection: Connection) -> list[Partition] | None:
        """The replicas that are to be read, each once. None: somebody else is to say what is wrong."""
        here = self._node.partitions
        partitions: list[Partition] = []
        last: bytes | None = None
        hosted: TopicReplicas = {}
        for topic, index, _, _, _ in asked:
            # The kernel gives those of one topic the same object.
            is_another = topic is not last
            if is_another:
                last = topic
                if by_id:
                    hosted = here.identified(topic)  # type: ignore[arg-type] # an id is these bytes
                else:
                    try:
                        hosted = here.named(topic.decode())  # type: ignore[arg-type]
                    except UnicodeDecodeError:
                        return None
            partition = hosted.get(index)
            if partition is None:
                return None
            if is_another and not self._authorizer.allows(
                connection.principal, connection.peer_address.host, _READ, _TOPIC, partition.topic_partition.topic
            ):
                return None
            partitions.append(partition)
        if len(partitions) > 1 and len(set(partitions)) != len(partitions):
            return None
        return partitions

    def _answer(
        self,
        slot: AnswerSlot,
        version: int,
        correlation_id: int,
        asked: list[Asked],
        partitions: list[Partition],
        results: list[Fetched],
        has_waited: bool,
    ) -> int:
        """Give the answer. How many bytes it takes."""
        result = results[0]
        if len(results) == 1 and result.regions and not result.aborted_transactions:
            topic, index, _, _, _ = asked[0]
            region = result.regions[0]
            count = region.count
            records = _copied_records(region, 0)
            head = self._write_fetched(
                correlation_id,
                self._head_of(version, topic),
                index,
                result.high_watermark,
                result.last_stable_offset,
                result.log_start_offset,
                result.aborted_transactions is not None,
                count,
                records,
            )
            size = len(head)
            parts: list[Part] = [head]
            if records is None:
                parts += (region, _END_OF_ONE)
                size += count + 3
        else:
            parts, size = packed(version, correlation_id, asked, results)
        if has_waited:
            # A consumer that sleeps takes long to wake, and the append that it waited for has still to be answered.
            slot.send_at_once(parts)
        else:
            slot.send(parts)
        topics = self._topics
        for number, partition in enumerate(partitions):
            regions = results[number].regions
            topics[partition.topic_partition.topic].fetched(regions[0].count if regions else 0)
        return size

    def _head_of(self, version: int, topic: bytes) -> bytes:
        """What precedes the only partition of an answer: the number of topics, and the topic."""
        if version != self._head_version or topic != self._head_topic:
            self._head = write_uvarint(2) + _topic_head(version, topic, 1)
            self._head_topic = topic
            self._head_version = version
        return self._head

    def _counts_of(self, version: int) -> RequestCounts:
        if self._counts is None or version != self._counts_version:
            self._counts = self._requests[FETCH_KEY, version]
            self._counts_version = version
        return self._counts

    def _complete(self, fetch: WaitingFetch) -> None:
        """Answer a fetch that has waited."""
        version = fetch.version
        counts = self._counts_of(version)
        without_error = 1 + len(fetch.results)
        for result in fetch.results:
            if type(result) is not Fetched:
                without_error = 0
                sent_bytes = self._answer_with_errors(fetch)
                break
        else:
            sent_bytes = self._answer(
                fetch.slot,
                version,
                fetch.correlation_id,
                fetch.asked,
                fetch.partitions,
                fetch.results,  # type: ignore[arg-type] # none of them is an error
                True,
            )
        elapsed_ns = self._now_ns() - fetch.begun_ns
        counts.waited(fetch.local_ns, elapsed_ns, fetch.request_bytes, sent_bytes, without_error)


class WaitingFetch:
    """A fetch that found nothing, as a watcher of its partitions."""

    __slots__ = (
        "asked",
        "begun_ns",
        "connection",
        "correlation_id",
        "isolation",
        "lane",
        "local_ns",
        "max_bytes",
        "partitions",
        "request_bytes",
        "results",
        "slot",
        "timer",
        "version",
    )

    lane: FetchLaneCore
    connection: Connection
    slot: AnswerSlot
    version: int
    correlation_id: int
    asked: list[Asked]
    partitions: list[Partition]
    results: list[Fetched | Diverged | ErrorCode]
    isolation: FetchIsolation
    max_bytes: int
    timer: Timer
    begun_ns: int
    local_ns: int
    request_bytes: int

    def partition_changed(self, partition: Partition) -> None:
        """A partition that is waited for has more, or nothing any more."""
        self._partition_changed(partition)

    def expired(self) -> None:
        """Nothing has come in time."""
        self._complete()

    def _partition_changed(self, partition: Partition) -> None:
        place = 0 if len(self.partitions) == 1 else self.partitions.index(partition)
        _, _, epoch, offset, bytes_max = self.asked[place]
        bytes_max = min(bytes_max, self.max_bytes)
        bytes_max = max(bytes_max, 0)
        result = partition.read(offset, bytes_max, self.isolation, epoch, True, False)
        self.results[place] = result
        # Until now nothing was found anywhere, and any byte is enough.
        if type(result) is not Fetched or result.regions:
            self._complete()

    def _complete(self) -> None:
        for partition in self.partitions:
            partition.unwatch(self)
        self.timer.cancel()
        self.lane._complete(self)  # noqa: SLF001 - they are one


# --- answers ---------------------------------------------------------------------------------------------------------------


def packed(version: int, correlation_id: int, asked: list[Asked], results: list[Fetched]) -> tuple[list[Part], int]:
    """The answer in parts, and how long it is. A few records are in it already; more leave straight from their file."""
    parts: list[Part] = []
    pieces = [_HEAD.pack(correlation_id, 0, 0, 0, NO_SESSION), write_uvarint(_topic_count(asked) + 1)]
    size = 0
    copied_bytes = 0
    last: bytes | None = None
    for place, result in enumerate(results):
        topic, index, _, _, _ = asked[place]
        if topic is not last:
            if last is not None:
                pieces.append(b"\0")
            last = topic
            count = 1
            while place + count < len(asked) and asked[place + count][0] is topic:
                count += 1
            pieces.append(_topic_head(version, topic, count))
        aborted = result.aborted_transactions
        pieces.append(
            _PARTITION.pack(index, 0, result.high_watermark, result.last_stable_offset, result.log_start_offset)
        )
        if aborted:
            pieces.append(write_uvarint(len(aborted) + 1))
            pieces += [_ABORTED.pack(each.producer_id, each.first_offset, 0) for each in aborted]
            pieces.append(_NO_REPLICA)
        else:
            pieces.append(_NO_LIST if aborted is None else _EMPTY_LIST)
        if not result.regions:
            pieces.append(b"\1\0")
            continue
        region = result.regions[0]
        count = region.count
        pieces.append(write_uvarint(count + 1))
        records = _copied_records(region, copied_bytes)
        if records is not None:
            copied_bytes += count
            pieces.append(records)
        else:
            joined = b"".join(pieces)
            size += len(joined) + count
            parts += (joined, region)
            pieces = []
        pieces.append(b"\0")
    # The ends of the last topic and of the answer.
    pieces.append(b"\0\0")
    joined = b"".join(pieces)
    parts.append(joined)
    return parts, size + len(joined)


def copied_records(region: FileRegion, copied_bytes: int) -> bytes | None:
    """The records, where they are few enough to be a part of the answer's other bytes, of which so many are records already. None
    where they leave straight from their file."""
    return _copied_records(region, copied_bytes)


def _copied_records(region: FileRegion, copied_bytes: int) -> bytes | None:
    count = region.count
    if copied_bytes + count >= _SENDFILE_BYTES_MIN:
        return None
    try:
        records = region.read()
    except StorageError:
        # Whoever sends it finds out again, and ends the connection.
        return None
    return records if len(records) == count else None


def _topic_count(asked: list[Asked]) -> int:
    count = 1
    for at in range(1, len(asked)):
        if asked[at][0] is not asked[at - 1][0]:
            count += 1
    return count


@lru_cache(maxsize=1024)
def _topic_head(version: int, topic: bytes, partition_count: int) -> bytes:
    """What precedes a topic's partitions: its name or id, and their number."""
    name_head = b"" if version >= TOPIC_ID_VERSION else write_uvarint(len(topic) + 1)
    return name_head + topic + write_uvarint(partition_count + 1)
