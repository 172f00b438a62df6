"""A node that coordinates transactions and groups, and a producer that writes in them over single requests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import NoReturn

from tests.support.log_builder import LogBuilder
from tests.unit.broker.group_node import GroupNode
from tidelog.broker.handlers.add_partitions_to_txn import add_partitions_to_txn
from tidelog.broker.handlers.end_txn import end_txn
from tidelog.broker.handlers.init_producer_id import init_producer_id
from tidelog.broker.handlers.produce import produce
from tidelog.broker.requests.caller import Authorizer
from tidelog.broker.transactions.transaction_admission import TransactionAdmission
from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transactions.transaction_questions import TransactionQuestions
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, NodeId, TopicName
from tidelog.model.internal_topics import TRANSACTION_STATE
from tidelog.model.pending import Pending
from tidelog.model.transaction_config import TRANSACTION_KEYS
from tidelog.net.node_connection import Event
from tidelog.replication.leader_link import LeaderLink
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
)
from tidelog.wire.schema import MetadataRecord

BATCHES = LogBuilder()


class TransactionNode(GroupNode):
    """Leads everything from the start. `settings` are keys of the transaction coordinator, with underscores."""

    def __init__(
        self, *, authorizer: Authorizer | None = None, replicas: tuple[int, ...] = (1,), **settings: str
    ) -> None:
        self._is_coordinating = False
        super().__init__(authorizer=authorizer)
        self._transaction_settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.commit(FeatureLevelRecord(name="transaction.version", feature_level=2))
        self._start_transactions()
        self.create_topic(TRANSACTION_STATE, replicas=replicas)

    def _start_transactions(self) -> None:
        self.transaction_config = TRANSACTION_KEYS.parse(self._transaction_settings)
        self.transactions = TransactionCoordinator(
            self,
            self.transaction_config,
            self.seams,
            self.timers,
            nullcontext(),
            groups=self.groups,
            next_producer_id=self.next_producer_id,
            link_to=self.link_to,
        )
        questions = TransactionQuestions(self.node_id, self.transactions, self.link_to, nullcontext())
        self.transaction_admission = TransactionAdmission(
            questions, self.clock, self.timers, lambda: self.transaction_config
        )
        self._is_coordinating = True

    def link_to(self, broker: NodeId, purpose: str) -> LeaderLink:
        """Nobody knows where another broker is."""

        def dial(host: str, port: int, on_event: Callable[[Event], None]) -> NoReturn:
            raise AssertionError(f"{purpose} for broker {broker} at {host}:{port}, {on_event}")

        return LeaderLink(dial, lambda: None, purpose)

    def commit(self, *records: MetadataRecord) -> None:
        before = self.image
        super().commit(*records)
        if self._is_coordinating:
            delta = ImageDelta(before)
            for record in records:
                delta.apply(record, self.image.offset)
            self.transactions.follow(self.image, delta)

    def restart_coordinators(self) -> None:
        """As after a crash: nothing is known but what is in the logs."""
        self.transactions.stop()
        self.restart(cleanly=False)
        self.groups = self._coordinator(self.seams)
        self._start_transactions()
        self.groups.follow(self.image)
        self.transactions.follow(self.image)

    def producer(self, transactional_id: str = "payments", *, timeout_ms: int = 60_000) -> TransactionalProducer:
        return TransactionalProducer(self, transactional_id, timeout_ms)


class TransactionalProducer:
    """What a client of some version does, one request at a time. By default it knows KIP-890."""

    def __init__(self, node: TransactionNode, transactional_id: str, timeout_ms: int) -> None:
        self.node = node
        self.transactional_id = transactional_id
        self.sequences: dict[tuple[str, int], int] = {}
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        given = node.tell(init_producer_id, request, InitProducerIdResponse, 5)
        assert given.error_code == ErrorCode.NONE, ErrorCode.of(given.error_code)
        self.producer_id, self.epoch = given.producer_id, given.producer_epoch

    def request(self, topic: str, index: int, *values: str, sequence: int | None = None) -> ProduceRequest:
        if sequence is None:
            sequence = self.sequences.get((topic, index), 0)
        batch = BATCHES.batch(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=self.node.image.topic_ids.get(TopicName(topic), ZERO_UUID),
                    partition_data=[PartitionProduceData(index=index, records=memoryview(batch))],
                )
            ],
        )

    def send(self, topic: str, *values: str, index: int = 0, version: int = 12) -> ErrorCode:
        """Produce records, and what is answered at once."""
        answer = self.node.answered(produce, self.request(topic, index, *values), version)
        error = error_of(answer)
        if error is ErrorCode.NONE:
            self.sequences[topic, index] = self.sequences.get((topic, index), 0) + len(values)
        return error

    def add(self, topic: str, index: int = 0, version: int = 3) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            transactions=[],
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        answer = self.node.tell(add_partitions_to_txn, request, AddPartitionsToTxnResponse, version)
        return ErrorCode.of(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def end(self, *, commit: bool, version: int = 5) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = self.node.tell(end_txn, request, EndTxnResponse, version)
        if version >= 5 and answer.error_code == ErrorCode.NONE:
            if answer.producer_epoch != self.epoch or answer.producer_id != self.producer_id:
                self.sequences.clear()
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode.of(answer.error_code)


def error_of(answer: ProduceResponse | Pending[ProduceResponse] | None) -> ErrorCode:
    assert isinstance(answer, ProduceResponse)
    return ErrorCode.of(answer.responses[0].partition_responses[0].error_code)
