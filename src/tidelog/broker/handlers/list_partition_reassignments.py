"""ListPartitionReassignments (46), v0: which partitions are on their way to other replicas (KIP-455).

The active controller is asked, so that whoever has just begun a reassignment finds it. No list of partitions means all of them;
those that are not on their way, or not there, are left out of the answer.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@handles(ListPartitionReassignmentsRequest)
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, caller: Caller, node: Node
) -> Answer[ListPartitionReassignmentsResponse]:
    if not caller.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ListPartitionReassignmentsResponse(
            throttle_time_ms=0, error_code=error, error_message=error.message, topics=[]
        )
    return node.forward(request, ListPartitionReassignmentsResponse, caller)
