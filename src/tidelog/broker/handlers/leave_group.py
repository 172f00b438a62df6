"""LeaveGroup (13), v0-5: members leave a classic group, and the others share out what they had.

v3 several members at once, static ones by their instance id (KIP-345) · v5 why (KIP-800)
"""

from __future__ import annotations

from tidelog.broker.groups.group_coordinator import member_of
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.classic.answers import leave_error
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import LeaveGroupRequest, LeaveGroupResponse


@handles(LeaveGroupRequest)
def leave_group(request: LeaveGroupRequest, caller: Caller, node: Node) -> Answer[LeaveGroupResponse]:
    if not caller.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return leave_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return leave_error(ErrorCode.INVALID_GROUP_ID)
    member = member_of(caller)
    return node.groups.decide(request.group_id, lambda shard, now_ms: shard.leave(request, member, now_ms), leave_error)
