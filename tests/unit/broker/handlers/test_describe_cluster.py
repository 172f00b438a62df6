from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import (
    CLUSTER_ID,
    CONTROLLER_LISTENER,
    LISTENER,
    AdminNode,
    Denies,
    ask,
    broker,
    controller,
)
from tidelog.broker.handlers import describe_cluster
from tidelog.model.acl import OPERATIONS_NOT_ASKED, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.wire.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord

HANDLED = describe_cluster
BROKERS, CONTROLLERS = 1, 2


def described(
    node: AdminNode,
    version: int = 2,
    *,
    endpoint_type: int = BROKERS,
    fenced_too: bool = False,
    operations: bool = False,
    listener: str = LISTENER,
    authorizer: Denies | None = None,
) -> DescribeClusterResponse:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=operations,
        endpoint_type=endpoint_type,
        include_fenced_brokers=fenced_too,
    )
    return ask(node, request, DescribeClusterResponse, version, listener=listener, authorizer=authorizer)


def cluster() -> AdminNode:
    return AdminNode(
        broker(1, rack="r1"), broker(2, fenced=True), broker(3, listeners=("INSIDE",)), controller(1), controller(4)
    )


@pytest.mark.parametrize("version", range(3))
def test_the_brokers_of_the_callers_listener(version: int) -> None:
    node = AdminNode(broker(1, rack="r1"), broker(2, fenced=True), broker(4, fenced=True, listeners=("INSIDE",)))

    answer = described(node, version)

    assert (answer.error_code, answer.error_message, answer.cluster_id) == (ErrorCode.NONE, None, CLUSTER_ID)
    assert [(each.broker_id, each.host, each.port, each.rack) for each in answer.brokers] == [(1, "host1", 9092, "r1")]
    assert answer.controller_id == 1
    assert answer.cluster_authorized_operations == OPERATIONS_NOT_ASKED


def test_fenced_brokers_are_told_if_asked_for() -> None:
    answer = described(cluster(), fenced_too=True)

    assert [(each.broker_id, each.is_fenced) for each in answer.brokers] == [(1, False), (2, True)]


def test_a_controller_that_the_client_cannot_reach_is_not_named() -> None:
    node = AdminNode(broker(3, listeners=("INSIDE",)))

    assert described(node).controller_id == -1


def test_a_level_at_which_controllers_do_not_register_has_none_to_tell_of() -> None:
    node = AdminNode(broker(1), FeatureLevelRecord(name="metadata.version", feature_level=14))

    answer = described(node, endpoint_type=CONTROLLERS, listener=CONTROLLER_LISTENER)

    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message == (
        "Direct-to-controller communication is not supported with the current MetadataVersion."
    )
    assert described(node).error_code == ErrorCode.NONE


def test_a_listener_for_controllers_tells_of_controllers() -> None:
    node = cluster()
    node.quorum.leader_id = NodeId(4)

    answer = described(node, endpoint_type=CONTROLLERS, listener=CONTROLLER_LISTENER)

    assert answer.endpoint_type == CONTROLLERS
    assert [(each.broker_id, each.port) for each in answer.brokers] == [(1, 9093), (4, 9093)]
    assert answer.controller_id == 4
    node.quorum.leader_id = None
    assert described(node, endpoint_type=CONTROLLERS, listener=CONTROLLER_LISTENER).controller_id == -1


@pytest.mark.parametrize(
    ("version", "endpoint_type", "listener", "error", "message"),
    [
        (
            1,
            CONTROLLERS,
            LISTENER,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (
            0,
            BROKERS,
            CONTROLLER_LISTENER,
            ErrorCode.INVALID_REQUEST,
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER",
        ),
        (1, 7, LISTENER, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 7"),
    ],
)
def test_the_wrong_kind_of_endpoint(
    version: int, endpoint_type: int, listener: str, error: ErrorCode, message: str
) -> None:
    answer = described(cluster(), version, endpoint_type=endpoint_type, listener=listener)

    assert (answer.error_code, answer.error_message, answer.brokers) == (error, message, [])


def test_authorized_operations_are_told_to_those_who_may_describe_the_cluster() -> None:
    denies = Denies((AclOperation.DESCRIBE, ResourceType.CLUSTER, None))

    assert described(cluster(), operations=True).cluster_authorized_operations == 8096
    assert described(cluster(), operations=True, authorizer=denies).cluster_authorized_operations == 0


def test_controllers_are_told_to_those_who_may_alter_the_cluster() -> None:
    denies = Denies((AclOperation.ALTER, ResourceType.CLUSTER, None))

    answer = described(cluster(), endpoint_type=CONTROLLERS, listener=CONTROLLER_LISTENER, authorizer=denies)

    assert (answer.error_code, answer.brokers) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    assert described(cluster(), authorizer=denies).error_code == ErrorCode.NONE
