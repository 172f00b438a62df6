"""What is common to the handlers of what nodes ask the active controller for themselves: only nodes may, and it decides."""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer
from tidelog.broker.requests.node_view import Node
from tidelog.controller.requests import refusal_of
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import Request, Response


def decide_for_node(request: Request, caller: Caller, node: Node) -> Answer[Response]:
    """The decision of this node's controller; NOT_CONTROLLER where it is not the active one."""
    if not caller.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return refusal_of(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return node.forward(request, Response, caller)
