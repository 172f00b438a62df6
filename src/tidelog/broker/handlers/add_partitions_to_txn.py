"""AddPartitionsToTxn (24), v0-5: take partitions into a transaction, or ask whether they are part of it.

v2 PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH · v4 several transactions, from other brokers alone, and `verify_only`
v5 TRANSACTION_ABORTABLE

All partitions of a transaction are added or none: beside one that cannot be, the others are OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.pending import Pending, when_all
from tidelog.wire.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_VERSION = 2
SEVERAL_TRANSACTIONS_VERSION = 4

_WRITE = AclOperation.WRITE

Outcomes = Mapping[TopicPartition, ErrorCode]


@handles(AddPartitionsToTxnRequest)
def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, caller: Caller, node: Node
) -> Answer[AddPartitionsToTxnResponse]:
    if caller.api_version >= SEVERAL_TRANSACTIONS_VERSION:
        if not caller.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            return AddPartitionsToTxnResponse(
                throttle_time_ms=0, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results_by_transaction=[]
            )
        return when_all(
            [_add(each, caller, node) for each in request.transactions],
            lambda results: AddPartitionsToTxnResponse(
                throttle_time_ms=0, error_code=0, results_by_transaction=results
            ),
        )
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    added = _add(only, caller, node)
    return when_all([added], _of_one) if isinstance(added, Pending) else _of_one([added])


def _of_one(results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    """As clients have it, who speak of one transaction."""
    return AddPartitionsToTxnResponse(
        throttle_time_ms=0,
        error_code=0,
        results_by_transaction=[],
        results_by_topic_v3_and_below=results[0].topic_results,
    )


def _add(
    transaction: AddPartitionsToTxnTransaction, caller: Caller, node: Node
) -> AddPartitionsToTxnResult | Pending[AddPartitionsToTxnResult]:
    version, transactional_id = caller.api_version, transaction.transactional_id
    is_from_client = version < SEVERAL_TRANSACTIONS_VERSION
    if is_from_client and not caller.may(_WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        named = [
            TopicPartition(TopicName(topic.name), PartitionIndex(index))
            for topic in transaction.topics
            for index in topic.partitions
        ]
        return _all(transactional_id, named, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    partitions: list[TopicPartition] = []
    problems: dict[TopicPartition, ErrorCode] = {}
    for topic in transaction.topics:
        name = TopicName(topic.name)
        is_closed = is_from_client and (
            name in INTERNAL_TOPICS or not caller.may(_WRITE, ResourceType.TOPIC, name, len(topic.partitions))
        )
        known = node.image.topic(name)
        for index in topic.partitions:
            where = TopicPartition(name, PartitionIndex(index))
            partitions.append(where)
            if is_closed:
                problems[where] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or where.partition not in known.partitions:
                problems[where] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if problems:
        others = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        return _result(transactional_id, {**others, **problems})
    transactions = node.transactions
    if transaction.verify_only:
        return _result(
            transactional_id,
            transactions.verify_partitions(
                transactional_id, transaction.producer_id, transaction.producer_epoch, partitions
            ),
        )
    added = transactions.add_partitions(
        transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        partitions,
        0 if is_from_client else 2,
    )

    def answer(outcome: list[ErrorCode]) -> AddPartitionsToTxnResult:
        error = outcome[0]
        if error is ErrorCode.PRODUCER_FENCED and version < FENCED_VERSION:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return _all(transactional_id, partitions, error)

    return when_all([added], answer) if isinstance(added, Pending) else answer([added])


def _all(transactional_id: str, partitions: list[TopicPartition], error: ErrorCode) -> AddPartitionsToTxnResult:
    return _result(transactional_id, dict.fromkeys(partitions, error))


def _result(transactional_id: str, outcomes: Outcomes) -> AddPartitionsToTxnResult:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for where, error in outcomes.items():
        topics.setdefault(where.topic, []).append(
            AddPartitionsToTxnPartitionResult(partition_index=where.partition, partition_error_code=error)
        )
    return AddPartitionsToTxnResult(
        transactional_id=transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in topics.items()
        ],
    )
