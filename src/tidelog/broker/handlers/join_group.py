"""JoinGroup (11), v0-9: become, or stay, a member of a classic group.

v1 rebalance time-out · v4 a new member gets its id first (KIP-394) · v5 static members (KIP-345) · v7 protocol type ·
v8 why it joins (KIP-800) · v9 the leader may be told to keep the assignment (KIP-814)

The answer waits until the others have joined, or their time is up.
"""

from __future__ import annotations

from tidelog.broker.groups.group_coordinator import member_of
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.classic.answers import join_error
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import JoinGroupRequest, JoinGroupResponse


@handles(JoinGroupRequest)
def join_group(request: JoinGroupRequest, caller: Caller, node: Node) -> Answer[JoinGroupResponse]:
    def refuse(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
        return join_error(error, member_id, caller.api_version)

    if not caller.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return refuse(ErrorCode.INVALID_GROUP_ID, request.member_id)
    settings = node.groups.settings
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return refuse(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
    member = member_of(caller)
    return node.groups.decide(request.group_id, lambda shard, now_ms: shard.join(request, member, now_ms), refuse)
