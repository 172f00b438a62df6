"""DeleteGroups (42), v0-2: groups without members, and all that they have committed, or that share coordinators keep of them."""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending, after, when_all
from tidelog.wire.messages.group_admin import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@handles(DeleteGroupsRequest)
def delete_groups(request: DeleteGroupsRequest, caller: Caller, node: Node) -> Answer[DeleteGroupsResponse]:
    return when_all(
        [_delete(group_id, caller, node) for group_id in dict.fromkeys(request.groups_names)],
        lambda results: DeleteGroupsResponse(
            throttle_time_ms=0, results=[each for group_results in results for each in group_results]
        ),
    )


def _delete(
    group_id: str, caller: Caller, node: Node
) -> list[DeletableGroupResult] | Pending[list[DeletableGroupResult]]:
    def refuse(error: ErrorCode) -> list[DeletableGroupResult]:
        return [DeletableGroupResult(group_id=group_id, error_code=error)]

    if not caller.may(AclOperation.DELETE, ResourceType.GROUP, group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def delete(error: ErrorCode) -> list[DeletableGroupResult] | Pending[list[DeletableGroupResult]]:
        if error is not ErrorCode.NONE:
            return refuse(error)
        return node.groups.decide(group_id, lambda shard, _now_ms: shard.delete([group_id]), refuse)

    # States first: without the group nobody would know of them.
    return after(node.group_states.delete_group_states(group_id), delete)
