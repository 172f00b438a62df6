"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31), v1-3: who may do what.

Every node knows the ACLs as far as it has read the metadata log, and answers DescribeAcls from that. To create or delete them is
the active controller's to judge and to decide (`controller.acls`); a broker passes it on.

Without an authoriser each of them is answered with SECURITY_DISABLED, and nothing is done. Where this differs from Kafka: a
type, pattern, operation or permission with the number 0 is told to be wrong; Kafka closes the connection for that one.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import AllowAll, Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.requests import refusal_of
from tidelog.model.acl import CLUSTER_NAME, AccessControlEntry, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.security.acl_filter import AclFilter
from tidelog.security.acl_set import AclSet
from tidelog.wire.messages.acls import (
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tidelog.wire.schema import Response

_DISABLED = ErrorCode.SECURITY_DISABLED
_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@handles(DescribeAclsRequest)
def describe_acls(request: DescribeAclsRequest, caller: Caller, node: Node) -> DescribeAclsResponse:
    if not caller.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return _described(_REFUSED, _REFUSED.message)
    if type(caller.authorizer) is AllowAll:
        return _described(_DISABLED, "No Authorizer is configured on the broker")
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    found = AclSet.of(acl for acl in node.image.access_control.values() if wanted.matches(acl))
    return _described(ErrorCode.NONE, None, _by_resource(found))


@handles(CreateAclsRequest)
def create_acls(request: CreateAclsRequest, caller: Caller, node: Node) -> Answer[Response]:
    return _change(request, caller, node, CreateAclsResponse)


@handles(DeleteAclsRequest)
def delete_acls(request: DeleteAclsRequest, caller: Caller, node: Node) -> Answer[Response]:
    return _change(request, caller, node, DeleteAclsResponse)


def _change(
    request: CreateAclsRequest | DeleteAclsRequest, caller: Caller, node: Node, answer: type[Response]
) -> Answer[Response]:
    if not node.is_controller_listener(caller.listener_name):
        return node.forward(request, answer, caller)
    if not caller.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return refusal_of(request, _REFUSED)
    if type(caller.authorizer) is AllowAll:
        return refusal_of(request, _DISABLED, "No Authorizer is configured.")
    return node.forward(request, answer, caller)


def _by_resource(acls: AclSet) -> list[DescribeAclsResource]:
    """ACLs of one pattern belong together."""
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in acls:
        resource = resources.setdefault(
            (acl.resource_type, acl.resource_name, acl.pattern_type),
            DescribeAclsResource(
                resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type, acls=[]
            ),
        )
        resource.acls.append(_description(acl))
    return list(resources.values())


def _description(acl: AccessControlEntry) -> AclDescription:
    return AclDescription(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
    )


def _described(
    error: ErrorCode, message: str | None, resources: list[DescribeAclsResource] | None = None
) -> DescribeAclsResponse:
    return DescribeAclsResponse(throttle_time_ms=0, error_code=error, error_message=message, resources=resources or [])
