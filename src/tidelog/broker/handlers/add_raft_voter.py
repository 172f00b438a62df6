"""AddRaftVoter (80), v0-1: an observer of the metadata log that has caught up becomes a voter (KIP-853).

v1 whether to answer only once the change is committed

Where this differs from Kafka: it is asked of controllers only, and not passed on by brokers.
"""

from __future__ import annotations

from tidelog.broker.caller import Caller
from tidelog.broker.handling import Answer, handles
from tidelog.broker.node_view import Node
from tidelog.broker.quorum_requests import ask_quorum
from tidelog.model.acl import AclOperation
from tidelog.wire.messages.raft_voters import AddRaftVoterRequest
from tidelog.wire.schema import Response


@handles(AddRaftVoterRequest, listeners=("controller",))
def add_raft_voter(request: AddRaftVoterRequest, caller: Caller, node: Node) -> Answer[Response]:
    return ask_quorum(request, caller, node, AclOperation.ALTER)
