from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import AdminNode, Denies, ask, broker, config, topic
from tidelog.broker.handlers import list_config_resources
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.configs import ListConfigResourcesRequest, ListConfigResourcesResponse

HANDLED = list_config_resources


def node_with_all() -> AdminNode:
    return AdminNode(
        broker(1),
        broker(2, fenced=True),
        broker(3, listeners=("INSIDE",)),
        *topic("orders"),
        config(32, "g", "consumer.session.timeout.ms", "1"),
        config(16, "m", "interval.ms", "1000"),
        config(4, "", "min.insync.replicas", "1"),
    )


def listed(types: list[int], version: int = 1, authorizer: Denies | None = None) -> ListConfigResourcesResponse:
    request = ListConfigResourcesRequest(resource_types=types)
    return ask(node_with_all(), request, ListConfigResourcesResponse, version, authorizer=authorizer)


@pytest.mark.parametrize(
    ("types", "found"),
    [
        ([], [(2, "orders"), (4, "1"), (4, "2"), (8, "1"), (8, "2"), (16, "m"), (32, "g")]),
        ([32, 2, 2], [(2, "orders"), (32, "g")]),
        ([8], [(8, "1"), (8, "2")]),
    ],
)
def test_resources_of_the_types_that_are_asked_for(types: list[int], found: list[tuple[int, str]]) -> None:
    answer = listed(types)

    assert answer.error_code == ErrorCode.NONE
    assert [(each.resource_type, each.resource_name) for each in answer.config_resources] == found


def test_v0_knows_client_metrics_alone() -> None:
    assert [(each.resource_type, each.resource_name) for each in listed([], 0).config_resources] == [(16, "m")]


@pytest.mark.parametrize("types", [[0], [2, 5], [64]])
def test_a_type_that_does_not_exist_refuses_the_request(types: list[int]) -> None:
    answer = listed(types)

    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_it_takes_permission_on_the_cluster() -> None:
    answer = listed([], authorizer=Denies((AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, None)))

    assert (answer.error_code, answer.config_resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
