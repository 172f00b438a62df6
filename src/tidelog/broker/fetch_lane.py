"""The short way of a Fetch request: a consumer that reads on, without making a message of its request or of the answer.

    lane.take(connection, frame, begun_ns)      True: the request is plain; it is answered, or will be

Almost every Fetch of a consumer outside of a session (librdkafka opens none) is alike: a version of today, any byte is enough,
and every partition is here and readable at the offset. A compiled kernel reads such a request, and its answer is packed by
hand. Whatever else there may be to a request is not taken, not even in part, and goes through `handlers.fetch`.

A fetch that finds nothing waits as one of `delayed_fetch` does: it watches its partitions and reads again what has changed. If it
then meets an error, the handler's own code says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import Any

from tidelog.broker.caller import Authorizer, Caller
from tidelog.broker.delayed_fetch import WAIT_MS_MAX
from tidelog.broker.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchEntry
from tidelog.broker.handlers.fetch import READ_COMMITTED, TOPIC_ID_VERSION, answer_of_read
from tidelog.broker.node_view import Node
from tidelog.kernel_choice import load
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.data_plane_config import FETCH_MAX_BYTES, RACK_AWARE_SELECTOR, REPLICA_SELECTOR_CLASS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.model.timers import Timer
from tidelog.net.connection import AnswerSlot, Connection
from tidelog.net.output_queue import SENDFILE_BYTES_MIN, Part
from tidelog.replication.partition import Diverged, Partition
from tidelog.replication.partitions import TopicReplicas
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.file_region import FileRegion
from tidelog.wire.codec import encode_parts, parts_bytes
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest
from tidelog.wire.varint import write_uvarint

_read_fetch = load("tidelog.wire.kernels", "fetch_kernel").read_fetch

FETCH_KEY = FetchRequest.api_key

_READ = AclOperation.READ
_TOPIC = ResourceType.TOPIC
_HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
_LAST_STABLE_OFFSET = FetchIsolation.LAST_STABLE_OFFSET

# Correlation id and its tagged fields, no throttling, no error, the session.
_HEAD = Layout(">iBihi")
# Index, no error, high watermark, last stable offset, log start offset.
_PARTITION = Layout(">ihqqq")
_ABORTED = Layout(">qqB")
_ENVELOPE = Layout(">iB")
# No aborted transactions were asked for, or none are there; no other replica to read from.
_NO_LIST = b"\0\xff\xff\xff\xff"
_EMPTY_LIST = b"\1\xff\xff\xff\xff"
_NO_REPLICA = b"\xff\xff\xff\xff"

# The topic as the request names it, the partition's number, the leader's epoch, the offset, and the most bytes.
Asked = tuple[bytes, int, int, int, int]


class FetchLane:
    """For one listener."""

    __slots__ = ("_authorizer", "_config", "_looks_at_racks", "_max_bytes", "_node", "_now_ns", "_timers")

    def __init__(self, node: Node, authorizer: Authorizer) -> None:
        self._node = node
        self._authorizer = authorizer
        self._now_ns = node.clock.monotonic_ns
        self._timers = node.timers
        self._looks_at_racks = node.config[REPLICA_SELECTOR_CLASS] == RACK_AWARE_SELECTOR
        # Of the configuration as it was when it was last looked at.
        self._config = node.config
        self._max_bytes = node.config[FETCH_MAX_BYTES]

    def take(self, connection: Connection, frame: memoryview, begun_ns: int) -> bool:
        """Whether the request goes this way. If not, nothing of it was noted or changed."""
        # Which replica is closest to a consumer is for the handler to say. One that names no rack ends with an empty name and no
        # tagged fields.
        read = None if self._looks_at_racks and frame[-2] != 1 else _read_fetch(frame)
        if read is None:
            return False
        version, correlation_id, max_wait_ms, min_bytes, max_bytes, level, session_id, session_epoch, asked = read
        if min_bytes > 1 or not asked or session_epoch != FINAL_EPOCH or session_id != NO_SESSION:
            return False
        config = self._node.config
        if config is not self._config:
            self._config, self._max_bytes = config, config[FETCH_MAX_BYTES]
        max_bytes = min(max_bytes, self._max_bytes)
        partitions = self._partitions_of(asked, version >= TOPIC_ID_VERSION, connection)
        if max_bytes < 1 or partitions is None:
            return False
        isolation = _LAST_STABLE_OFFSET if level == READ_COMMITTED else _HIGH_WATERMARK
        results: list[Fetched] = []
        total = 0
        for partition, (_, _, epoch, offset, partition_max_bytes) in zip(partitions, asked, strict=True):
            bytes_max = max(0, min(max_bytes - total, partition_max_bytes))
            result = partition.read(
                offset, bytes_max, isolation, current_leader_epoch=epoch, min_one_batch=not total, leader_only=False
            )
            if type(result) is not Fetched:
                return False
            results.append(result)
            if result.regions:
                total += result.regions[0].count
        counts = self._node.metrics.requests[FETCH_KEY, version]
        slot = connection.expect_answer()
        if total or max_wait_ms <= 0 or min_bytes < 1:
            sent_bytes = self._answer(slot, version, correlation_id, asked, partitions, results)
            counts.answered_together(1, self._now_ns() - begun_ns, len(frame), sent_bytes)
            counts.errors[0] += 1 + len(results)
        else:
            counts.waiting += 1
            waiting = _WaitingFetch(
                self, connection, slot, version, correlation_id, asked, partitions, results, isolation, max_bytes
            )
            waiting.begun_ns = begun_ns
            waiting.request_bytes = len(frame)
            waiting.timer = self._timers.after(min(max_wait_ms, WAIT_MS_MAX), waiting.expired)
            for partition in partitions:
                partition.watch(waiting)
            waiting.local_ns = self._now_ns() - begun_ns
        return True

    def _partitions_of(self, asked: Sequence[Asked], by_id: bool, connection: Connection) -> list[Partition] | None:
        """The replicas that are to be read, each once. None: somebody else is to say what is wrong."""
        node = self._node
        partitions: list[Partition] = []
        last: bytes | None = None
        hosted: TopicReplicas = {}
        for topic, index, _, _, _ in asked:
            if topic is not last:
                # The kernel gives those of one topic the same object.
                last = topic
                if by_id:
                    known = node.image.topics.get(TopicId(topic))
                else:
                    try:
                        known = node.image.topic(TopicName(topic.decode()))
                    except UnicodeDecodeError:
                        return None
                if known is None:
                    return None
                host = connection.peer_address.host
                if not self._authorizer.allows(connection.principal, host, _READ, _TOPIC, known.name):
                    return None
                hosted = node.partitions.identified(known.topic_id)
            partition = hosted.get(index)
            if partition is None:
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
        asked: Sequence[Asked],
        partitions: Sequence[Partition],
        results: Sequence[Fetched],
        *,
        has_waited: bool = False,
    ) -> int:
        """Give the answer. How many bytes it takes."""
        if len(results) == 1 and results[0].regions and not results[0].aborted_transactions:
            parts, size = packed_one(version, correlation_id, asked[0], results[0])
        else:
            parts, size = packed(version, correlation_id, asked, results)
        if has_waited:
            # A consumer that sleeps takes long to wake, and the append that it waited for has still to be answered.
            slot.send_at_once(parts)
        else:
            slot.send(parts)
        topics = self._node.metrics.topics
        for partition, result in zip(partitions, results, strict=True):
            counts = topics[partition.topic_partition.topic]
            counts.total_fetch_requests += 1
            if result.regions:
                counts.bytes_out += result.regions[0].count
        return size

    def complete(self, fetch: _WaitingFetch) -> None:
        """Answer a fetch that has waited."""
        version = fetch.version
        counts = self._node.metrics.requests[FETCH_KEY, version]
        results: list[Fetched] = []
        for result in fetch.results:
            if type(result) is not Fetched:
                sent_bytes = self._answer_with_errors(fetch)
                break
            results.append(result)
        else:
            sent_bytes = self._answer(
                fetch.slot, version, fetch.correlation_id, fetch.asked, fetch.partitions, results, has_waited=True
            )
            counts.errors[0] += 1 + len(results)
        counts.waited(fetch.local_ns, self._now_ns() - fetch.begun_ns, fetch.request_bytes, sent_bytes)

    def _answer_with_errors(self, fetch: _WaitingFetch) -> int:
        """The same, as the handler would."""
        version = fetch.version
        by_id = version >= TOPIC_ID_VERSION
        entries = [
            FetchEntry(
                topic if by_id else topic.decode(),
                FetchPartition(
                    partition=index,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    partition_max_bytes=partition_max_bytes,
                ),
            )
            for topic, index, epoch, offset, partition_max_bytes in fetch.asked
        ]
        caller = Caller(fetch.connection, None, FETCH_KEY, version, self._authorizer)
        answer = answer_of_read(entries, fetch.partitions, fetch.results, caller, self._node)
        self._node.metrics.requests[FETCH_KEY, version].count_errors(answer)
        parts: list[Any] = [_ENVELOPE.pack(fetch.correlation_id, 0), *encode_parts(answer, version)]
        fetch.slot.send(parts)
        return parts_bytes(parts)


class _WaitingFetch:
    """A fetch that found nothing, as a watcher of its partitions."""

    __slots__ = (
        "_isolation",
        "_lane",
        "_max_bytes",
        "asked",
        "begun_ns",
        "connection",
        "correlation_id",
        "local_ns",
        "partitions",
        "request_bytes",
        "results",
        "slot",
        "timer",
        "version",
    )

    def __init__(
        self,
        lane: FetchLane,
        connection: Connection,
        slot: AnswerSlot,
        version: int,
        correlation_id: int,
        asked: Sequence[Asked],
        partitions: Sequence[Partition],
        results: Sequence[Fetched],
        isolation: FetchIsolation,
        max_bytes: int,
    ) -> None:
        self._lane = lane
        self._isolation = isolation
        self._max_bytes = max_bytes
        self.connection = connection
        self.slot = slot
        self.version = version
        self.correlation_id = correlation_id
        self.asked = asked
        self.partitions = partitions
        self.results: list[Fetched | Diverged | ErrorCode] = list(results)
        self.timer: Timer | None = None
        self.begun_ns = 0
        self.local_ns = 0
        self.request_bytes = 0

    def partition_changed(self, partition: Partition) -> None:
        """A partition that is waited for has more, or nothing any more."""
        place = 0 if len(self.partitions) == 1 else self.partitions.index(partition)
        _, _, epoch, offset, partition_max_bytes = self.asked[place]
        self.results[place] = result = partition.read(
            offset,
            max(0, min(self._max_bytes, partition_max_bytes)),
            self._isolation,
            current_leader_epoch=epoch,
            leader_only=False,
        )
        # Until now nothing was found anywhere, and any byte is enough.
        if type(result) is not Fetched or result.regions:
            self._complete()

    def expired(self) -> None:
        self._complete()

    def _complete(self) -> None:
        for partition in self.partitions:
            partition.unwatch(self)
        if self.timer is not None:
            self.timer.cancel()
        self._lane.complete(self)


# --- answers ---------------------------------------------------------------------------------------------------------------


def packed(
    version: int, correlation_id: int, asked: Sequence[Asked], results: Sequence[Fetched]
) -> tuple[list[Part], int]:
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
        records = copied_records(region, copied_bytes)
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


def packed_one(version: int, correlation_id: int, asked: Asked, result: Fetched) -> tuple[list[Part], int]:
    """`packed` for the records of one partition, without aborted transactions."""
    topic, index, _, _, _ = asked
    region = result.regions[0]
    count = region.count
    head = (
        _HEAD.pack(correlation_id, 0, 0, 0, NO_SESSION)
        + _head_of_one(version, topic)
        + _PARTITION.pack(index, 0, result.high_watermark, result.last_stable_offset, result.log_start_offset)
        + (_NO_LIST if result.aborted_transactions is None else _EMPTY_LIST)
        + _count_of_bytes(count + 1)
    )
    records = copied_records(region, 0)
    # The ends of the partition, the topic and the answer.
    parts: list[Part] = [head, region, b"\0\0\0"] if records is None else [b"".join((head, records, b"\0\0\0"))]
    return parts, len(head) + count + 3


def copied_records(region: FileRegion, copied_bytes: int) -> bytes | None:
    """The records, where they are few enough to be a part of the answer's other bytes, of which so many are records already. None
    where they leave straight from their file."""
    count = region.count
    if copied_bytes + count >= SENDFILE_BYTES_MIN:
        return None
    try:
        records = region.read()
    except StorageError:
        # Whoever sends it finds out again, and ends the connection.
        return None
    return records if len(records) == count else None


def _topic_count(asked: Sequence[Asked]) -> int:
    if len(asked) == 1:
        return 1
    return 1 + sum(asked[at][0] is not asked[at - 1][0] for at in range(1, len(asked)))


# Records of one producer are mostly of one size.
_count_of_bytes = lru_cache(maxsize=1024)(write_uvarint)


@lru_cache(maxsize=1024)
def _head_of_one(version: int, topic: bytes) -> bytes:
    """What precedes the only partition of an answer: the number of topics, and the topic."""
    return write_uvarint(2) + _topic_head(version, topic, 1)


@lru_cache(maxsize=1024)
def _topic_head(version: int, topic: bytes, partition_count: int) -> bytes:
    """What precedes a topic's partitions: its name or id, and their number."""
    name_head = b"" if version >= TOPIC_ID_VERSION else write_uvarint(len(topic) + 1)
    return name_head + topic + write_uvarint(partition_count + 1)
