# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What every plain Produce request runs through: `ProduceLaneCore`, the quick part of `produce_lane.ProduceLane`.

This is one source for two twins: plain Python, and compiled with the types of
`_produce_lane_kernel.pxd`. `produce_lane` has the contract, and all that is rare: transactions, other replicas to wait for,
refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import TYPE_CHECKING, TypeAlias

from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.ids import NO_TIMESTAMP as _NO_TIMESTAMP
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.replication.partition import ALL_IN_SYNC as _ALL_IN_SYNC
from tidelog.replication.roles import Leading
from tidelog.storage.append import AppendInfo, AppendRefused, AppendRule
from tidelog.storage.checked_batches import CheckedBatch, checked_in
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.record_batch import CODEC_MASK, TRANSACTIONAL_BIT
from tidelog.wire.varint import write_uvarint

if TYPE_CHECKING:
    from tidelog.broker.metrics.request_counts import RequestCounts
    from tidelog.broker.metrics.topic_counts import TopicCounts
    from tidelog.broker.requests.caller import Authorizer
    from tidelog.broker.requests.node_view import Node
    from tidelog.net.connection import Connection
    from tidelog.replication.partition import Partition
    from tidelog.replication.partitions import TopicReplicas

    Outcome: TypeAlias = "int | AppendInfo | AppendRefused"
    # What the kernel that reads requests tells of a batch: the topic, the partition, and where in the frame it begins and ends.
    Read: TypeAlias = "tuple[bytes, int, int, int]"
    # The topic as the request names it, the partition's number, the partition, and the place of the batch in its run.
    Placed: TypeAlias = "tuple[bytes, int, Partition, int]"
    ReadProduce: TypeAlias = "Callable[[memoryview], tuple[int, int, int, int, list[Read], str | None] | None]"
    WriteProduced: TypeAlias = "Callable[[int, int, bytes, int, int, int], bytes]"

PRODUCE_KEY = ProduceRequest.api_key
FLEXIBLE_VERSION = 9
RECORD_ERRORS_VERSION = 8
TOPIC_ID_VERSION = 13

_FLEXIBLE_VERSION = FLEXIBLE_VERSION
_RECORD_ERRORS_VERSION = RECORD_ERRORS_VERSION
_TOPIC_ID_VERSION = TOPIC_ID_VERSION
_ACKS_OF_ALL = _ALL_IN_SYNC

_WRITE = AclOperation.WRITE
_TOPIC = ResourceType.TOPIC

_ENVELOPE = Layout(">ii")
# Index, no error, base offset, no append time, log start offset; then no refused records and no message.
_PARTITION_V5 = Layout(">ihqqq")
_PARTITION_V8 = Layout(">ihqqqih")
_PARTITION_V9 = Layout(">ihqqqBBB")
# No throttling; with the ends of the last topic and of the answer around it.
_TAIL = b"\0\0\0\0"
_FLEXIBLE_TAIL = b"\0" + _TAIL + b"\0"

_LEADER = AppendRule.LEADER
_CODEC_MASK = CODEC_MASK
_TRANSACTIONAL_BIT = TRANSACTIONAL_BIT


class TakenProduce:
    """One request that waits for the end of the read."""

    __slots__ = ("acks", "correlation_id", "placed", "size_bytes", "timeout_ms", "version")

    version: int
    correlation_id: int
    acks: int
    timeout_ms: int
    placed: list[Placed]
    size_bytes: int


class ProduceLaneCore:
    """Takes requests, appends and answers them. What is rare it asks of its subclass."""

    __slots__ = (
        "_authorizer",
        "_begun_ns",
        "_clock_ms",
        "_counts",
        "_counts_version",
        "_head",
        "_head_topic",
        "_head_version",
        "_hosted",
        "_is_by_id",
        "_node",
        "_now_ms",
        "_now_ns",
        "_read_produce",
        "_request_bytes",
        "_requests",
        "_runs",
        "_taken",
        "_topic",
        "_topic_counts",
        "_write_produced",
        "is_open",
    )

    def __init__(
        self, node: Node, authorizer: Authorizer, read_produce: ReadProduce, write_produced: WriteProduced
    ) -> None:
        self._node = node
        self._authorizer = authorizer
        self._read_produce = read_produce
        self._write_produced = write_produced
        self._requests = node.metrics.requests
        self._topic_counts = node.metrics.topics
        self._now_ns = node.clock.monotonic_ns
        self._clock_ms = node.clock.now_ms
        self._taken: list[TakenProduce] = []
        self._runs: dict[Partition, list[CheckedBatch]] = {}
        # Of this read: the topic that was written to last, or is not to be written to here, and the time.
        self._topic: bytes | None = None
        self._is_by_id = False
        self._hosted: TopicReplicas | None = None
        # Of the last answer to one batch: what lies before its partition, and for whom.
        self._head = b""
        self._head_topic: bytes | None = None
        self._head_version = -1
        self._counts: RequestCounts | None = None
        self._counts_version = -1
        self.is_open = False
        """Whether there is something to finish."""
        self._now_ms = 0
        self._begun_ns = 0
        self._request_bytes = 0

    # For the subclass to say.

    def _guards(
        self,
        connection: Connection,
        version: int,
        transactional_id: str,
        partitions: Sequence[Partition],
        batches: Sequence[CheckedBatch],
    ) -> Sequence[int | None] | None:
        raise NotImplementedError

    def _answer_when_committed(
        self,
        connection: Connection,
        taken: TakenProduce,
        runs: Mapping[Partition, Sequence[CheckedBatch]],
        outcomes: Mapping[Partition, Sequence[Outcome]],
    ) -> None:
        raise NotImplementedError

    def _refusal(self, taken: TakenProduce, outcomes: Mapping[Partition, Sequence[Outcome]]) -> bytes:
        raise NotImplementedError

    def take(self, connection: Connection, frame: memoryview) -> bool:
        """Whether the request goes this way. If not, nothing of it was noted or changed."""
        return self._take(connection, frame)

    def finish(self, connection: Connection) -> None:
        """Append what was taken, one write for each partition, and answer every request."""
        self._finish(connection)

    def _take(self, connection: Connection, frame: memoryview) -> bool:
        read = self._read_produce(frame)
        if read is None:
            return False
        version, correlation_id, acks, timeout_ms, stretches, transactional_id = read
        self.is_open = True
        if not self._taken:
            self._begun_ns = self._now_ns()
            self._now_ms = self._clock_ms()
        by_id = version >= _TOPIC_ID_VERSION
        special = 0 if transactional_id is None else _TRANSACTIONAL_BIT
        partitions: list[Partition] = []
        batches: list[CheckedBatch] = []
        for topic, index, start, stop in stretches:
            if self._topic is None or by_id != self._is_by_id or topic != self._topic:
                self._topic = topic
                self._is_by_id = by_id
                self._hosted = self._look_up(topic, by_id, connection)
            hosted = self._hosted
            partition = None if hosted is None else hosted.get(index)
            if partition is None:
                return False
            batch = checked_in(frame, start, stop)
            # No control batch, none with the time of the append, and in a transaction where the request is in one.
            if batch is None or batch.attributes & ~_CODEC_MASK != special:
                return False
            max_timestamp = batch.max_timestamp
            config = partition.config
            bytes_max = config.batch_bytes_max
            ahead_max_ms = config.message_timestamp_after_max_ms
            if (
                not config.takes_batches_as_they_are
                or stop - start > bytes_max
                # Both numbers may be as large as they get: their sum need not fit into one of C's.
                or (max_timestamp > self._now_ms and max_timestamp - self._now_ms > ahead_max_ms)
                or not partition.takes_writes(acks)
            ):
                return False
            partitions.append(partition)
            batches.append(batch)
        guards: Sequence[int | None] | None = None
        if transactional_id is not None:
            if not _of_one_producer(batches):
                return False
            guards = self._guards(connection, version, transactional_id, partitions, batches)
            if guards is None:
                return False
        runs = self._runs
        placed: list[Placed] = []
        for number, partition in enumerate(partitions):
            topic, index, _, _ = stretches[number]
            batch = batches[number]
            if guards is not None:
                batch.guard = guards[number]
            run = runs.get(partition)
            if run is None:
                run = runs[partition] = []
            placed.append((topic, index, partition, len(run)))
            run.append(batch)
        size = len(frame)
        self._request_bytes += size
        # Without arguments, which would all be put into a tuple, and taken out again by their names.
        taken = TakenProduce.__new__(TakenProduce)
        taken.version = version
        taken.correlation_id = correlation_id
        taken.acks = acks
        taken.timeout_ms = timeout_ms
        taken.placed = placed
        taken.size_bytes = size
        self._taken.append(taken)
        return True

    def _look_up(self, topic: bytes, by_id: bool, connection: Connection) -> TopicReplicas | None:
        """The replicas of a topic that this connection may write to. None: somebody else is to say what is wrong."""
        if by_id:
            known = self._node.image.topics.get(topic)  # type: ignore[call-overload] # an id is these bytes
            if known is None:
                return None
            name = known.name
        else:
            try:
                name = topic.decode()
            except UnicodeDecodeError:
                return None
        if name in INTERNAL_TOPICS or not self._authorizer.allows(
            connection.principal, connection.peer_address.host, _WRITE, _TOPIC, name
        ):
            return None
        return self._node.partitions.named(name)

    def _finish(self, connection: Connection) -> None:
        taken, runs = self._taken, self._runs
        self._topic = None
        self.is_open = False
        if not taken:
            return
        self._taken, self._runs = [], {}
        request_bytes, self._request_bytes = self._request_bytes, 0
        first = taken[0]
        if len(taken) == 1 and len(first.placed) == 1:
            self._finish_one(connection, first, runs)
            return
        topics = self._topic_counts
        outcomes: dict[Partition, Sequence[Outcome]] = {}
        is_committed = True
        wakeups = self._node.partitions.wakeups
        wakeups.hold()
        try:
            for partition, run in runs.items():
                # What it takes to write with these acks was there when they were taken.
                outcomes[partition] = appended = partition.append(run, _LEADER, 1)
                count_run(topics[partition.topic_partition.topic], run, appended)
                log = partition.log
                is_committed = is_committed and log is not None and log.high_watermark == log.log_end_offset
        finally:
            wakeups.release()
        if not is_committed:
            for each in taken:
                self._answer_when_committed(connection, each, runs, outcomes)
            return
        answers = [self._answer(each, outcomes) for each in taken]
        connection.answer_with_frames(answers)
        # A connection speaks one version, so the read's sums are put to its first one.
        counts = self._counts_of(first.version)
        response_bytes = -4 * len(answers)
        for answer in answers:
            response_bytes += len(answer)
        counts.answered_together(len(taken), self._now_ns() - self._begun_ns, request_bytes, response_bytes)
        errors = counts.errors
        for each_run in outcomes.values():
            for outcome in each_run:
                errors[outcome.error if type(outcome) is AppendRefused else 0] += 1

    def _finish_one(
        self, connection: Connection, taken: TakenProduce, runs: dict[Partition, list[CheckedBatch]]
    ) -> None:
        """`finish` for one request of one batch: what comes of a read where every record is to be answered soon."""
        topic, index, partition, _ = taken.placed[0]
        run = runs[partition]
        # Nobody is to be held back: there is no second partition that a watcher might wait for.
        appended = partition.append(run, _LEADER, 1)
        outcome = appended[0]
        role = partition.role
        topic_counts = self._topic_counts[partition.topic_partition.topic]
        if type(outcome) is not int or type(role) is not Leading:
            count_run(topic_counts, run, appended)
            self._answer_when_committed(connection, taken, runs, {partition: appended})
            return
        batch = run[0]
        delta = batch.last_offset_delta
        topic_counts.produced(1, delta + 1, batch.size_bytes)
        log = role.log
        if taken.acks == _ACKS_OF_ALL and log.high_watermark <= outcome + delta:
            self._answer_when_committed(connection, taken, runs, {partition: appended})
            return
        version = taken.version
        answer = self._write_produced(
            version, taken.correlation_id, self._head_of(version, topic), index, outcome, log.log_start_offset
        )
        connection.answer_with_frames((answer,))
        counts = self._counts_of(version)
        counts.answered_together(1, self._now_ns() - self._begun_ns, taken.size_bytes, len(answer) - 4, 1)

    def _head_of(self, version: int, topic: bytes) -> bytes:
        """What precedes the only partition of an answer."""
        if version != self._head_version or topic != self._head_topic:
            self._head = _topics_head(version, 1) + _topic_head(version, topic, 1)
            self._head_topic = topic
            self._head_version = version
        return self._head

    def _counts_of(self, version: int) -> RequestCounts:
        if self._counts is None or version != self._counts_version:
            self._counts = self._requests[PRODUCE_KEY, version]
            self._counts_version = version
        return self._counts

    def answer_to(self, taken: TakenProduce, outcomes: Mapping[Partition, Sequence[Outcome]]) -> bytes:
        """The whole answer to one request, its size in front."""
        return self._answer(taken, outcomes)

    def _answer(self, taken: TakenProduce, outcomes: Mapping[Partition, Sequence[Outcome]]) -> bytes:
        version = taken.version
        placed = taken.placed
        if len(placed) == 1:
            topic, index, partition, place = placed[0]
            outcome = outcomes[partition][place]
            log = partition.log
            # Where there is no log any more, the disk failed in a later run of this read.
            if type(outcome) is AppendRefused or log is None:
                return self._refusal(taken, outcomes)
            first_offset = outcome if type(outcome) is int else outcome.first_offset  # type: ignore[union-attr]
            return self._write_produced(
                version, taken.correlation_id, self._head_of(version, topic), index, first_offset, log.log_start_offset
            )
        parts = [_topics_head(version, _topic_count(placed))]
        last: bytes | None = None
        for at, (topic, index, partition, place) in enumerate(placed):
            outcome = outcomes[partition][place]
            log = partition.log
            if type(outcome) is AppendRefused or log is None:
                return self._refusal(taken, outcomes)
            if topic != last:
                if last is not None and version >= _FLEXIBLE_VERSION:
                    parts.append(b"\0")
                last = topic
                count = 1
                while at + count < len(placed) and placed[at + count][0] == topic:
                    count += 1
                parts.append(_topic_head(version, topic, count))
            first_offset = outcome if type(outcome) is int else outcome.first_offset  # type: ignore[union-attr]
            parts.append(_packed(version, index, first_offset, log.log_start_offset))
        parts.append(_TAIL if version < _FLEXIBLE_VERSION else _FLEXIBLE_TAIL)
        size = 4 + sum(map(len, parts))
        return b"".join((_ENVELOPE.pack(size, taken.correlation_id), *parts))


def count_run(counts: TopicCounts, run: Sequence[CheckedBatch], outcomes: Sequence[Outcome]) -> None:
    """What became of the batches of one partition, for its topic's metrics."""
    messages = 0
    total_bytes = 0
    for number, batch in enumerate(run):
        outcome = outcomes[number]
        if type(outcome) is int or (type(outcome) is AppendInfo and not outcome.is_duplicate):
            messages += batch.record_count
            total_bytes += batch.size_bytes
        elif type(outcome) is AppendRefused:
            counts.produce_refused(outcome.error, batch.size_bytes)
    counts.produced(len(run), messages, total_bytes)


def _of_one_producer(batches: Sequence[CheckedBatch]) -> bool:
    """Whether batches of a transaction are all of the producer that has it."""
    first = batches[0]
    for batch in batches:
        if batch.producer_id != first.producer_id or batch.producer_epoch != first.producer_epoch:
            return False
    return first.producer_id >= 0


def _packed(version: int, index: int, first_offset: int, log_start_offset: int) -> bytes:
    """One partition whose batch was appended."""
    if version >= _FLEXIBLE_VERSION:
        return _PARTITION_V9.pack(index, 0, first_offset, _NO_TIMESTAMP, log_start_offset, 1, 0, 0)
    if version >= _RECORD_ERRORS_VERSION:
        return _PARTITION_V8.pack(index, 0, first_offset, _NO_TIMESTAMP, log_start_offset, 0, -1)
    return _PARTITION_V5.pack(index, 0, first_offset, _NO_TIMESTAMP, log_start_offset)


def _topic_count(placed: Sequence[Placed]) -> int:
    count = 1
    for at in range(1, len(placed)):
        if placed[at][0] != placed[at - 1][0]:
            count += 1
    return count


@lru_cache(maxsize=64)
def _topics_head(version: int, count: int) -> bytes:
    """What follows the correlation id: the rest of the header, and the number of topics."""
    if version < FLEXIBLE_VERSION:
        return count.to_bytes(4, "big")
    return b"\0" + write_uvarint(count + 1)


@lru_cache(maxsize=1024)
def _topic_head(version: int, topic: bytes, partition_count: int) -> bytes:
    """What precedes a topic's partitions: its name or id, and their number."""
    if version < FLEXIBLE_VERSION:
        return len(topic).to_bytes(2, "big") + topic + partition_count.to_bytes(4, "big")
    name_head = b"" if version >= TOPIC_ID_VERSION else write_uvarint(len(topic) + 1)
    return name_head + topic + write_uvarint(partition_count + 1)
