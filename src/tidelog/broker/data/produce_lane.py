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

What every request runs through is in [produce_lane_kernel](kernels/produce_lane_kernel.py), which is compiled; here is the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.broker.data.delayed_produce import CommitWait
from tidelog.broker.data.record_validation import RecordsRefused
from tidelog.broker.handlers.produce import appended_partition, refused_partition
from tidelog.broker.metrics.request_counts import RequestCounts
from tidelog.broker.requests.caller import Authorizer
from tidelog.broker.requests.node_view import Node
from tidelog.broker.transactions.transaction_admission import produce_understanding
from tidelog.kernel_choice import load
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.net.connection import AnswerSlot, Connection
from tidelog.replication.partition import ALL_IN_SYNC, Partition
from tidelog.storage.append import AppendInfo, AppendRefused
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.wire.frames import response_frame
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse

if TYPE_CHECKING:
    from tidelog.broker.data.kernels.produce_lane_kernel import Outcome, ProduceLaneCore, TakenProduce
else:
    _kernel = load("tidelog.broker.data.kernels", "produce_lane_kernel")
    ProduceLaneCore, TakenProduce = _kernel.ProduceLaneCore, _kernel.TakenProduce

_wire = load("tidelog.wire.kernels", "produce_kernel")
_read_produce = _wire.read_produce

PRODUCE_KEY = ProduceRequest.api_key
TOPIC_ID_VERSION = 13

_WRITE = AclOperation.WRITE
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID


class ProduceLane(ProduceLaneCore):
    """For one listener: the connections' reads come one after the other."""

    __slots__ = ()

    def __init__(self, node: Node, authorizer: Authorizer) -> None:
        super().__init__(node, authorizer, _read_produce, _wire.write_produced)

    def _guards(
        self,
        connection: Connection,
        version: int,
        transactional_id: str,
        partitions: Sequence[Partition],
        batches: Sequence[CheckedBatch],
    ) -> Sequence[int | None] | None:
        """The guard for each batch of a transaction. None: it has to be waited for, or there is something wrong."""
        host = connection.peer_address.host
        if not self._authorizer.allows(connection.principal, host, _WRITE, _TRANSACTIONAL_ID, transactional_id):
            return None
        first = batches[0]
        return self._node.transaction_admission.ask_at_once(
            transactional_id,
            first.producer_id,
            first.producer_epoch,
            [(partition, batch.base_sequence) for partition, batch in zip(partitions, batches, strict=True)],
            produce_understanding(version),
        )

    def _answer_when_committed(
        self,
        connection: Connection,
        taken: TakenProduce,
        runs: Mapping[Partition, Sequence[CheckedBatch]],
        outcomes: Mapping[Partition, Sequence[Outcome]],
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
        answer = self.answer_to(taken, outcomes)
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

    def _refusal(self, taken: TakenProduce, outcomes: Mapping[Partition, Sequence[Outcome]]) -> bytes:
        return _answer_with_errors(taken, outcomes, {})


def _count_errors(
    counts: RequestCounts,
    taken: TakenProduce,
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
        taken: TakenProduce,
        outcomes: Mapping[Partition, Sequence[Outcome]],
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


def _answer_with_errors(
    taken: TakenProduce, outcomes: Mapping[Partition, Sequence[Outcome]], errors: Mapping[int, ErrorCode]
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
