from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import AdminNode, Denies, ask
from tidelog.broker.handlers import controller_apis
from tidelog.controller.requests import refusal_of
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.reassignments import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

HANDLED = controller_apis
PREFERRED, UNCLEAN = 0, 1


def not_needed(_request: object) -> ElectLeadersResponse:
    error = ErrorCode.ELECTION_NOT_NEEDED
    result = PartitionResult(partition_id=1, error_code=error, error_message=error.message)
    return ElectLeadersResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        replica_election_results=[ReplicaElectionResult(topic="orders", partition_result=[result])],
    )


def request_of(election_type: int) -> ElectLeadersRequest:
    asked = [TopicPartitions(topic="orders", partitions=[1])]
    return ElectLeadersRequest(election_type=election_type, topic_partitions=asked, timeout_ms=500)


@pytest.mark.parametrize("version", range(3))
def test_the_controller_decides(version: int) -> None:
    node = AdminNode()
    node.controller = not_needed
    request = request_of(UNCLEAN if version >= 1 else PREFERRED)

    answer = ask(node, request, ElectLeadersResponse, version)

    assert node.forwarded == [request]
    assert answer == not_needed(request)


@pytest.mark.parametrize("version", range(3))
def test_a_node_that_does_not_lead_the_quorum_says_so_in_every_version(version: int) -> None:
    node = AdminNode()
    refused = ErrorCode.NOT_CONTROLLER
    node.controller = lambda request: refusal_of(request, refused)

    answer = ask(node, request_of(PREFERRED), ElectLeadersResponse, version)

    assert answer.replica_election_results[0].partition_result[0].error_code == refused
    assert answer.error_code == (refused if version >= 1 else ErrorCode.NONE)


@pytest.mark.parametrize("version", range(3))
def test_it_takes_permission_to_alter_the_cluster(version: int) -> None:
    node = AdminNode()
    denies = Denies((AclOperation.ALTER, ResourceType.CLUSTER, None))

    answer = ask(node, request_of(PREFERRED), ElectLeadersResponse, version, authorizer=denies)

    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    [topic] = answer.replica_election_results
    assert (topic.topic, topic.partition_result[0].partition_id) == ("orders", 1)
    assert topic.partition_result[0].error_code == refused
    assert answer.error_code == (refused if version >= 1 else ErrorCode.NONE)
    assert node.forwarded == []


def test_to_ask_for_all_partitions_takes_the_same_permission() -> None:
    denies = Denies((AclOperation.ALTER, ResourceType.CLUSTER, None))
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=500)

    answer = ask(AdminNode(), request, ElectLeadersResponse, 2, authorizer=denies)

    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
