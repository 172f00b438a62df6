"""AssignReplicasToDirs (73), v0: a broker tells in which of its log directories replicas lie.

Without it nobody could tell whose replicas a failed disk takes with it (KIP-858).
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_requests import decide_for_node
from tidelog.broker.requests.node_view import Node
from tidelog.wire.messages.log_dirs import AssignReplicasToDirsRequest
from tidelog.wire.schema import Response


@handles(AssignReplicasToDirsRequest)
def assign_replicas_to_dirs(request: AssignReplicasToDirsRequest, caller: Caller, node: Node) -> Answer[Response]:
    return decide_for_node(request, caller, node)
