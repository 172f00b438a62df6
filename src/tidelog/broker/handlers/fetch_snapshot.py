"""FetchSnapshot (59), v0-1: a piece of a snapshot of the metadata log, for a replica that is too far behind.

v1 replica directory, the leader's endpoint (KIP-853)
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.requests.quorum_requests import ask_quorum
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest
from tidelog.wire.schema import Response


@handles(FetchSnapshotRequest, listeners=("controller",))
def fetch_snapshot(request: FetchSnapshotRequest, caller: Caller, node: Node) -> Answer[Response]:
    return ask_quorum(request, caller, node)
