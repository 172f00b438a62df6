"""DescribeTransactions (65), v0: single transactional ids, with the partitions of the transaction that is open (KIP-664)."""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.transaction.transaction_shard import undescribed
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


@handles(DescribeTransactionsRequest)
def describe_transactions(
    request: DescribeTransactionsRequest, caller: Caller, node: Node
) -> DescribeTransactionsResponse:
    states = [_describe(each, caller, node) for each in request.transactional_ids]
    for state in states:
        state.topics = [
            each for each in state.topics if caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, each.topic)
        ]
    return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=states)


def _describe(transactional_id: str, caller: Caller, node: Node) -> TransactionState:
    def refuse(error: ErrorCode) -> TransactionState:
        return undescribed(transactional_id, error)

    if not caller.may(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return node.transactions.read_committed(
        transactional_id, lambda shard, now_ms: shard.describe(transactional_id, now_ms), refuse
    )
