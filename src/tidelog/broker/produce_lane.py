"""The short way of a Produce request: all plain requests of one read together, with one write for each partition.

    lane.take(connection, frame)      True: the request is plain, and is taken
    lane.finish(connection)           appends all that were taken, and answers them in their order

Almost every Produce is alike: a version of today, `acks` 1 or all, one whole and undamaged batch for each partition, for a topic
that asks nothing of its records, on a leader; and if it is in a transaction, that is open here already, or its coordinator is on
this node and lets it begin. A compiled kernel reads such a
request without making a message of it, and its answer is packed without making one either. What this leaves out of
`handlers.produce` is what cannot come out differently for such a request; whatever else there may be to it is not taken, not even
in part, and goes the ordinary way. So a refusal can only come from the append itself (a sequence out of order, a failed disk),
and is answered as the handler would.

Nothing else may look at the partitions between `take` and `finish`: `Dispatcher` finishes before it handles anything else, and at
the end of each read. Until then the batches stay where they have arrived.

Where other replicas are to be waited for, the answer is packed all the same, and leaves when they have the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct as Layout

import msgspec

from tidelog.broker.caller import Authorizer
from tidelog.broker.delayed_produce import CommitWait
from tidelog.broker.handlers.produce import appended_partition, refused_partition
from tidelog.broker.node_view import Node
from tidelog.broker.record_validation import RecordsRefused
from tidelog.broker.request_metrics import RequestCounts
from tidelog.broker.topic_metrics import TopicCounts
from tidelog.broker.transaction_admission import produce_understanding
from tidelog.kernel_choice import load
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP, TopicId, TopicName
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.pending import Pending
from tidelog.net.connection import AnswerSlot, Connection
from tidelog.replication.partition import ALL_IN_SYNC, Partition
from tidelog.replication.partitions import TopicReplicas
from tidelog.replication.roles import Leading
from tidelog.storage.append import NOT_TRANSACTIONAL, AppendInfo, AppendRefused, CheckedBatch
from tidelog.wire.frames import response_frame
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse
from tidelog.wire.varint import write_uvarint

_read_produce = load("tidelog.wire.kernels", "produce_kernel").read_produce

PRODUCE_KEY = ProduceRequest.api_key
FLEXIBLE_VERSION = 9
RECORD_ERRORS_VERSION = 8
TOPIC_ID_VERSION = 13

_WRITE = AclOperation.WRITE
_TOPIC = ResourceType.TOPIC
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

_ENVELOPE = Layout(">ii")
# Index, no error, base offset, no append time, log start offset; then no refused records and no message.
_PARTITION_V5 = Layout(">ihqqq")
_PARTITION_V8 = Layout(">ihqqqih")
_PARTITION_V9 = Layout(">ihqqqBBB")
# No throttling; with the ends of the last topic and of the answer around it.
_TAIL = b"\0\0\0\0"
_FLEXIBLE_TAIL = b"\0" + _TAIL + b"\0"

# A named tuple's own way to make one is a function in Python; this is the one below it.
_new_batch = tuple.__new__

Outcome = int | AppendInfo | AppendRefused
# What the kernel tells of a batch.
Read = tuple[bytes, int, int, int, int, int, int, int, int, int]
# The topic as the request names it, the partition's number, the partition, and the place of the batch in its run.
Placed = tuple[bytes, int, Partition, int]


class _Taken(msgspec.Struct, frozen=True):
    """One request that waits for the end of the read."""

    version: int
    correlation_id: int
    acks: int
    timeout_ms: int
    placed: Sequence[Placed]
    size_bytes: int


class ProduceLane:
    """For one listener: the connections' reads come one after the other."""

    def __init__(self, node: Node, authorizer: Authorizer) -> None:
        self._node = node
        self._authorizer = authorizer
        self._now_ns = node.clock.monotonic_ns
        self._clock_ms = node.clock.now_ms
        self._taken: list[_Taken] = []
        self._runs: dict[Partition, list[CheckedBatch]] = {}
        # Of this read: which topics may be written to, and the time.
        self._topics: dict[tuple[bytes, bool], TopicReplicas | None] = {}
        self.is_open = False
        """Whether there is something to finish."""
        self._now_ms = 0
        self._begun_ns = 0
        self._request_bytes = 0

    def take(self, connection: Connection, frame: memoryview) -> bool:
        """Whether the request goes this way. If not, nothing of it was noted or changed."""
        read = _read_produce(frame)
        if read is None:
            return False
        version, correlation_id, acks, timeout_ms, batches, transactional_id = read
        self.is_open = True
        if not self._taken:
            self._begun_ns = self._now_ns()
            self._now_ms = self._clock_ms()
        by_id = version >= TOPIC_ID_VERSION
        partitions: list[Partition] = []
        for topic, index, start, stop, _, _, max_timestamp, _, _, _ in batches:
            key = (topic, by_id)
            hosted = self._topics[key] if key in self._topics else self._look_up(key, connection)
            partition = None if hosted is None else hosted.get(index)
            if partition is None:
                return False
            config = partition.config
            if (
                not config.takes_batches_as_they_are
                or stop - start > config.batch_bytes_max
                or max_timestamp > self._now_ms + config.message_timestamp_after_max_ms
                or not partition.takes_writes(acks)
            ):
                return False
            partitions.append(partition)
        guards: Sequence[int | None] | None = None
        if transactional_id is not None:
            guards = self._guards(connection, version, transactional_id, partitions, batches)
            if guards is None:
                return False
        runs = self._runs
        placed: list[Placed] = []
        for partition, (topic, index, start, stop, _, delta, max_timestamp, producer_id, epoch, sequence) in zip(
            partitions, batches, strict=True
        ):
            run = runs.get(partition)
            if run is None:
                run = runs[partition] = []
            guard = NOT_TRANSACTIONAL if guards is None else guards[len(placed)]
            placed.append((topic, index, partition, len(run)))
            run.append(
                _new_batch(CheckedBatch, (frame[start:stop], delta, max_timestamp, producer_id, epoch, sequence, guard))
            )
        self._request_bytes += len(frame)
        self._taken.append(_Taken(version, correlation_id, acks, timeout_ms, placed, len(frame)))
        return True

    def _guards(
        self,
        connection: Connection,
        version: int,
        transactional_id: str,
        partitions: Sequence[Partition],
        batches: Sequence[Read],
    ) -> Sequence[int | None] | None:
        """The guard for each batch of a transaction. None: it has to be waited for, or there is something wrong."""
        host = connection.peer_address.host
        if not self._authorizer.allows(connection.principal, host, _WRITE, _TRANSACTIONAL_ID, transactional_id):
            return None
        producer_id, epoch = batches[0][7], batches[0][8]
        return self._node.transaction_admission.ask_at_once(
            transactional_id,
            producer_id,
            epoch,
            [(partition, batch[9]) for partition, batch in zip(partitions, batches, strict=True)],
            produce_understanding(version),
        )

    def finish(self, connection: Connection) -> None:
        """Append what was taken, one write for each partition, and answer every request."""
        taken, runs = self._taken, self._runs
        self._topics.clear()
        self.is_open = False
        if not taken:
            return
        self._taken, self._runs = [], {}
        request_bytes, self._request_bytes = self._request_bytes, 0
        if len(taken) == 1 and len(taken[0].placed) == 1:
            self._finish_one(connection, taken[0], runs)
            return
        outcomes: dict[Partition, Sequence[Outcome]] = {}
        is_committed = True
        wakeups = self._node.partitions.wakeups
        wakeups.hold()
        try:
            for partition, run in runs.items():
                outcomes[partition] = appended = partition.append_run(run)
                _count(self._node.metrics.topics[partition.topic_partition.topic], run, appended)
                log = partition.log
                is_committed = is_committed and log is not None and log.high_watermark == log.log_end_offset
        finally:
            wakeups.release()
        if not is_committed:
            for each in taken:
                self._answer_when_committed(connection, each, runs, outcomes)
            return
        answers = [_answer(each, outcomes) for each in taken]
        connection.answer_with_frames(answers)
        self._count_requests(taken, outcomes, request_bytes, answers)

    def _finish_one(self, connection: Connection, taken: _Taken, runs: dict[Partition, list[CheckedBatch]]) -> None:
        """`finish` for one request of one batch: what comes of a read where every record is to be answered soon."""
        topic, index, partition, _ = taken.placed[0]
        run = runs[partition]
        # Nobody is to be held back: there is no second partition that a watcher might wait for.
        appended = partition.append_run(run)
        outcome = appended[0]
        role = partition.role
        if type(outcome) is not int or type(role) is not Leading:
            outcomes = {partition: appended}
            _count(self._node.metrics.topics[partition.topic_partition.topic], run, appended)
            self._answer_when_committed(connection, taken, runs, outcomes)
            return
        batch = run[0]
        metrics = self._node.metrics
        topic_counts = metrics.topics[partition.topic_partition.topic]
        topic_counts.total_produce_requests += 1
        topic_counts.messages_in += batch.last_offset_delta + 1
        topic_counts.bytes_in += len(batch.view)
        log = role.log
        if taken.acks == ALL_IN_SYNC and log.high_watermark <= outcome + batch.last_offset_delta:
            self._answer_when_committed(connection, taken, runs, {partition: appended})
            return
        version = taken.version
        body = (
            _head_of_one(version, topic)
            + _packed(version, index, outcome, log.log_start_offset)
            + (_TAIL if version < FLEXIBLE_VERSION else _FLEXIBLE_TAIL)
        )
        size = 4 + len(body)
        connection.answer_with_frames((_ENVELOPE.pack(size, taken.correlation_id) + body,))
        counts = metrics.requests[PRODUCE_KEY, version]
        counts.answered_together(1, self._now_ns() - self._begun_ns, taken.size_bytes, size)
        counts.errors[0] += 1

    def _answer_when_committed(
        self,
        connection: Connection,
        taken: _Taken,
        runs: dict[Partition, list[CheckedBatch]],
        outcomes: dict[Partition, Sequence[Outcome]],
    ) -> None:
        waiting: list[tuple[int, Pending[ErrorCode]]] = []
        errors: dict[int, ErrorCode] = {}
        if taken.acks == ALL_IN_SYNC:
            for at, (_, _, partition, place) in enumerate(taken.placed):
                outcome = outcomes[partition][place]
                if type(outcome) is int:
                    last_offset = outcome + runs[partition][place].last_offset_delta
                elif type(outcome) is AppendInfo:
                    last_offset = outcome.last_offset
                else:
                    continue
                committed = partition.when_committed(last_offset + 1)
                if isinstance(committed, Pending):
                    waiting.append((at, committed))
                elif committed is not ErrorCode.NONE:
                    errors[at] = committed
        answer = _answer(taken, outcomes)
        if not waiting:
            if errors:
                answer = _answer_with_errors(taken, outcomes, errors)
            connection.answer_with_frames([answer])
            counts = self._node.metrics.requests[PRODUCE_KEY, taken.version]
            counts.answered_together(1, self._now_ns() - self._begun_ns, taken.size_bytes, len(answer) - 4)
            _count_errors(counts, taken, outcomes, errors)
            return
        waited = _Waited(self._node, connection.expect_answer(), taken, outcomes, errors, answer)
        waited.begun_ns, waited.local_ns = self._begun_ns, self._now_ns() - self._begun_ns
        waited.counts.waiting += 1
        CommitWait(waiting, self._node.timers, taken.timeout_ms, waited.done)

    def _look_up(self, key: tuple[bytes, bool], connection: Connection) -> TopicReplicas | None:
        """The replicas of a topic that this connection may write to. None: somebody else is to say what is wrong."""
        topic, by_id = key
        self._topics[key] = None
        if by_id:
            known = self._node.image.topics.get(TopicId(topic))
            if known is None:
                return None
            name = known.name
        else:
            try:
                name = TopicName(topic.decode())
            except UnicodeDecodeError:
                return None
        host = connection.peer_address.host
        if name in INTERNAL_TOPICS or not self._authorizer.allows(connection.principal, host, _WRITE, _TOPIC, name):
            return None
        hosted = self._topics[key] = self._node.partitions.named(name)
        return hosted

    def _count_requests(
        self,
        taken: Sequence[_Taken],
        outcomes: dict[Partition, Sequence[Outcome]],
        request_bytes: int,
        answers: Sequence[bytes],
    ) -> None:
        # A connection speaks one version, so the read's sums are put to its last one.
        counts = self._node.metrics.requests[PRODUCE_KEY, taken[-1].version]
        response_bytes = sum(map(len, answers)) - 4 * len(answers)
        counts.answered_together(len(taken), self._now_ns() - self._begun_ns, request_bytes, response_bytes)
        errors = counts.errors
        for appended in outcomes.values():
            for outcome in appended:
                errors[outcome.error if type(outcome) is AppendRefused else 0] += 1


def _count_errors(
    counts: RequestCounts,
    taken: _Taken,
    outcomes: Mapping[Partition, Sequence[Outcome]],
    errors: Mapping[int, ErrorCode],
) -> None:
    """Of one request. `errors` are of batches that were appended, by their place in it."""
    for at, (_, _, partition, place) in enumerate(taken.placed):
        outcome = outcomes[partition][place]
        counts.errors[outcome.error if type(outcome) is AppendRefused else errors.get(at, 0)] += 1


class _Waited:
    """A request whose records are appended, and whose answer is packed, while other replicas fetch them."""

    __slots__ = ("_answer", "_errors", "_node", "_outcomes", "_slot", "_taken", "begun_ns", "counts", "local_ns")

    def __init__(
        self,
        node: Node,
        slot: AnswerSlot,
        taken: _Taken,
        outcomes: dict[Partition, Sequence[Outcome]],
        errors: dict[int, ErrorCode],
        answer: bytes,
    ) -> None:
        self._node = node
        self._slot = slot
        self._taken = taken
        self._outcomes = outcomes
        self._errors = errors
        self._answer = answer
        self.counts = node.metrics.requests[PRODUCE_KEY, taken.version]
        self.begun_ns = 0
        self.local_ns = 0

    def done(self, errors: dict[int, ErrorCode]) -> None:
        """All that is to be known of the replicas is known."""
        taken, counts, answer = self._taken, self.counts, self._answer
        errors.update(self._errors)
        if errors:
            answer = _answer_with_errors(taken, self._outcomes, errors)
        self._slot.send((memoryview(answer)[4:],))
        elapsed_ns = self._node.clock.monotonic_ns() - self.begun_ns
        counts.waited(self.local_ns, elapsed_ns, taken.size_bytes, len(answer) - 4)
        _count_errors(counts, taken, self._outcomes, errors)


def _count(counts: TopicCounts, run: Sequence[CheckedBatch], outcomes: Sequence[Outcome]) -> None:
    counts.total_produce_requests += len(run)
    for batch, outcome in zip(run, outcomes, strict=True):
        if type(outcome) is int or (type(outcome) is AppendInfo and not outcome.is_duplicate):
            counts.messages_in += batch.last_offset_delta + 1
            counts.bytes_in += len(batch.view)
        elif type(outcome) is AppendRefused:
            counts.produce_refused(outcome.error, len(batch.view))


# --- answers ---------------------------------------------------------------------------------------------------------------


def _answer(taken: _Taken, outcomes: dict[Partition, Sequence[Outcome]]) -> bytes:
    """The whole answer to one request, its size in front."""
    version = taken.version
    placed = taken.placed
    parts = [_topics_head(version, _topic_count(placed))]
    last: bytes | None = None
    for at, (topic, index, partition, place) in enumerate(placed):
        outcome = outcomes[partition][place]
        if isinstance(outcome, AppendRefused):
            return _answer_with_refusals(taken, outcomes)
        log = partition.log
        if log is None:
            # The disk failed in a later run of this read.
            return _answer_with_refusals(taken, outcomes)
        if topic != last:
            if last is not None and version >= FLEXIBLE_VERSION:
                parts.append(b"\0")
            last = topic
            count = 1
            while at + count < len(placed) and placed[at + count][0] == topic:
                count += 1
            parts.append(_topic_head(version, topic, count))
        first_offset = outcome.first_offset if isinstance(outcome, AppendInfo) else outcome
        parts.append(_packed(version, index, first_offset, log.log_start_offset))
    parts.append(_TAIL if version < FLEXIBLE_VERSION else _FLEXIBLE_TAIL)
    size = 4 + sum(map(len, parts))
    return b"".join((_ENVELOPE.pack(size, taken.correlation_id), *parts))


def _packed(version: int, index: int, first_offset: int, log_start_offset: int) -> bytes:
    """One partition whose batch was appended."""
    if version >= FLEXIBLE_VERSION:
        return _PARTITION_V9.pack(index, 0, first_offset, NO_TIMESTAMP, log_start_offset, 1, 0, 0)
    if version >= RECORD_ERRORS_VERSION:
        return _PARTITION_V8.pack(index, 0, first_offset, NO_TIMESTAMP, log_start_offset, 0, -1)
    return _PARTITION_V5.pack(index, 0, first_offset, NO_TIMESTAMP, log_start_offset)


def _topic_count(placed: Sequence[Placed]) -> int:
    if len(placed) == 1:
        return 1
    return 1 + sum(placed[at][0] != placed[at - 1][0] for at in range(1, len(placed)))


@lru_cache(maxsize=64)
def _topics_head(version: int, count: int) -> bytes:
    """What follows the correlation id: the rest of the header, and the number of topics."""
    if version < FLEXIBLE_VERSION:
        return count.to_bytes(4, "big")
    return b"\0" + write_uvarint(count + 1)


@lru_cache(maxsize=1024)
def _head_of_one(version: int, topic: bytes) -> bytes:
    """What precedes the only partition of an answer."""
    return _topics_head(version, 1) + _topic_head(version, topic, 1)


@lru_cache(maxsize=1024)
def _topic_head(version: int, topic: bytes, partition_count: int) -> bytes:
    """What precedes a topic's partitions: its name or id, and their number."""
    if version < FLEXIBLE_VERSION:
        return len(topic).to_bytes(2, "big") + topic + partition_count.to_bytes(4, "big")
    name_head = b"" if version >= TOPIC_ID_VERSION else write_uvarint(len(topic) + 1)
    return name_head + topic + write_uvarint(partition_count + 1)


def _answer_with_refusals(taken: _Taken, outcomes: dict[Partition, Sequence[Outcome]]) -> bytes:
    return _answer_with_errors(taken, outcomes, {})


def _answer_with_errors(
    taken: _Taken, outcomes: dict[Partition, Sequence[Outcome]], errors: Mapping[int, ErrorCode]
) -> bytes:
    """The whole answer, as the handler would. `errors` are of batches that were appended, by their place in the request."""
    topics: list[TopicProduceResponse] = []
    last: bytes | None = None
    for at, (topic, index, partition, place) in enumerate(taken.placed):
        if topic != last:
            last = topic
            if taken.version >= TOPIC_ID_VERSION:
                topics.append(TopicProduceResponse(topic_id=topic, partition_responses=[]))
            else:
                topics.append(TopicProduceResponse(name=topic.decode(), topic_id=bytes(16), partition_responses=[]))
        outcome = outcomes[partition][place]
        if isinstance(outcome, AppendRefused):
            answer = refused_partition(index, RecordsRefused(outcome.error, outcome.reason), partition)
        else:
            first_offset = outcome.first_offset if isinstance(outcome, AppendInfo) else outcome
            log = partition.log
            answer = appended_partition(index, first_offset, -1 if log is None else log.log_start_offset)
            answer.error_code = errors.get(at, ErrorCode.NONE)
        topics[-1].partition_responses.append(answer)
    return response_frame(ProduceResponse(responses=topics), taken.version, taken.correlation_id)
