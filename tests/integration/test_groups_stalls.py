"""Groups while replicas of `__consumer_offsets` hang or are gone: who is answered at once, who waits, and what they are told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster_load import wait_until
from tests.support.cluster_processes import ClusterProcesses
from tests.support.raw_client import RawClient
from tidelog import Admin
from tidelog.client.admin import NewTopic
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.group_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tidelog.wire.messages.groups_classic import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

# A node that hangs stays in the in-sync set for longer than a test takes, and a commit waits for it for so long.
SETTINGS = {
    "broker.session.timeout.ms": "60000",
    "replica.lag.time.max.ms": "60000",
    "offsets.commit.timeout.ms": "3000",
}
# The one controller is no replica that hangs.
ROLES = {1: "broker,controller", 2: "broker", 3: "broker"}
HANGING = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    processes = ClusterProcesses(tmp_path_factory.mktemp("groups"), settings=SETTINGS, roles=ROLES)
    with processes.running():
        with Admin(bootstrap_servers=processes.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", partitions=1)])
        yield processes


def groups_of_the_first_node(cluster: ClusterProcesses, count: int) -> list[str]:
    """Groups that node 1 coordinates, which neither hangs nor stops."""
    with RawClient(cluster.nodes[1].bootstrap) as client:

        def find(group_id: str) -> FindCoordinatorResponse:
            request = FindCoordinatorRequest(key=group_id, key_type=0, coordinator_keys=[])
            return client.call(request, FindCoordinatorResponse, 3)

        wait_until(lambda: find("group-0").error_code == ErrorCode.NONE, "there are coordinators")
        groups = [f"group-{number}" for number in range(100) if find(f"group-{number}").node_id == 1][:count]
        for group_id in groups:
            wait_until(lambda: fetch(client, group_id, require_stable=True).error_code == 0, f"{group_id} is loaded")  # noqa: B023
    assert len(groups) == count
    return groups


def commit_of(group_id: str, offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="orders", topic_id=ZERO_UUID, partitions=[partition])
    return OffsetCommitRequest(group_id=group_id, member_id="", topics=[topic])


def committed(answer: OffsetCommitResponse) -> int:
    return answer.topics[0].partitions[0].error_code


def fetch(client: RawClient, group_id: str, *, require_stable: bool) -> OffsetFetchResponseGroup:
    topic = OffsetFetchRequestTopics(name="orders", topic_id=ZERO_UUID, partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[topic])], require_stable=require_stable
    )
    return client.call(request, OffsetFetchResponse, 8).groups[0]


def fetched(client: RawClient, group_id: str, *, require_stable: bool) -> int:
    answer = fetch(client, group_id, require_stable=require_stable)
    assert answer.error_code == ErrorCode.NONE
    return answer.topics[0].partitions[0].committed_offset


def test_readers_are_answered_from_what_is_committed_while_a_replica_hangs(cluster: ClusterProcesses) -> None:
    group_id, new_group = groups_of_the_first_node(cluster, 2)
    coordinator = cluster.nodes[1].bootstrap
    with RawClient(coordinator) as writer, RawClient(coordinator) as client, RawClient(coordinator) as other:
        assert committed(writer.call(commit_of(group_id, 5), OffsetCommitResponse, 8)) == ErrorCode.NONE
        cluster.nodes[HANGING].hold()
        try:
            written = writer.send(commit_of(group_id, 9), 8)
            begun = other.send(commit_of(new_group, 1), 8)

            # Nobody who only reads waits for the replica, nor is told of what it may never have.
            assert fetched(client, group_id, require_stable=False) == 5
            listed = client.call(ListGroupsRequest(states_filter=[], types_filter=[]), ListGroupsResponse, 4)
            assert group_id in [each.group_id for each in listed.groups]
            assert new_group not in [each.group_id for each in listed.groups]
            described = client.call(
                DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False), DescribeGroupsResponse, 5
            ).groups[0]
            assert (described.error_code, described.group_state) == (ErrorCode.NONE, "Empty")
            asked = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
            answer = client.call(asked, ConsumerGroupDescribeResponse, 0).groups[0]
            assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert not writer.has_answer
            assert not other.has_answer

            # Who asks for stable offsets does, and is sent to look for the coordinator again.
            assert fetch(client, group_id, require_stable=True).error_code == ErrorCode.NOT_COORDINATOR
            timed_out = writer.receive(written, OffsetCommitResponse)
            assert committed(timed_out) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert committed(other.receive(begun, OffsetCommitResponse)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert fetched(client, group_id, require_stable=False) == 5
        finally:
            cluster.nodes[HANGING].go_on()
        # What was written is not undone: the replica has it now.
        wait_until(lambda: fetch(client, group_id, require_stable=True).error_code == 0, "the replica is back")
        assert fetched(client, group_id, require_stable=True) == 9
        assert fetched(client, group_id, require_stable=False) == 9


def test_a_group_below_min_isr_backs_off_instead_of_rebalancing_without_end(cluster: ClusterProcesses) -> None:
    group_id = groups_of_the_first_node(cluster, 3)[-1]
    with RawClient(cluster.nodes[1].bootstrap) as client, RawClient(cluster.nodes[1].bootstrap) as other:
        assert committed(client.call(commit_of(group_id, 5), OffsetCommitResponse, 8)) == ErrorCode.NONE
        for number in (2, 3):
            cluster.nodes[number].stop()
        # All that there is was committed before.
        assert fetched(client, group_id, require_stable=True) == 5

        member_id = client.call(join_of(group_id, ""), JoinGroupResponse, 5).member_id
        joined = client.call(join_of(group_id, member_id), JoinGroupResponse, 5)
        assert (joined.error_code, joined.leader) == (ErrorCode.NONE, member_id)
        synced = client.send(sync_of(group_id, joined), 3)
        for _ in range(5):
            assert fetched(other, group_id, require_stable=False) == 5
        # Otherwise the member would be back at once, and so on a thousand times a second.
        assert not client.has_answer
        assert client.receive(synced, SyncGroupResponse).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

        again = client.call(join_of(group_id, member_id), JoinGroupResponse, 5)
        assert (again.error_code, again.generation_id) == (ErrorCode.NONE, joined.generation_id + 1)
        synced = client.send(sync_of(group_id, again), 3)
        cluster.start(2, 3)
        # The replicas are back: a sync that waits is answered, or the next one.
        answer = client.receive(synced, SyncGroupResponse)
        while answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            again = client.call(join_of(group_id, member_id), JoinGroupResponse, 5)
            answer = client.call(sync_of(group_id, again), SyncGroupResponse, 3)
        assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"assigned")


def join_of(group_id: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def sync_of(group_id: str, joined: JoinGroupResponse) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"assigned")],
    )
