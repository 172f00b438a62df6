"""UnregisterBroker (64), v0: forget a broker that does not come back (KIP-631).

The controller decides; here it is decided who may ask. A broker that still runs notices by its next heartbeat and registers
again, so that to unregister a running one only takes its partitions from it for a moment.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(UnregisterBrokerRequest)
def unregister_broker(request: UnregisterBrokerRequest, caller: Caller, node: Node) -> Answer[UnregisterBrokerResponse]:
    if not caller.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(throttle_time_ms=0, error_code=error, error_message=error.message)
    return node.forward(request, UnregisterBrokerResponse, caller)
