"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31), v1-3: who may do what.

A node has no authorizer yet (`authorizer.class.name` is refused), so that each of them is answered as Kafka does then: with
SECURITY_DISABLED, for every creation and every filter, and with nothing done.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

_DISABLED = ErrorCode.SECURITY_DISABLED
_MESSAGE = "No Authorizer is configured."


@handles(DescribeAclsRequest)
def describe_acls(_request: DescribeAclsRequest, _caller: Caller, _node: Node) -> DescribeAclsResponse:
    message = "No Authorizer is configured on the broker"
    return DescribeAclsResponse(throttle_time_ms=0, error_code=_DISABLED, error_message=message, resources=[])


@handles(CreateAclsRequest)
def create_acls(request: CreateAclsRequest, _caller: Caller, _node: Node) -> CreateAclsResponse:
    refused = [AclCreationResult(error_code=_DISABLED, error_message=_MESSAGE) for _ in request.creations]
    return CreateAclsResponse(throttle_time_ms=0, results=refused)


@handles(DeleteAclsRequest)
def delete_acls(request: DeleteAclsRequest, _caller: Caller, _node: Node) -> DeleteAclsResponse:
    refused = [
        DeleteAclsFilterResult(error_code=_DISABLED, error_message=_MESSAGE, matching_acls=[]) for _ in request.filters
    ]
    return DeleteAclsResponse(throttle_time_ms=0, filter_results=refused)
