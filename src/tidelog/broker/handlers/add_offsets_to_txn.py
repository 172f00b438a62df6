"""AddOffsetsToTxn (25), v0-4: take a group's offsets into a transaction, before TxnOffsetCommit says which.

v2 PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH · v4 TRANSACTION_ABORTABLE

Clients that know KIP-890 leave it out: their TxnOffsetCommit does it.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicPartition
from tidelog.model.internal_topics import CONSUMER_OFFSETS
from tidelog.model.pending import when_all
from tidelog.wire.messages.transactions import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_VERSION = 2
_TRANSACTION_VERSION = 0


@handles(AddOffsetsToTxnRequest)
def add_offsets_to_txn(request: AddOffsetsToTxnRequest, caller: Caller, node: Node) -> Answer[AddOffsetsToTxnResponse]:
    def answer(outcome: list[ErrorCode]) -> AddOffsetsToTxnResponse:
        error = outcome[0]
        if error is ErrorCode.PRODUCER_FENCED and caller.api_version < FENCED_VERSION:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=error)

    if not caller.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return answer([ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED])
    if not caller.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return answer([ErrorCode.GROUP_AUTHORIZATION_FAILED])
    offsets = TopicPartition(CONSUMER_OFFSETS, PartitionIndex(node.groups.partition_of(request.group_id)))
    added = node.transactions.add_partitions(
        request.transactional_id, request.producer_id, request.producer_epoch, (offsets,), _TRANSACTION_VERSION
    )
    return when_all([added], answer)
