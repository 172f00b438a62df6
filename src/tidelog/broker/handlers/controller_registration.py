"""ControllerRegistration (70), v0: a controller tells the active one where it listens and what it supports.

So that every node can tell which feature levels all controllers can work at (KIP-919).
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_requests import decide_for_node
from tidelog.broker.requests.node_view import Node
from tidelog.wire.messages.broker_lifecycle import ControllerRegistrationRequest
from tidelog.wire.schema import Response


@handles(ControllerRegistrationRequest)
def controller_registration(request: ControllerRegistrationRequest, caller: Caller, node: Node) -> Answer[Response]:
    return decide_for_node(request, caller, node)
