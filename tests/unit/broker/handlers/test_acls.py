from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import AdminNode, ask
from tidelog.broker.handlers import acls
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

HANDLED = acls
TOPIC, LITERAL, ANY, READ, ALLOW = 2, 3, 1, 3, 3


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_nothing_is_described(version: int) -> None:
    request = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )

    answer = ask(AdminNode(), request, DescribeAclsResponse, version)

    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert answer.error_message == "No Authorizer is configured on the broker"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_every_creation_is_refused(version: int) -> None:
    creation = AclCreation(
        resource_type=TOPIC,
        resource_name="orders",
        resource_pattern_type=LITERAL,
        principal="User:a",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    node = AdminNode()

    answer = ask(node, CreateAclsRequest(creations=[creation, creation]), CreateAclsResponse, version)

    assert [each.error_code for each in answer.results] == [ErrorCode.SECURITY_DISABLED] * 2
    assert {each.error_message for each in answer.results} == {"No Authorizer is configured."}
    assert node.forwarded == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_every_deletion_is_refused(version: int) -> None:
    every = DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )

    answer = ask(AdminNode(), DeleteAclsRequest(filters=[every]), DeleteAclsResponse, version)

    (result,) = answer.filter_results
    assert (result.error_code, result.matching_acls) == (ErrorCode.SECURITY_DISABLED, [])
