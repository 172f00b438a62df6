"""ShareGroupHeartbeat (76), v1: a member of a share group says which topics it reads, and is told what it gets (KIP-932).

Offered while the cluster's `share.version` is at least 1; no configuration of a broker excludes it.
"""

from __future__ import annotations

from tidelog.broker.groups.group_coordinator import member_of
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

# Members make their ids themselves, as UUIDs.
MEMBER_ID_CHARACTERS_MAX = 36


@handles(ShareGroupHeartbeatRequest)
def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, caller: Caller, node: Node
) -> Answer[ShareGroupHeartbeatResponse]:
    groups = node.groups
    if not groups.serves_share_protocol:
        return _refuse(ErrorCode.UNSUPPORTED_VERSION)
    if not caller.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return _refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not 0 < len(request.member_id) <= MEMBER_ID_CHARACTERS_MAX:
        return _refuse(ErrorCode.INVALID_REQUEST)
    if request.subscribed_topic_names and not _may_subscribe(request.subscribed_topic_names, caller):
        return _refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    active = groups.active(request.group_id)
    if active is None:
        return _refuse(groups.refusal(request.group_id))
    return active.carry_out(active.shard.share_heartbeat(request, member_of(caller), active.now_ms()), _refuse)


def _may_subscribe(names: list[str], caller: Caller) -> bool:
    """Whether the caller may know of all these topics. Each is asked for, so that each is in the audit log."""
    return not [
        name for name in dict.fromkeys(names) if not caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    ]


def _refuse(error: ErrorCode) -> ShareGroupHeartbeatResponse:
    """As Kafka does, without a sentence."""
    return ShareGroupHeartbeatResponse(throttle_time_ms=0, error_code=error, member_epoch=0, heartbeat_interval_ms=0)
