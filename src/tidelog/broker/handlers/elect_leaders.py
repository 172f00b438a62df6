"""ElectLeaders (43), v0-2: have leaders elected, the preferred ones (KIP-183) or, where nobody is in sync, any (KIP-460).

v0 knows preferred elections only · v1 the kind of election, and an error of the whole request

The controller decides; here it is decided who may ask. No list of partitions means all of them: the answer then leaves out
those that needed no election.
"""

from __future__ import annotations

from tidelog.broker.caller import Caller
from tidelog.broker.handling import Answer, handles
from tidelog.broker.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import when_all
from tidelog.wire.messages.reassignments import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


@handles(ElectLeadersRequest)
def elect_leaders(request: ElectLeadersRequest, caller: Caller, node: Node) -> Answer[ElectLeadersResponse]:
    if not caller.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, caller.api_version)

    def answer(decided: list[ElectLeadersResponse]) -> ElectLeadersResponse:
        if decided[0].error_code == ErrorCode.NONE:
            return decided[0]
        return _refused(request, ErrorCode.of(decided[0].error_code), caller.api_version)

    return when_all([node.forward(request, ElectLeadersResponse, caller)], answer)


def _refused(request: ElectLeadersRequest, error: ErrorCode, version: int) -> ElectLeadersResponse:
    """Said of each partition too: v0 has no other place for it."""
    return ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=error if version >= 1 else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error, error_message=error.message)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )
