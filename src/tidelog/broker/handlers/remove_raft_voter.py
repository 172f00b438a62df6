"""RemoveRaftVoter (81), v0: a voter of the metadata quorum is one no longer (KIP-853).

Where this differs from Kafka: it is asked of controllers only, and not passed on by brokers.
"""

from __future__ import annotations

from tidelog.broker.caller import Caller
from tidelog.broker.handling import Answer, handles
from tidelog.broker.node_view import Node
from tidelog.broker.quorum_requests import ask_quorum
from tidelog.model.acl import AclOperation
from tidelog.wire.messages.raft_voters import RemoveRaftVoterRequest
from tidelog.wire.schema import Response


@handles(RemoveRaftVoterRequest, listeners=("controller",))
def remove_raft_voter(request: RemoveRaftVoterRequest, caller: Caller, node: Node) -> Answer[Response]:
    return ask_quorum(request, caller, node, AclOperation.ALTER)
