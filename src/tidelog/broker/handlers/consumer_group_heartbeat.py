# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""ConsumerGroupHeartbeat (68), v0-1: a member of a consumer group says what it wants and has, and is told what it gets (KIP-848).

v1 subscription by regular expression · member ids are the client's own (KIP-1082)

Offered while the cluster's `group.version` is at least 1 and `group.coordinator.rebalance.protocols` has not excluded it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.groups.group_coordinator import member_of
from tidelog.broker.requests.handling import Answer, handles
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.typed.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from tidelog.broker.groups.group_coordinator import GroupCoordinator
    from tidelog.broker.requests.caller import Caller
    from tidelog.broker.requests.node_view import Node
    from tidelog.coordination.group_shard import GroupShard

# Enum members as module constants, since every heartbeat needs them: see docs/style.md.
_READ, _DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC


@handles(ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, caller: Caller, node: Node
) -> Answer[ConsumerGroupHeartbeatResponse]:
    return _heartbeat(request, caller, node.groups)


def _heartbeat(
    request: ConsumerGroupHeartbeatRequest, caller: Caller, groups: GroupCoordinator
) -> Answer[ConsumerGroupHeartbeatResponse]:
    if not groups.serves_consumer_protocol:
        return refuse(ErrorCode.UNSUPPORTED_VERSION)
    if not caller.may(_READ, _GROUP, request.group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.subscribed_topic_names and not _may_subscribe(request.subscribed_topic_names, caller):
        refused = refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        refused.error_message = None
        return refused
    active = groups.active(request.group_id)
    if active is None:
        return refuse(groups.refusal(request.group_id))
    shard: GroupShard = active.shard
    return active.carry_out(shard.consumer_heartbeat(request, member_of(caller), active.now_ms()), refuse)


def _may_subscribe(names: list[str], caller: Caller) -> bool:
    """Whether the caller may know of all these topics. Each is asked for, so that each is in the audit log."""
    return not [name for name in dict.fromkeys(names) if not caller.may(_DESCRIBE, _TOPIC, name)]


def refuse(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    """The answer with an error of the coordinator as a whole, whichever member asks."""
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message=error.message,
        member_id=None,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
