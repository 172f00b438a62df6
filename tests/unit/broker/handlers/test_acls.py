from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import LISTENER, AdminNode, Denies, ask, caller_of
from tidelog.broker.handlers import acls
from tidelog.broker.requests.handling import HANDLERS
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
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
from tidelog.wire.messages.internal.cluster_security import AccessControlEntryRecord

HANDLED = acls
TOPIC, LITERAL, ANY, READ, ALLOW = 2, 3, 1, 3, 3
CREATION = AclCreation(
    resource_type=TOPIC,
    resource_name="orders",
    resource_pattern_type=LITERAL,
    principal="User:a",
    host="*",
    operation=READ,
    permission_type=ALLOW,
)
FILTER = DeleteAclsFilter(
    resource_type_filter=TOPIC,
    resource_name_filter=None,
    pattern_type_filter=ANY,
    principal_filter=None,
    host_filter=None,
    operation=ANY,
    permission_type=ANY,
)


def acl_record(principal: str, name: str, operation: int, *, pattern: int = LITERAL) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=f"{principal:>8}{name:>8}"[-16:].encode(),
        resource_type=TOPIC,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=ALLOW,
    )


def filter_for(name: str | None, *, pattern: int = ANY) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )


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


WITH_ACLS = (
    acl_record("User:alice", "orders", READ),
    acl_record("User:alice", "ord", 4, pattern=4),
    acl_record("User:bob", "orders", READ),
)


def described(node: AdminNode, wanted: DescribeAclsRequest, authorizer: Denies | None = None) -> DescribeAclsResponse:
    return ask(node, wanted, DescribeAclsResponse, 3, authorizer=authorizer or Denies())


def test_acls_are_described_by_resource() -> None:
    answer = described(AdminNode(*WITH_ACLS), filter_for("orders", pattern=2))

    assert [
        (each.resource_name, each.pattern_type, [acl.principal for acl in each.acls]) for each in answer.resources
    ] == [("orders", 3, ["User:alice", "User:bob"]), ("ord", 4, ["User:alice"])]


def test_to_see_acls_takes_describe_on_the_cluster_and_to_change_them_alter() -> None:
    node = AdminNode(*WITH_ACLS)
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    denies = Denies(
        (AclOperation.DESCRIBE, ResourceType.CLUSTER, None), (AclOperation.ALTER, ResourceType.CLUSTER, None)
    )

    assert described(node, filter_for(None), denies).error_code == error
    created = ask(node, CreateAclsRequest(creations=[CREATION]), CreateAclsResponse, 3, authorizer=denies)
    assert [each.error_code for each in created.results] == [error]
    deleted = ask(node, DeleteAclsRequest(filters=[FILTER]), DeleteAclsResponse, 3, authorizer=denies)
    assert [each.error_code for each in deleted.filter_results] == [error]
    assert node.forwarded == []


def test_a_broker_passes_changes_on_whoever_asks() -> None:
    node = AdminNode()
    denies = Denies((AclOperation.ALTER, ResourceType.CLUSTER, None))
    for request in (CreateAclsRequest(creations=[CREATION]), DeleteAclsRequest(filters=[FILTER])):
        caller = caller_of(request, 3, authorizer=denies, listener=LISTENER)
        assert isinstance(HANDLERS[request.api_key].answer(request, caller, node), Pending)
    assert len(node.forwarded) == 2
