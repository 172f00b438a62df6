"""BrokerRegistration (62), v0-4: a broker makes itself known to the active controller, and gets its epoch.

v1 migration from ZooKeeper (refused) · v2 log directories (KIP-858) · v3 the epoch of its last life (KIP-966) · v4 levels from 0
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_requests import decide_for_node
from tidelog.broker.requests.node_view import Node
from tidelog.wire.messages.broker_lifecycle import BrokerRegistrationRequest
from tidelog.wire.schema import Response


@handles(BrokerRegistrationRequest)
def broker_registration(request: BrokerRegistrationRequest, caller: Caller, node: Node) -> Answer[Response]:
    return decide_for_node(request, caller, node)
