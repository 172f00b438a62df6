"""AlterPartition (56), v2-3: the leader of partitions asks for other in-sync sets.

v2 topics by id (KIP-841) · v3 broker epochs of the new set (KIP-903)
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_requests import decide_for_node
from tidelog.broker.requests.node_view import Node
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.schema import Response


@handles(AlterPartitionRequest)
def alter_partition(request: AlterPartitionRequest, caller: Caller, node: Node) -> Answer[Response]:
    return decide_for_node(request, caller, node)
