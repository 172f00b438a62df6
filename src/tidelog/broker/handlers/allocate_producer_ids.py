"""AllocateProducerIds (67), v0: a block of producer ids for a broker, which nobody else will ever get.

A broker gives them out one by one (KIP-730).
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_requests import decide_for_node
from tidelog.broker.requests.node_view import Node
from tidelog.wire.messages.producers import AllocateProducerIdsRequest
from tidelog.wire.schema import Response


@handles(AllocateProducerIdsRequest)
def allocate_producer_ids(request: AllocateProducerIdsRequest, caller: Caller, node: Node) -> Answer[Response]:
    return decide_for_node(request, caller, node)
