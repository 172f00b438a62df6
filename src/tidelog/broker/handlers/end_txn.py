"""EndTxn (26), v0-5: commit or abort a transaction.

v2 PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH · v4 TRANSACTION_ABORTABLE
v5 each end raises the epoch, and the answer has the new one (KIP-890)

Answers when the outcome is recorded. With one replica the markers are written by then, too.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.transaction import ending
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import when_all
from tidelog.wire.messages.transactions import EndTxnRequest, EndTxnResponse

FENCED_VERSION = 2
# The transaction version that a client of EndTxn v5 goes by, and that of all others.
EPOCH_BUMP_VERSION = 5


@handles(EndTxnRequest)
def end_txn(request: EndTxnRequest, caller: Caller, node: Node) -> Answer[EndTxnResponse]:
    if not caller.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return ending.refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    ended = node.transactions.end(request, 2 if caller.api_version >= EPOCH_BUMP_VERSION else 0)
    return ended if caller.api_version >= FENCED_VERSION else when_all([ended], _for_old_clients)


def _for_old_clients(answers: list[EndTxnResponse]) -> EndTxnResponse:
    answer = answers[0]
    if answer.error_code == ErrorCode.PRODUCER_FENCED:
        answer.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return answer
