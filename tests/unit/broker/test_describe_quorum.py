from __future__ import annotations

import pytest

from tests.unit.broker.admin_node import CONTROLLER_LISTENER, LISTENER, AdminNode, Denies, ask
from tidelog.broker.handlers import describe_quorum
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, DirectoryId, LeaderEpoch, NodeId, Offset
from tidelog.raft.machine import QuorumDescription
from tidelog.raft.progress import ReplicaProgress
from tidelog.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.wire.messages.quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
)

HANDLED = describe_quorum
DIRECTORY = DirectoryId(b"d" * 16)
METADATA = ("__cluster_metadata", [0])


def asked(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            DescribeQuorumTopicData(
                topic_name=name, partitions=[DescribeQuorumPartitionData(partition_index=each) for each in partitions]
            )
            for name, partitions in topics
        ]
    )


def leading_node() -> AdminNode:
    node = AdminNode()
    leader = ReplicaKey(NodeId(1), DIRECTORY)
    node.quorum.voters = VoterSet([Voter(leader, (Endpoint(CONTROLLER_LISTENER, "host1", 9093),))])
    node.quorum.description = QuorumDescription(
        leader_id=NodeId(1),
        epoch=LeaderEpoch(3),
        high_watermark=Offset(90),
        voters=(ReplicaProgress(leader, Offset(91), 5_000, 5_000),),
        observers=(
            ReplicaProgress(ReplicaKey(NodeId(2)), Offset(80), 4_000, None),
            ReplicaProgress(ReplicaKey(NodeId(3))),
        ),
    )
    return node


def answer(
    node: AdminNode, request: DescribeQuorumRequest, version: int = 2, **options: object
) -> DescribeQuorumResponse:
    return ask(node, request, DescribeQuorumResponse, version, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(3))
def test_the_leader_tells_of_its_quorum(version: int) -> None:
    found = answer(leading_node(), asked(METADATA), version)

    assert (found.error_code, found.error_message) == (ErrorCode.NONE, "")
    (partition,) = found.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 3)
    assert partition.high_watermark == 90
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, 91)
    assert voter.replica_directory_id == (DIRECTORY if version >= 2 else ZERO_UUID)
    assert voter.last_fetch_timestamp == (1_700_000_000_000 if version >= 1 else -1)
    lagging, silent = partition.observers
    assert (lagging.replica_id, lagging.log_end_offset, lagging.last_caught_up_timestamp) == (2, 80, -1)
    assert lagging.last_fetch_timestamp == (1_699_999_999_000 if version >= 1 else -1)
    assert (silent.log_end_offset, silent.last_fetch_timestamp) == (-1, -1)
    addresses = [(each.node_id, each.listeners[0].host, each.listeners[0].port) for each in found.nodes]
    assert addresses == ([(1, "host1", 9093)] if version >= 2 else [])


def test_a_leader_that_has_committed_nothing_knows_no_high_watermark() -> None:
    node = leading_node()
    node.quorum.description = QuorumDescription(NodeId(1), LeaderEpoch(3), None, (), ())

    assert answer(node, asked(METADATA)).topics[0].partitions[0].high_watermark == -1


@pytest.mark.parametrize("topics", [[("x", [0])], [("__cluster_metadata", [1])], [("__cluster_metadata", [0, 1])]])
def test_there_is_one_partition_to_describe(topics: list[tuple[str, list[int]]]) -> None:
    found = answer(leading_node(), asked(*topics))

    assert found.error_code == ErrorCode.NONE
    told = [(each.partition_index, each.error_code) for each in found.topics[0].partitions]
    assert told == [(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for index in topics[0][1]]
    assert found.topics[0].partitions[0].error_message == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message


def test_nothing_asked_nothing_told() -> None:
    found = answer(leading_node(), asked())

    assert (found.error_code, found.topics, found.nodes) == (ErrorCode.NONE, [], [])


def test_a_broker_that_does_not_lead_passes_the_question_on() -> None:
    node = AdminNode()
    elsewhere = DescribeQuorumResponse(error_code=0, error_message="from afar", topics=[], nodes=[])
    node.controller = lambda _: elsewhere

    assert answer(node, asked(METADATA), listener=LISTENER).error_message == "from afar"
    assert isinstance(node.forwarded[0], DescribeQuorumRequest)


def test_a_controller_that_does_not_lead_says_so() -> None:
    node = AdminNode()

    (partition,) = answer(node, asked(METADATA), listener=CONTROLLER_LISTENER).topics[0].partitions

    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert node.forwarded == []


def test_it_takes_permission_to_describe_the_cluster() -> None:
    denies = Denies((AclOperation.DESCRIBE, ResourceType.CLUSTER, None))

    found = answer(leading_node(), asked(METADATA), authorizer=denies)

    assert (found.error_code, found.topics) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
