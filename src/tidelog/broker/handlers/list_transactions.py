"""ListTransactions (66), v0-2: the transactional ids that this broker coordinates (KIP-664).

v1 those whose transaction has been open for longer than a time (KIP-994) · v2 those that match a regular expression (KIP-1152)
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.transaction.id_pattern import check_pattern
from tidelog.coordination.transaction.states import STATES_BY_NAME
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.transaction_admin import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
)


@handles(ListTransactionsRequest)
def list_transactions(request: ListTransactionsRequest, caller: Caller, node: Node) -> ListTransactionsResponse:
    transactions = node.transactions
    error = check_pattern(request.transactional_id_pattern)
    if error is ErrorCode.NONE and transactions.is_loading:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is not ErrorCode.NONE:
        return ListTransactionsResponse(
            throttle_time_ms=0, error_code=error, unknown_state_filters=[], transaction_states=[]
        )
    unknown = dict.fromkeys(each for each in request.state_filters if each not in STATES_BY_NAME)
    found: list[ListTransactionsTransactionState] = []
    producer_ids = frozenset(request.producer_id_filters)
    for shard in transactions.shards():
        _, listed = shard.listed(
            request.state_filters,
            producer_ids,
            request.duration_filter,
            request.transactional_id_pattern,
            transactions.now_ms,
        )
        found += listed
    return ListTransactionsResponse(
        throttle_time_ms=0,
        error_code=0,
        unknown_state_filters=list(unknown),
        transaction_states=[
            each
            for each in found
            if caller.may(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each.transactional_id)
        ],
    )
