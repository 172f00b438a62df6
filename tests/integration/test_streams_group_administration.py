"""Streams groups on a cluster with real sockets: internal topics, administration from Python, and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from typer.testing import Result

from tests.support.command_line import json_lines, tidelog
from tests.support.streams_groups import info, part, topology
from tests.support.streams_member import BeatingStreamsMember
from tidelog import Admin, Producer
from tidelog.client.admin import GroupState, GroupType, StreamsGroupDescription
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import RefusedError
from tidelog.testing import EmbeddedCluster

RECORDS = 5
PARTITIONS = 3
SETTINGS: dict[str, str | int | bool] = {
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.assignment.interval.ms": 0,
}
Command = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(nodes=1, config=SETTINGS) as cluster:
        cluster.create_topic("words", partitions=PARTITIONS)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for partition in range(PARTITIONS):
                for _ in range(RECORDS):
                    producer.send("words", b"x", partition=partition)
        yield cluster


@pytest.fixture
def admin(cluster: EmbeddedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def command(cluster: EmbeddedCluster) -> Command:
    return lambda *arguments: tidelog(*arguments, "--bootstrap", cluster.bootstrap_servers)


def test_an_application_runs_is_looked_at_moved_and_deleted(
    cluster: EmbeddedCluster, admin: Admin, command: Command
) -> None:
    again = info("word-count-again", replicas=1, cleanup_policy="delete", retention_ms="-1")
    of = topology(
        part("0", ["words"], sinks=["word-count-again"]),
        part("1", [], repartitioned=[again], changelogs=[info("word-count-log", replicas=1, cleanup_policy="compact")]),
    )
    member = BeatingStreamsMember(cluster.bootstrap_servers, "word-count", of).join(2 * PARTITIONS)

    # The topics that it needs were created for it.
    assert {"word-count-again", "word-count-log"} <= {each.name for each in admin.list_topics()}
    assert len(admin.describe_topic("word-count-log").partitions) == PARTITIONS

    described = admin.describe_streams_groups(["word-count", "nobody"])
    group = described["word-count"]
    assert isinstance(group, StreamsGroupDescription)
    assert isinstance(described["nobody"], RefusedError)
    assert (group.state, group.topology_epoch, group.members[0].process_id) == (GroupState.STABLE, 0, "process of m")
    assert group.members[0].assignment.active == {"0": (0, 1, 2), "1": (0, 1, 2)}
    assert [topic.partitions for topic in group.subtopologies[1].state_changelog_topics] == [PARTITIONS]

    general = admin.describe_group("word-count")
    assert (general.type, general.protocol_type, general.state) == (GroupType.STREAMS, "streams", GroupState.STABLE)
    assert general.members[0].assignment[-1] == TopicPartition("words", 2)
    assert [each.group_id for each in admin.list_groups(types=[GroupType.STREAMS])] == ["word-count"]

    behind = json_lines(command("groups", "lag", "word-count", "--json"))
    assert [(each["topic"], each["lag"], each["member"]) for each in behind if each["topic"] == "words"] == [
        ("words", None, "m")
    ] * PARTITIONS
    with pytest.raises(RefusedError, match="has members"):
        admin.delete_group("word-count")
    member.leave()

    moved = command("groups", "reset-offsets", "word-count", "words", "--to-earliest", "--execute")
    assert moved.exit_code == 0, moved.output
    assert [each.lag for each in admin.group_lag("word-count")] == [RECORDS] * PARTITIONS
    shown = json.loads(command("groups", "describe", "word-count", "--json").stdout.splitlines()[0])
    assert (shown["type"], shown["state"]) == ("streams", "Empty")
    assert "word-count" in command("groups", "lag", "--all").stdout
    assert command("groups", "delete-offsets", "word-count", "words").exit_code == 0
    assert admin.group_lag("word-count") == []
    admin.delete_group("word-count")
    assert admin.list_groups(types=[GroupType.STREAMS]) == []
