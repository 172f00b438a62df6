"""ConsumerGroupHeartbeat (68), v0-1: a member of a consumer group says what it wants and has, and is told what it gets (KIP-848).

v1 subscription by regular expression · member ids are the client's own (KIP-1082)

Offered while the cluster's `group.version` is at least 1 and `group.coordinator.rebalance.protocols` has not excluded it.
"""

from __future__ import annotations

from tidelog.broker.groups.group_coordinator import member_of
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


@handles(ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, caller: Caller, node: Node
) -> Answer[ConsumerGroupHeartbeatResponse]:
    if not node.groups.serves_consumer_protocol:
        return refuse(ErrorCode.UNSUPPORTED_VERSION)
    if not caller.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = request.subscribed_topic_names
    if names and not all(caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        return refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    member = member_of(caller)
    return node.groups.decide(
        request.group_id, lambda shard, now_ms: shard.consumer_heartbeat(request, member, now_ms), refuse
    )


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
