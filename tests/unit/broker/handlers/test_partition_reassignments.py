"""AlterPartitionReassignments and ListPartitionReassignments: who may ask, and that the controller decides."""

from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import AdminNode, Denies, ask
from tidelog.broker.handlers import controller_apis
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)

HANDLED = controller_apis
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def alteration() -> AlterPartitionReassignmentsRequest:
    wanted = [
        ReassignablePartition(partition_index=0, replicas=[1, 2]),
        ReassignablePartition(partition_index=1, replicas=None),
    ]
    topics = [ReassignableTopic(name="orders", partitions=wanted)]
    return AlterPartitionReassignmentsRequest(timeout_ms=500, topics=topics)


def begun(error: ErrorCode) -> list[ReassignableTopicResponse]:
    message = None if error is ErrorCode.NONE else error.message
    results = [
        ReassignablePartitionResponse(partition_index=index, error_code=error, error_message=message)
        for index in (0, 1)
    ]
    return [ReassignableTopicResponse(name="orders", partitions=results)]


@pytest.mark.parametrize("version", range(2))
def test_the_controller_decides_about_an_alteration(version: int) -> None:
    node = AdminNode()
    decided = AlterPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=0, error_message=None, responses=begun(ErrorCode.NONE)
    )
    node.controller = lambda _: decided

    answer = ask(node, alteration(), AlterPartitionReassignmentsResponse, version)

    assert node.forwarded == [alteration()]
    assert answer == decided


@pytest.mark.parametrize("version", range(2))
def test_it_takes_permission_to_alter_the_cluster(version: int) -> None:
    node = AdminNode()
    denies = Denies((AclOperation.ALTER, ResourceType.CLUSTER, None))

    answer = ask(node, alteration(), AlterPartitionReassignmentsResponse, version, authorizer=denies)

    assert (answer.error_code, answer.responses) == (REFUSED, begun(REFUSED))
    assert node.forwarded == []


def test_the_controller_knows_what_is_under_way() -> None:
    node = AdminNode()
    ongoing = OngoingPartitionReassignment(
        partition_index=0, replicas=[1, 2], adding_replicas=[2], removing_replicas=[]
    )
    told = ListPartitionReassignmentsResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        topics=[OngoingTopicReassignment(name="orders", partitions=[ongoing])],
    )
    node.controller = lambda _: told

    answer = ask(node, ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse, 0)

    assert answer == told


def test_it_takes_permission_to_see_the_cluster() -> None:
    node = AdminNode()
    denies = Denies((AclOperation.DESCRIBE, ResourceType.CLUSTER, None))

    answer = ask(node, ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse, 0, authorizer=denies)

    assert (answer.error_code, answer.topics) == (REFUSED, [])
    assert node.forwarded == []
