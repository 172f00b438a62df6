"""Share groups on clusters with real sockets: states on other brokers, administration from Python, and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from typer.testing import Result

from tests.support.beating_member import MEMBER, BeatingMember, coordinator_of
from tests.support.command_line import json_lines, tidelog
from tests.support.raw_client import RawClient
from tidelog import Admin, Producer
from tidelog.client.admin import GroupState, GroupType, ResourceKind, UpgradeType
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import RefusedError
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId
from tidelog.testing import EmbeddedCluster
from tidelog.wire.messages.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

RECORDS = 10
PARTITIONS = 6

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Three brokers: groups, their states and their partitions are on different ones."""
    with EmbeddedCluster(nodes=3) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for partition in range(PARTITIONS):
                for _ in range(RECORDS):
                    producer.send("orders", b"x", partition=partition)
        yield cluster


@pytest.fixture
def admin(cluster: EmbeddedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def command(cluster: EmbeddedCluster) -> Command:
    return lambda *arguments: tidelog(*arguments, "--bootstrap", cluster.bootstrap_servers)


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).partition("[")[0]


def test_partitions_get_states_wherever_their_coordinators_are(
    cluster: EmbeddedCluster, admin: Admin, group: str
) -> None:
    member = BeatingMember(cluster.bootstrap_servers, group, "orders").join(PARTITIONS)

    described = admin.describe_group(group)
    (topic_id,) = member.partitions
    keys = [SharePartitionKey(group, TopicId(topic_id), PartitionIndex(index)) for index in range(PARTITIONS)]
    keepers = {coordinator_of(cluster.bootstrap_servers, str(key), 2) for key in keys}

    assert len(keepers) > 1
    assert (described.type, described.state, described.assignor) == (GroupType.SHARE, GroupState.STABLE, "simple")
    assert [each.member_id for each in described.members] == [MEMBER]
    assert described.members[0].assignment == tuple(TopicPartition("orders", index) for index in range(PARTITIONS))
    assert [each.type for each in admin.list_groups(types=[GroupType.SHARE]) if each.group_id == group] == ["share"]
    # Nothing was delivered, so the group is nowhere.
    assert admin.list_share_group_offsets(group) == {}
    member.leave()


def test_a_group_is_sent_elsewhere_and_forgets_where_it_was(admin: Admin, group: str) -> None:
    altered = admin.alter_share_group_offsets(group, {("orders", index): index for index in range(PARTITIONS)})
    positions = admin.list_share_group_offsets(group)
    some = admin.list_share_group_offsets(group, [("orders", 1), ("unknown", 0)])
    behind = admin.group_lag(group)

    assert set(altered.values()) == {None}
    assert [each.start_offset for each in positions.values()] == list(range(PARTITIONS))
    assert [each.lag for each in positions.values()] == [RECORDS - index for index in range(PARTITIONS)]
    assert list(some) == [TopicPartition("orders", 1)]
    assert [(each.committed, each.log_end_offset, each.lag) for each in behind][:2] == [(0, 10, 10), (1, 10, 9)]

    deleted = admin.delete_share_group_offsets(group, ["orders", "unknown"])

    assert deleted["orders"] is None
    assert isinstance(deleted["unknown"], RefusedError)
    assert admin.list_share_group_offsets(group) == {}
    admin.delete_group(group)
    with pytest.raises(RefusedError, match="there is no group"):
        admin.describe_group(group)


def test_a_group_with_members_is_left_alone(cluster: EmbeddedCluster, admin: Admin, group: str) -> None:
    member = BeatingMember(cluster.bootstrap_servers, group, "orders").join(PARTITIONS)

    with pytest.raises(RefusedError, match="has members: stop its consumers first"):
        admin.alter_share_group_offsets(group, {("orders", 0): 1})
    with pytest.raises(RefusedError, match="has members: stop its consumers first"):
        admin.delete_share_group_offsets(group, ["orders"])
    with pytest.raises(RefusedError, match="has members: stop its consumers first"):
        admin.delete_group(group)
    member.leave()


def test_a_group_has_bounds_for_what_it_may_be_configured_to_do(admin: Admin, group: str) -> None:
    with pytest.raises(RefusedError, match=r"share\.delivery\.count\.limit must be less than or equal to"):
        admin.alter_config(ResourceKind.GROUP, group, set={"share.delivery.count.limit": "11"})
    admin.alter_config(ResourceKind.GROUP, group, set={"share.heartbeat.interval.ms": "7000"})

    assert admin.describe_config(ResourceKind.GROUP, group)["share.heartbeat.interval.ms"].value == "7000"


def test_the_command_line_knows_share_groups(cluster: EmbeddedCluster, command: Command, group: str) -> None:
    planned = command("groups", "reset-offsets", group, "orders:0,1", "--to-offset", "4", "--share")
    done = command("groups", "reset-offsets", group, "orders:0,1", "--to-offset", "4", "--share", "--execute")
    lag = json_lines(command("groups", "lag", group, "--json"))
    member = BeatingMember(cluster.bootstrap_servers, group, "orders").join(PARTITIONS)
    listed = command("groups", "list", "--type", "share")
    described = json.loads(command("groups", "describe", group, "--json").stdout.splitlines()[0])
    refused = command("groups", "reset-offsets", group, "orders", "--to-earliest", "--execute")
    member.leave()
    forgotten = command("groups", "delete-offsets", group, "orders")
    deleted = command("groups", "delete", group)

    assert "nothing was changed" in planned.stdout
    assert done.exit_code == 0, done.output
    assert [(each["partition"], each["committed"], each["lag"]) for each in lag] == [(0, 4, 6), (1, 4, 6)]
    assert group in listed.stdout
    assert (described["type"], described["assignor"]) == ("share", "simple")
    assert "has a member: stop its consumers first" in refused.output
    assert f"group {group} has forgotten where it was in orders" in forgotten.stdout
    assert deleted.stdout == f"deleted group {group}\n"


def test_a_cluster_without_share_groups_is_raised_to_them(group: str) -> None:
    with EmbeddedCluster() as cluster, Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        cluster.create_topic("orders", partitions=1)
        coordinator_of(cluster.bootstrap_servers, group)
        admin.update_features({"share.version": 0}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id=MEMBER, member_epoch=0, subscribed_topic_names=["orders"]
        )
        with RawClient(cluster.bootstrap_servers) as client:
            refused = client.call(request, ShareGroupHeartbeatResponse, 1)
        admin.update_features({"share.version": 1})

        member = BeatingMember(cluster.bootstrap_servers, group, "orders").join(1)
        member.leave()

    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
