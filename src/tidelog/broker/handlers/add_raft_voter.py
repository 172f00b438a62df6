"""AddRaftVoter (80), v0-1: an observer of the metadata log that has caught up becomes a voter (KIP-853).

v1 whether to answer only once the change is committed

A broker passes it on to the active controller.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.requests.quorum_requests import change_voters
from tidelog.wire.messages.raft_voters import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.wire.schema import Response


@handles(AddRaftVoterRequest)
def add_raft_voter(request: AddRaftVoterRequest, caller: Caller, node: Node) -> Answer[Response]:
    return change_voters(request, AddRaftVoterResponse, caller, node)
