# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Heartbeat (12), v0-4: a member of a classic group is alive, and learns whether it has to join again.

v3 static members (KIP-345)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.requests.handling import Answer, handles
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.typed.groups_classic import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from tidelog.broker.groups.group_coordinator import GroupCoordinator
    from tidelog.broker.requests.caller import Caller
    from tidelog.broker.requests.node_view import Node
    from tidelog.coordination.group_shard import GroupShard

# Enum members as module constants, since every heartbeat needs them: see docs/style.md.
_READ, _GROUP = AclOperation.READ, ResourceType.GROUP


@handles(HeartbeatRequest)
def heartbeat(request: HeartbeatRequest, caller: Caller, node: Node) -> Answer[HeartbeatResponse]:
    return _heartbeat(request, caller, node.groups)


def _heartbeat(request: HeartbeatRequest, caller: Caller, groups: GroupCoordinator) -> Answer[HeartbeatResponse]:
    if not caller.may(_READ, _GROUP, request.group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return refuse(ErrorCode.INVALID_GROUP_ID)
    active = groups.active(request.group_id)
    if active is None:
        return refuse(groups.refusal(request.group_id))
    shard: GroupShard = active.shard
    return active.carry_out(shard.heartbeat(request, active.now_ms()), refuse)


def refuse(error: ErrorCode) -> HeartbeatResponse:
    """The answer with an error of the coordinator as a whole, whichever member asks."""
    # No error while the log is being loaded: the member may be in it, and need not join again.
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(throttle_time_ms=0, error_code=ErrorCode.NONE if is_loading else error)
