"""StreamsGroupDescribe (89), v0: streams groups with their topology, their members, and the tasks of these (KIP-1071)."""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.streams.groups import undescribed_streams_group
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.streams_groups import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


@handles(StreamsGroupDescribeRequest)
def streams_group_describe(
    request: StreamsGroupDescribeRequest, caller: Caller, node: Node
) -> StreamsGroupDescribeResponse:
    if not node.groups.serves_streams_protocol:
        refused = [undescribed_streams_group(each, ErrorCode.UNSUPPORTED_VERSION, None) for each in request.group_ids]
        return StreamsGroupDescribeResponse(throttle_time_ms=0, groups=refused)
    groups = [_describe(group_id, caller, node) for group_id in request.group_ids]
    for index, group in enumerate(groups):
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = caller.authorized_operations(ResourceType.GROUP, group.group_id)
        groups[index] = _visible(group, caller)
    return StreamsGroupDescribeResponse(throttle_time_ms=0, groups=groups)


def _describe(group_id: str, caller: Caller, node: Node) -> DescribedGroup:
    def refuse(error: ErrorCode) -> DescribedGroup:
        return undescribed_streams_group(group_id, error, None)

    if not caller.may(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return refuse(ErrorCode.INVALID_GROUP_ID)
    return node.groups.read_committed(group_id, lambda shard: shard.describe_streams(group_id), refuse)


def _visible(group: DescribedGroup, caller: Caller) -> DescribedGroup:
    """Of a group that uses a topic that the caller may not know of, nothing but that is told."""
    parts = [] if group.topology is None else group.topology.subtopologies or []
    names = {
        name
        for part in parts
        for name in (
            *part.source_topics,
            *part.repartition_sink_topics,
            *(topic.name for topic in part.repartition_source_topics),
            *(topic.name for topic in part.state_changelog_topics),
        )
    }
    if not [name for name in sorted(names) if not caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)]:
        return group
    message = "The described group uses topics that the client is not authorized to describe."
    return undescribed_streams_group(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)
