"""EndQuorumEpoch (54), v0-1: the leader of the metadata quorum resigns, and names who should follow it.

v1 directory ids, the leader's endpoints (KIP-853)
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.requests.quorum_requests import ask_quorum
from tidelog.wire.messages.quorum import EndQuorumEpochRequest
from tidelog.wire.schema import Response


@handles(EndQuorumEpochRequest, listeners=("controller",))
def end_quorum_epoch(request: EndQuorumEpochRequest, caller: Caller, node: Node) -> Answer[Response]:
    return ask_quorum(request, caller, node)
