"""A coordinator on another broker answers later: what a producer has sent in the meantime keeps its order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import pytest

from tests.unit.broker.transaction_node import TransactionalProducer, TransactionNode
from tidelog.broker.handlers.produce import produce
from tidelog.broker.transactions.transaction_admission import TransactionAdmission, Understanding
from tidelog.broker.transactions.transaction_questions import Outcomes, TransactionQuestions, Writing
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName
from tidelog.model.pending import Pending
from tidelog.wire.messages.produce import ProduceResponse

ADDED_BY_CLIENT, ADDED_BY_BROKER = 11, 12


class SlowQuestions(TransactionQuestions):
    """Answered one by one, when the test says so."""

    def __init__(self, node: TransactionNode) -> None:
        super().__init__(node.node_id, node.transactions, node.link_to, nullcontext())
        self.asked: list[Callable[[], object]] = []

    def verify(self, writing: Writing) -> Pending[Outcomes]:
        verified: Pending[Outcomes] = Pending()
        self.asked.append(partial(verified.complete, dict.fromkeys(writing.partitions, ErrorCode.NONE)))
        return verified

    def add(self, writing: Writing) -> Pending[ErrorCode]:
        added: Pending[ErrorCode] = Pending()
        self.asked.append(partial(added.complete, ErrorCode.NONE))
        return added

    def allows_at_once(self, writing: Writing, *, adds: bool) -> bool:
        return False

    def answer(self, at: int = 0) -> None:
        """Let in what was asked for."""
        self.asked.pop(at)()


class Pipelining:
    """A producer that sends on before it is answered."""

    def __init__(self, version: int) -> None:
        self.node = TransactionNode()
        self.node.create_topic("orders", partitions=2)
        self.questions = SlowQuestions(self.node)
        self.admission = self.node.transaction_admission = TransactionAdmission(
            self.questions, self.node.clock, self.node.timers, lambda: self.node.transaction_config
        )
        self.version = version
        self.producer: TransactionalProducer = self.node.producer()
        self.answers: list[ProduceResponse | Pending[ProduceResponse] | None] = []

    def send(self, sequence: int, index: int = 0) -> None:
        request = self.producer.request("orders", index, f"record {sequence}", sequence=sequence)
        self.answers.append(self.node.ask(produce, request, self.version))

    @property
    def errors(self) -> list[ErrorCode | None]:
        """Of each request; None while it is not answered."""
        return [_error_of(answer) for answer in self.answers]


def _error_of(answer: ProduceResponse | Pending[ProduceResponse] | None) -> ErrorCode | None:
    if isinstance(answer, Pending):
        if not answer.is_complete:
            return None
        answer = answer.value
    assert answer is not None
    return ErrorCode.of(answer.responses[0].partition_responses[0].error_code)


@pytest.fixture(params=[ADDED_BY_CLIENT, ADDED_BY_BROKER])
def pipelining(request: pytest.FixtureRequest) -> Pipelining:
    return Pipelining(request.param)


def test_what_comes_once_the_transaction_is_open_does_not_overtake_what_still_waits(pipelining: Pipelining) -> None:
    pipelining.send(0)
    pipelining.send(1)
    pipelining.send(2)
    pipelining.questions.answer()
    pipelining.send(3)
    while pipelining.questions.asked:
        pipelining.questions.answer()

    assert pipelining.errors == [ErrorCode.NONE] * 4
    assert pipelining.node.log("orders").log_end_offset == 4


def test_a_question_is_asked_once_for_all_that_wait_for_it(pipelining: Pipelining) -> None:
    for sequence in range(5):
        pipelining.send(sequence)

    assert len(pipelining.questions.asked) == 1
    pipelining.questions.answer()
    assert pipelining.errors == [ErrorCode.NONE] * 5
    assert pipelining.questions.asked == []


def test_another_partition_is_not_waited_for(pipelining: Pipelining) -> None:
    pipelining.send(0, index=0)
    pipelining.send(0, index=1)

    assert len(pipelining.questions.asked) == 2
    pipelining.questions.answer(1)
    assert pipelining.errors == [None, ErrorCode.NONE]
    pipelining.questions.answer(0)
    assert pipelining.errors == [ErrorCode.NONE, ErrorCode.NONE]


def test_the_short_way_waits_as_well(pipelining: Pipelining) -> None:
    pipelining.send(0)
    pipelining.send(1)
    orders = pipelining.node.partitions.named(TopicName("orders"))[PartitionIndex(0)]
    producer = pipelining.producer
    asked = ("payments", producer.producer_id, producer.epoch, [(orders, 2)], Understanding.ABORTABLE_ERROR)

    assert pipelining.admission.ask_at_once(*asked) is None
    pipelining.questions.answer()
    assert pipelining.admission.ask_at_once(*asked) is not None


def test_nothing_is_kept_of_what_is_settled(pipelining: Pipelining) -> None:
    for sequence in range(3):
        pipelining.send(sequence)
    assert pipelining.admission.waiting_count == 3

    pipelining.questions.answer()

    assert pipelining.admission.waiting_count == 0
