# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The answer to a Produce while it is made: from the outcomes of its batches, and of those who must have copied them.

add_topic(name, topic_id)                    room for a topic's partitions, as the request names it
append_run(batches, required_acks, topics)   appends batches of one partition: the entry of each tells its outcome
finished(listener_name, node)                the response, or a `Pending` where other replicas are waited for
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.data.delayed_produce import DelayedProduce
from tidelog.broker.data.leader_hints import LeaderHints
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, NO_TIMESTAMP, PartitionIndex, TopicId, TopicName
from tidelog.model.pending import Pending, after
from tidelog.replication.partition import ALL_IN_SYNC
from tidelog.storage.append import AppendInfo, AppendRefused, AppendRule
from tidelog.wire.typed.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.data.record_validation import RecordsRefused
    from tidelog.broker.metrics.topic_counts import TopicCounts
    from tidelog.broker.metrics.topic_metrics import TopicMetrics
    from tidelog.broker.requests.answering import Served
    from tidelog.broker.requests.node_view import Node
    from tidelog.replication.partition import Partition
    from tidelog.storage.append import AppendOutcome
    from tidelog.storage.checked_batches import CheckedBatch

TOPIC_ID_VERSION = 13
LEADER_HINT_VERSION = 10

# Enumeration members are slow to look up, and these are asked for by every request.
_LEADER = AppendRule.LEADER
_NONE = ErrorCode.NONE

# The same for this module alone: what C knows by its type, Python does not see.
_ALL_IN_SYNC = ALL_IN_SYNC
_LEADER_HINT_VERSION = LEADER_HINT_VERSION
_NO_OFFSET = NO_OFFSET
_NO_TIMESTAMP = NO_TIMESTAMP


class ProduceAnswer:
    """The answer to one request."""

    __slots__ = (
        "acks",
        "correlation_id",
        "has_errors",
        "request_bytes",
        "response",
        "sent_bytes",
        "served",
        "timeout_ms",
        "traced",
        "version",
        "waiting",
    )

    # Of one that is sent when its gather closes: the dispatcher says what takes it to its sender.
    served: Served
    correlation_id: int
    request_bytes: int
    sent_bytes: int

    def __init__(self, acks: int, timeout_ms: int, version: int) -> None:
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.version = version
        # Without arguments, which would all be put into a tuple, and taken out again.
        response = ProduceResponse.__new__(ProduceResponse)
        response.responses = []
        response.throttle_time_ms = 0
        response.node_endpoints = []
        self.response = response
        self.has_errors = False
        # The entries of batches that other replicas are still to copy, and what tells when they have.
        self.waiting: list[tuple[PartitionProduceResponse, Pending[ErrorCode]]] | None = None
        # What tells the listeners of its partitions that it is answered; None where there are none.
        self.traced: TracedProduce | None = None

    def add_topic(self, name: str, topic_id: bytes) -> list[PartitionProduceResponse]:
        """Room for the entries of the next topic."""
        topic = TopicProduceResponse.__new__(TopicProduceResponse)
        entries: list[PartitionProduceResponse] = []
        topic.name = name
        topic.topic_id = topic_id
        topic.partition_responses = entries
        self.response.responses.append(topic)
        return entries

    def refuse(
        self, entries: list[PartitionProduceResponse], index: int, refused: RecordsRefused, partition: Partition | None
    ) -> None:
        """The next entry: nothing was appended to a partition, and why."""
        log = None if partition is None else partition.log
        entry = _next_entry(entries, index)
        entry.error_code = refused.error
        entry.log_start_offset = _NO_OFFSET if log is None else log.log_start_offset
        entry.record_errors = list(refused.record_errors)
        entry.error_message = refused.reason
        self.has_errors = True

    def finished(self, listener_name: str, node: Node) -> ProduceResponse | Pending[ProduceResponse]:
        """What is sent, once all of its batches were appended or refused."""
        if self.has_errors and self.version >= _LEADER_HINT_VERSION:
            _add_leader_hints(self.response, self.version, listener_name, node)
        traced = self.traced
        if self.waiting is None:
            if traced is not None:
                traced.answered()
            return self.response
        delayed = DelayedProduce(self.response, self.waiting, node.timers, self.timeout_ms)
        return delayed.answer if traced is None else after(delayed.answer, traced.answered_with)


class ProducedBatch:
    """One batch of a request on its way into its partition."""

    __slots__ = ("answer", "batch", "entry", "partition")

    answer: ProduceAnswer
    entry: PartitionProduceResponse
    batch: CheckedBatch
    partition: Partition


def produced_batch(
    answer: ProduceAnswer,
    entries: list[PartitionProduceResponse],
    index: int,
    batch: CheckedBatch,
    partition: Partition,
) -> ProducedBatch:
    """A batch that is to be appended, with the next entry of its topic for its outcome."""
    produced = ProducedBatch.__new__(ProducedBatch)
    produced.answer = answer
    produced.entry = _next_entry(entries, index)
    produced.batch = batch
    produced.partition = partition
    return produced


class TracedProduce:
    """A request of which somebody listens to a partition."""

    __slots__ = ("_batches", "_client_id", "_correlation_id")

    def __init__(self, client_id: str | None, correlation_id: int) -> None:
        self._client_id = client_id
        self._correlation_id = correlation_id
        self._batches: list[tuple[Partition, PartitionProduceResponse]] = []

    def received(self, produced: ProducedBatch) -> None:
        trace = produced.partition.trace
        if trace is not None:
            self._batches.append((produced.partition, produced.entry))
            trace.produce_received(produced.batch, self._client_id, self._correlation_id, produced.answer.acks)

    def answered(self) -> None:
        """The answer is on its way, with the outcome of each batch."""
        for partition, entry in self._batches:
            # Whoever listened may have left since.
            trace = partition.trace
            if trace is not None:
                trace.produce_answered(self._client_id, self._correlation_id, entry.base_offset, entry.error_code)

    def answered_with(self, response: ProduceResponse) -> ProduceResponse:
        self.answered()
        return response


def trace_received(batches: list[ProducedBatch], client_id: str | None, correlation_id: int) -> None:
    """Tell those who listen to a partition of what a request brings for it; and later of its answer."""
    for produced in batches:
        answer = produced.answer
        if answer.traced is None:
            answer.traced = TracedProduce(client_id, correlation_id)
        answer.traced.received(produced)


def append_run(run: list[ProducedBatch], required_acks: int, topics: TopicMetrics) -> None:
    """Append batches of one partition in one write, and tell and count each one's outcome. A fault of the disk refuses all."""
    first = run[0]
    partition = first.partition
    outcomes = partition.append([produced.batch for produced in run], _LEADER, required_acks)
    counts = topics[partition.topic_partition.topic]
    log = partition.log
    log_start_offset = _NO_OFFSET if log is None else log.log_start_offset
    for place, produced in enumerate(run):
        _tell(produced, outcomes[place], log_start_offset, counts)


def _tell(produced: ProducedBatch, outcome: AppendOutcome, log_start_offset: int, counts: TopicCounts) -> None:
    answer = produced.answer
    entry = produced.entry
    batch = produced.batch
    counts.total_produce_requests += 1
    entry.log_start_offset = log_start_offset
    if type(outcome) is AppendRefused:
        counts.produce_refused(outcome.error, batch.size_bytes)
        entry.error_code = outcome.error
        entry.error_message = outcome.reason
        answer.has_errors = True
        return
    is_duplicate = False
    if type(outcome) is AppendInfo:
        first_offset: int = outcome.first_offset
        last_offset: int = outcome.last_offset
        entry.log_append_time_ms = outcome.append_time_ms
        is_duplicate = outcome.is_duplicate
    else:
        first_offset = outcome  # type: ignore[assignment] # it is a number
        last_offset = first_offset + batch.last_offset_delta
    if not is_duplicate:
        counts.messages_in += batch.record_count
        counts.bytes_in += batch.size_bytes
    entry.base_offset = first_offset
    if answer.acks != _ALL_IN_SYNC:
        return
    committed = produced.partition.when_committed(last_offset + 1)
    if committed is _NONE:
        return
    if isinstance(committed, Pending):
        if answer.waiting is None:
            answer.waiting = []
        answer.waiting.append((entry, committed))
    else:
        entry.error_code = committed
        answer.has_errors = True


def _next_entry(entries: list[PartitionProduceResponse], index: int) -> PartitionProduceResponse:
    """One that says nothing yet."""
    entry = PartitionProduceResponse.__new__(PartitionProduceResponse)
    entry.index = index
    entry.error_code = 0
    entry.base_offset = _NO_OFFSET
    entry.log_append_time_ms = _NO_TIMESTAMP
    entry.log_start_offset = _NO_OFFSET
    entry.record_errors = []
    entry.error_message = None
    entry.current_leader = None  # type: ignore[assignment] # which is the default
    entries.append(entry)
    return entry


def _add_leader_hints(response: ProduceResponse, version: int, listener_name: str, node: Node) -> None:
    hints: LeaderHints | None = None
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            name = TopicName(topic.name)
            if version >= TOPIC_ID_VERSION:
                known = node.image.topics.get(TopicId(topic.topic_id))
                if known is None:
                    continue
                name = known.name
            hints = hints or LeaderHints(node.image, listener_name)
            hint = hints.leader_of(name, PartitionIndex(partition.index))
            partition.current_leader = LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
    if hints is not None:
        response.node_endpoints = [
            NodeEndpoint(node_id=each.node_id, host=each.endpoint.host, port=each.endpoint.port, rack=each.rack)
            for each in hints.endpoints.values()
        ]
