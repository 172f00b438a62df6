"""SyncGroup (14), v0-5: the leader of a classic group hands out what it has assigned; the others ask for their share.

v3 static members (KIP-345) · v5 protocol type and name, which must be there (KIP-559)

The answer waits for the leader's.
"""

from __future__ import annotations

from tidelog.broker.groups.group_coordinator import member_of
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.classic.answers import sync_error
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import SyncGroupRequest, SyncGroupResponse

PROTOCOL_VERSION = 5


@handles(SyncGroupRequest)
def sync_group(request: SyncGroupRequest, caller: Caller, node: Node) -> Answer[SyncGroupResponse]:
    if caller.api_version >= PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None):
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not caller.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return sync_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return sync_error(ErrorCode.INVALID_GROUP_ID)
    member = member_of(caller)
    return node.groups.decide(request.group_id, lambda shard, now_ms: shard.sync(request, member, now_ms), sync_error)
