"""BrokerHeartbeat (63), v0-2: a broker is alive, wants to serve or to stop, and learns whether it may.

v1 log directories that are offline (KIP-858) · v2 directories that are closed to new replicas

The connection that it comes by tells of more than time-outs do: when it breaks, the broker is looked after at once.
"""

from __future__ import annotations

from tidelog.broker.handlers.controller_apis import pass_on
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.ids import BrokerEpoch, NodeId
from tidelog.wire.messages.broker_lifecycle import BrokerHeartbeatRequest
from tidelog.wire.schema import Response


@handles(BrokerHeartbeatRequest)
def broker_heartbeat(request: BrokerHeartbeatRequest, caller: Caller, node: Node) -> Answer[Response]:
    if caller.might(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        node.broker_watch.heard(caller.connection, NodeId(request.broker_id), BrokerEpoch(request.broker_epoch))
    return pass_on(request, caller, node, AclOperation.CLUSTER_ACTION)
