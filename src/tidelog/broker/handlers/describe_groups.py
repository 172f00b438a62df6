"""DescribeGroups (15), v0-6: classic groups with their members.

v3 authorized operations · v4 static members · v6 a group that is not there is an error (KIP-1043); before, it is Dead
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.group_admin import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse


@handles(DescribeGroupsRequest)
def describe_groups(request: DescribeGroupsRequest, caller: Caller, node: Node) -> DescribeGroupsResponse:
    groups = [_describe(group_id, caller, node) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = caller.authorized_operations(ResourceType.GROUP, group.group_id)
    return DescribeGroupsResponse(throttle_time_ms=0, groups=groups)


def _describe(group_id: str, caller: Caller, node: Node) -> DescribedGroup:
    def refuse(error: ErrorCode) -> DescribedGroup:
        return DescribedGroup(
            error_code=error, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
        )

    if not caller.may(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return node.groups.read_committed(group_id, lambda shard: shard.describe(group_id, caller.api_version), refuse)
