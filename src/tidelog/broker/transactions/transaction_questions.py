"""Asks the coordinator of a transaction, wherever it is: on this node, or by AddPartitionsToTxn on another broker.

A coordinator that cannot be reached, or that does not know of a partition yet that this node leads, is the same as one that is
not there at the moment: the client is to come again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import NamedTuple

from tidelog.broker.coordinators.broker_requests import BrokerRequests, LinkTo, Words
from tidelog.broker.transactions.transaction_coordinator import TransactionCoordinator
from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from tidelog.model.pending import Pending
from tidelog.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.wire.schema import Response

ADDS_PARTITIONS_VERSION = 2
"""The transaction version whose clients leave it to brokers to add partitions."""

Outcomes = dict[TopicPartition, ErrorCode]


class Writing(NamedTuple):
    """A producer, and the partitions that it is about to write to in its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]


class TransactionQuestions:
    """One for each broker."""

    def __init__(
        self, node_id: NodeId, transactions: TransactionCoordinator, link_to: LinkTo, turn: AbstractContextManager[None]
    ) -> None:
        self._node_id = node_id
        self._transactions = transactions
        self._others: BrokerRequests[_Asked] = BrokerRequests(
            link_to, turn, Words("transaction-partitions", _transactional_id, _request, _answered)
        )

    def verify(self, writing: Writing) -> Outcomes | Pending[Outcomes]:
        """Whether each partition is part of the producer's transaction."""
        coordinator = self._elsewhere(writing)
        if coordinator is None:
            return self._transactions.verify_partitions(*writing)
        return self._ask(coordinator, writing, verify_only=True)

    def add(self, writing: Writing) -> ErrorCode | Pending[ErrorCode]:
        """Take all of the partitions into the producer's transaction, which this begins, or none."""
        coordinator = self._elsewhere(writing)
        if coordinator is None:
            return self._transactions.add_partitions(*writing, ADDS_PARTITIONS_VERSION)
        added: Pending[ErrorCode] = Pending()
        self._ask(coordinator, writing, verify_only=False).then(lambda outcomes: added.complete(_first_of(outcomes)))
        return added

    def allows_at_once(self, writing: Writing, *, adds: bool) -> bool:
        """Whether the coordinator is on this node, and says without waiting for anybody that the partitions are part of the
        transaction. With `adds` they are taken into it where they are not."""
        transactions = self._transactions
        if not adds:
            return transactions.has_partitions(*writing)
        if not transactions.answers_at_once(writing.transactional_id):
            return False
        return transactions.add_partitions(*writing, ADDS_PARTITIONS_VERSION) is ErrorCode.NONE

    def follow(self, image: ClusterImage) -> None:
        """Wait no longer for brokers that are gone."""
        self._others.follow(image)

    def stop(self) -> None:
        self._others.stop()

    def _elsewhere(self, writing: Writing) -> NodeId | None:
        """The other broker that coordinates it. A coordinator that is nowhere is what this node's own would say as well."""
        leader = self._transactions.leader_of(writing.transactional_id)
        return None if leader is None or leader == self._node_id else leader

    def _ask(self, coordinator: NodeId, writing: Writing, *, verify_only: bool) -> Pending[Outcomes]:
        answer: Pending[Outcomes] = Pending()
        self._others.ask(coordinator, _Asked(writing, verify_only, answer))
        return answer


class _Asked(NamedTuple):
    writing: Writing
    verify_only: bool
    answer: Pending[Outcomes]


def _transactional_id(asked: _Asked) -> str:
    return asked.writing.transactional_id


def _request(asked: list[_Asked]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=writing.transactional_id,
                producer_id=writing.producer_id,
                producer_epoch=writing.producer_epoch,
                verify_only=verify_only,
                topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=[each.partition for each in partitions])
                    for name, partitions in groupby(sorted(writing.partitions), key=lambda each: each.topic)
                ],
            )
            for writing, verify_only, _ in asked
        ]
    )


def _answered(asked: list[_Asked], answer: Response | None) -> None:
    found: dict[str, Outcomes] = {}
    error = ErrorCode.NETWORK_EXCEPTION
    if isinstance(answer, AddPartitionsToTxnResponse):
        if answer.error_code != ErrorCode.NONE:
            error = ErrorCode.of(answer.error_code)
        for result in answer.results_by_transaction:
            found[result.transactional_id] = {
                TopicPartition(TopicName(topic.name), PartitionIndex(each.partition_index)): _as_seen_from_here(
                    each.partition_error_code
                )
                for topic in result.topic_results
                for each in topic.results_by_partition
            }
    if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        # It is this broker that may not ask, which is nothing that a client could do something about.
        error = ErrorCode.INVALID_TXN_STATE
    for writing, _, waiting in asked:
        outcomes: Mapping[TopicPartition, ErrorCode] = found.get(writing.transactional_id, {})
        waiting.complete({each: outcomes.get(each, error) for each in writing.partitions})


_NOT_KNOWN_THERE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED})


def _as_seen_from_here(code: int) -> ErrorCode:
    error = ErrorCode.of(code)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error in _NOT_KNOWN_THERE else error


def _first_of(outcomes: Outcomes) -> ErrorCode:
    return next((error for error in outcomes.values() if error is not ErrorCode.NONE), ErrorCode.NONE)
