"""Vote (52), v0-2: a replica of the metadata log asks for a vote, or whether it would get one.

v1 voters by directory id (KIP-853) · v2 pre-vote (KIP-996)
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.requests.quorum_requests import ask_quorum
from tidelog.wire.messages.quorum import VoteRequest
from tidelog.wire.schema import Response


@handles(VoteRequest, listeners=("controller",))
def vote(request: VoteRequest, caller: Caller, node: Node) -> Answer[Response]:
    return ask_quorum(request, caller, node)
