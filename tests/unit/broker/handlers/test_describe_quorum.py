from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import AdminNode, Denies, ask
from tidelog.broker.handlers import controller_apis
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    DescribeQuorumTopicData,
    Listener,
    Node,
    ReplicaState,
)

HANDLED = controller_apis
DIRECTORY = b"d" * 16
REQUEST = DescribeQuorumRequest(
    topics=[
        DescribeQuorumTopicData(
            topic_name="__cluster_metadata", partitions=[DescribeQuorumPartitionData(partition_index=0)]
        )
    ]
)


def replica(node: int) -> ReplicaState:
    return ReplicaState(
        replica_id=node,
        replica_directory_id=DIRECTORY,
        log_end_offset=91,
        last_fetch_timestamp=1000,
        last_caught_up_timestamp=900,
    )


def leaders_answer(_request: object) -> DescribeQuorumResponse:
    partition = DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=1,
        leader_epoch=3,
        high_watermark=90,
        current_voters=[replica(1)],
        observers=[replica(2)],
    )
    topic = DescribeQuorumResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])
    node = Node(node_id=1, listeners=[Listener(name="CONTROLLER", host="host1", port=9093)])
    return DescribeQuorumResponse(error_code=ErrorCode.NONE, error_message="", topics=[topic], nodes=[node])


@pytest.mark.parametrize("version", range(3))
def test_the_leaders_answer_is_cut_to_the_askers_version(version: int) -> None:
    node = AdminNode()
    node.controller = leaders_answer

    answer = ask(node, REQUEST, DescribeQuorumResponse, version)

    assert node.forwarded == [REQUEST]
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 3, 90)
    for each in (partition.current_voters[0], partition.observers[0]):
        assert each.log_end_offset == 91
        assert each.last_fetch_timestamp == (1000 if version >= 1 else -1)
        assert each.replica_directory_id == (DIRECTORY if version >= 2 else ZERO_UUID)
    assert [each.node_id for each in answer.nodes] == ([1] if version >= 2 else [])


def test_it_takes_permission_to_describe_the_cluster() -> None:
    node = AdminNode()
    denies = Denies((AclOperation.DESCRIBE, ResourceType.CLUSTER, None))

    answer = ask(node, REQUEST, DescribeQuorumResponse, 2, authorizer=denies)

    assert (answer.error_code, answer.topics) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    assert node.forwarded == []
