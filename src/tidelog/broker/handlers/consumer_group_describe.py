"""ConsumerGroupDescribe (69), v0-1: consumer groups with their members and assignments (KIP-848).

v1 whether a member is classic (KIP-1099)
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.group_shard import undescribed_consumer_group
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


@handles(ConsumerGroupDescribeRequest)
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, caller: Caller, node: Node
) -> ConsumerGroupDescribeResponse:
    if not node.groups.serves_consumer_protocol:
        refused = [undescribed_consumer_group(each, ErrorCode.UNSUPPORTED_VERSION, None) for each in request.group_ids]
        return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=refused)
    groups = [_describe(group_id, caller, node) for group_id in request.group_ids]
    for group in groups:
        _hide_topics(group, caller)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = caller.authorized_operations(ResourceType.GROUP, group.group_id)
    return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=groups)


def _describe(group_id: str, caller: Caller, node: Node) -> DescribedGroup:
    def refuse(error: ErrorCode) -> DescribedGroup:
        return undescribed_consumer_group(group_id, error, None)

    if not caller.may(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return refuse(ErrorCode.INVALID_GROUP_ID)
    return node.groups.read_committed(group_id, lambda shard: shard.describe_consumer(group_id), refuse)


def _hide_topics(group: DescribedGroup, caller: Caller) -> None:
    """Of a group that reads a topic which the caller may not know of, nothing but that is told."""
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if not [name for name in sorted(names) if not caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)]:
        return
    group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    group.error_message = "The group has described topic(s) that the client is not authorized to describe."
    group.members = []
