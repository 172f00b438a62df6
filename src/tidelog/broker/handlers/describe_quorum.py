"""DescribeQuorum (55), v0-2: the metadata quorum as its leader sees it: who votes, who follows, how far each of them is.

v1 when a replica last fetched and was last caught up · v2 directory ids, the voters' addresses, error texts (KIP-853)

Only the leader knows: the question is passed on to it, and its answer cut to what the asker's version has.
"""

from __future__ import annotations

from tidelog.broker.caller import Caller
from tidelog.broker.handling import Answer, handles
from tidelog.broker.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.model.pending import when_all
from tidelog.wire.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse


@handles(DescribeQuorumRequest)
def describe_quorum(request: DescribeQuorumRequest, caller: Caller, node: Node) -> Answer[DescribeQuorumResponse]:
    if not caller.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeQuorumResponse(error_code=error, error_message=error.message, topics=[], nodes=[])

    def answer(told: list[DescribeQuorumResponse]) -> DescribeQuorumResponse:
        if caller.api_version < 2:
            _leave_out_addresses(told[0])
        return told[0]

    return when_all([node.forward(request, DescribeQuorumResponse, caller)], answer)


def _leave_out_addresses(response: DescribeQuorumResponse) -> None:
    """What came with v2 and must not be there before it."""
    response.nodes = []
    for topic in response.topics:
        for partition in topic.partitions:
            for replica in (*partition.current_voters, *partition.observers):
                replica.replica_directory_id = ZERO_UUID
