"""ListGroups (16), v0-5: the groups that this broker coordinates.

v4 by state (KIP-518) · v5 by type (KIP-848)
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.group_admin import ListGroupsRequest, ListGroupsResponse


@handles(ListGroupsRequest)
def list_groups(request: ListGroupsRequest, caller: Caller, node: Node) -> ListGroupsResponse:
    if node.groups.is_loading:
        return ListGroupsResponse(throttle_time_ms=0, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
    groups = [
        each for shard in node.groups.shards() for each in shard.listed(request.states_filter, request.types_filter)
    ]
    if not caller.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False):
        groups = [
            each
            for each in groups
            if caller.may(AclOperation.DESCRIBE, ResourceType.GROUP, each.group_id, logs_denied=False)
        ]
    return ListGroupsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, groups=groups)
