"""What is common to the handlers of the metadata quorum's own APIs: authorise, translate, ask the quorum, translate back."""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer
from tidelog.broker.requests.node_view import Node
from tidelog.controller.quorum_fields import QuorumMessageError
from tidelog.controller.quorum_requests import request_from_wire
from tidelog.controller.quorum_responses import refusal_to_wire, response_to_wire
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.wire.schema import Request, Response


def ask_quorum(
    request: Request, caller: Caller, node: Node, operation: AclOperation = AclOperation.CLUSTER_ACTION
) -> Answer[Response]:
    """The quorum's answer to a request, in the version of the request, where the caller may do `operation` to the cluster."""
    if not caller.may(operation, ResourceType.CLUSTER, CLUSTER_NAME):
        return refusal_to_wire(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        asked = request_from_wire(request, caller.api_version)
    except QuorumMessageError:
        return refusal_to_wire(request, ErrorCode.INVALID_REQUEST)
    answered: Pending[Response] = Pending()
    version, listener = caller.api_version, caller.listener_name
    node.quorum.receive(asked).then(lambda answer: answered.complete(response_to_wire(answer, version, listener)))
    return answered


def change_voters(request: Request, caller: Caller, node: Node) -> Answer[Response]:
    """A change of the voters: the quorum's own affair where a controller is asked, and passed on where a broker is."""
    if not node.is_controller_listener(caller.listener_name):
        return node.forward(request, Response, caller)
    if caller.forwarded is None:
        return ask_quorum(request, caller, node, AclOperation.ALTER)
    if not caller.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return refusal_to_wire(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    # Through the controller, which says whether it is the active one: then the broker asks the next.
    return node.forward(request, Response, caller)
