"""ElectLeaders (43), v0-2: have leaders elected, the preferred ones (KIP-183) or, where nobody is in sync, any (KIP-460).

v0 knows preferred elections only · v1 the kind of election, and an error of the whole request

The controller decides; here it is decided who may ask. No list of partitions means all of them: the answer then leaves out
those that needed no election.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.requests import cut_to_version, refusal_of
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.reassignments import ElectLeadersRequest, ElectLeadersResponse
from tidelog.wire.schema import Response


@handles(ElectLeadersRequest)
def elect_leaders(request: ElectLeadersRequest, caller: Caller, node: Node) -> Response | Answer[ElectLeadersResponse]:
    if not caller.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        refused = refusal_of(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return cut_to_version(request, refused, caller.api_version)
    return node.forward(request, ElectLeadersResponse, caller)
