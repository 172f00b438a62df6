"""WriteTxnMarkers (27), v1-2: write the markers of transactions that are decided, as their coordinator asks.

v2 the transaction version that each was ended by (KIP-1228)

Also how an administrator ends a transaction that its coordinator knows nothing of any more.

A marker without a producer id or epoch is INVALID_REQUEST. Kafka cannot build it either, and fails the whole request.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.transactions.transaction_markers import Marker
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.model.pending import Pending, when_all
from tidelog.wire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


@handles(WriteTxnMarkersRequest)
def write_txn_markers(request: WriteTxnMarkersRequest, caller: Caller, node: Node) -> Answer[WriteTxnMarkersResponse]:
    may_write = caller.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False) or caller.may(
        AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    )
    outcomes: list[ErrorCode | Pending[ErrorCode]] = []
    for marker in request.markers:
        partitions = _partitions_of(marker)
        outcomes += _write(marker, partitions, node) if may_write else [_NOT_AUTHORIZED] * len(partitions)
    return when_all(outcomes, lambda errors: _response(request, errors))


_NOT_AUTHORIZED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _write(
    marker: WritableTxnMarker, partitions: tuple[TopicPartition, ...], node: Node
) -> list[ErrorCode | Pending[ErrorCode]]:
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        # It would end nobody's transaction, and leave a batch in the log that no other program writes.
        return [ErrorCode.INVALID_REQUEST] * len(partitions)
    wanted = Marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    return node.transactions.local_markers.write(wanted, partitions)


def _partitions_of(marker: WritableTxnMarker) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(TopicName(topic.name), PartitionIndex(index))
        for topic in marker.topics
        for index in topic.partition_indexes
    )


def _response(request: WriteTxnMarkersRequest, errors: Sequence[ErrorCode]) -> WriteTxnMarkersResponse:
    left = iter(errors)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=next(left))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
