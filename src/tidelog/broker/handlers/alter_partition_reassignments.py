"""AlterPartitionReassignments (45), v0-1: give partitions other replicas, or take that back while it is under way (KIP-455).

v1 may forbid another replication factor (KIP-860)

The controller decides; here it is decided who may ask. An answer without error says that a reassignment has begun, not that it is
done.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.requests import refusal_of
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


@handles(AlterPartitionReassignmentsRequest)
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, caller: Caller, node: Node
) -> Answer[AlterPartitionReassignmentsResponse]:
    if not caller.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        refused = refusal_of(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        assert isinstance(refused, AlterPartitionReassignmentsResponse)
        return refused
    return node.forward(request, AlterPartitionReassignmentsResponse, caller)
