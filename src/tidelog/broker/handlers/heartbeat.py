"""Heartbeat (12), v0-4: a member of a classic group is alive, and learns whether it has to join again.

v3 static members (KIP-345)
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import HeartbeatRequest, HeartbeatResponse


@handles(HeartbeatRequest)
def heartbeat(request: HeartbeatRequest, caller: Caller, node: Node) -> Answer[HeartbeatResponse]:
    if not caller.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return refuse(ErrorCode.INVALID_GROUP_ID)
    return node.groups.decide(request.group_id, lambda shard, now_ms: shard.heartbeat(request, now_ms), refuse)


def refuse(error: ErrorCode) -> HeartbeatResponse:
    """The answer with an error of the coordinator as a whole, whichever member asks."""
    # No error while the log is being loaded: the member may be in it, and need not join again.
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(throttle_time_ms=0, error_code=ErrorCode.NONE if is_loading else error)
