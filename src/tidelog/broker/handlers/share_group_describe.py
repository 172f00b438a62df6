"""ShareGroupDescribe (77), v1: share groups with their members and what these have (KIP-932)."""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.share.groups import undescribed_share_group
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.share_groups import DescribedGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse


@handles(ShareGroupDescribeRequest)
def share_group_describe(request: ShareGroupDescribeRequest, caller: Caller, node: Node) -> ShareGroupDescribeResponse:
    if not node.groups.serves_share_protocol:
        refused = [undescribed_share_group(each, ErrorCode.UNSUPPORTED_VERSION, None) for each in request.group_ids]
        return ShareGroupDescribeResponse(throttle_time_ms=0, groups=refused)
    groups = [_describe(group_id, caller, node) for group_id in request.group_ids]
    for group in groups:
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = caller.authorized_operations(ResourceType.GROUP, group.group_id)
        _hide_topics(group, caller)
    return ShareGroupDescribeResponse(throttle_time_ms=0, groups=groups)


def _describe(group_id: str, caller: Caller, node: Node) -> DescribedGroup:
    def refuse(error: ErrorCode) -> DescribedGroup:
        return undescribed_share_group(group_id, error, error.message)

    if not caller.may(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return undescribed_share_group(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
    if not group_id:
        return undescribed_share_group(group_id, ErrorCode.INVALID_GROUP_ID, None)
    return node.groups.read_committed(group_id, lambda shard: shard.describe_share(group_id), refuse)


def _hide_topics(group: DescribedGroup, caller: Caller) -> None:
    """Of a group whose members have a topic that the caller may not know of, nothing but that is told."""
    names = {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}
    if not [name for name in sorted(names) if not caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)]:
        return
    message = "The group has described topic(s) that the client is not authorized to describe."
    hidden = undescribed_share_group(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)
    for field in hidden.__struct_fields__:
        setattr(group, field, getattr(hidden, field))
