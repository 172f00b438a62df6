"""UpdateRaftVoter (82), v0: a voter of the metadata quorum tells where it listens now, and what it supports (KIP-853).

The leader writes it into the log where the voters are there (kraft.version 1), and keeps it in mind otherwise.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.requests.quorum_requests import ask_quorum
from tidelog.wire.messages.raft_voters import UpdateRaftVoterRequest
from tidelog.wire.schema import Response


@handles(UpdateRaftVoterRequest, listeners=("controller",))
def update_raft_voter(request: UpdateRaftVoterRequest, caller: Caller, node: Node) -> Answer[Response]:
    return ask_quorum(request, caller, node)
