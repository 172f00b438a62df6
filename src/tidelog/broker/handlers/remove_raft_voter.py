"""RemoveRaftVoter (81), v0: a voter of the metadata quorum is one no longer (KIP-853).

A broker passes it on to the active controller.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.requests.quorum_requests import change_voters
from tidelog.wire.messages.raft_voters import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tidelog.wire.schema import Response


@handles(RemoveRaftVoterRequest)
def remove_raft_voter(request: RemoveRaftVoterRequest, caller: Caller, node: Node) -> Answer[Response]:
    return change_voters(request, RemoveRaftVoterResponse, caller, node)
