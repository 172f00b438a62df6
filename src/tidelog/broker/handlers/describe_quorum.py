"""DescribeQuorum (55), v0-2: the metadata quorum as its leader sees it: who votes, who follows, how far each of them is.

v1 when a replica last fetched and was last caught up · v2 directory ids, the voters' addresses, error texts (KIP-853)

Only the leader knows: the question is passed on to it, which answers in the asker's version.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.quorum import DescribeQuorumRequest, DescribeQuorumResponse


@handles(DescribeQuorumRequest)
def describe_quorum(request: DescribeQuorumRequest, caller: Caller, node: Node) -> Answer[DescribeQuorumResponse]:
    if not caller.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeQuorumResponse(error_code=error, error_message=error.message, topics=[], nodes=[])
    return node.forward(request, DescribeQuorumResponse, caller)
