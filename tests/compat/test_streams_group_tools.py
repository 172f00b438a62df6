"""`kafka-streams-groups` and the other tools that know streams groups, against a node of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka, Output
from tests.support.group_topics import GROUP_SETTINGS, Topics, new_name, numbers
from tests.support.streams_groups import info, part, topology
from tests.support.streams_member import BeatingStreamsMember
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin
from tidelog.client.consumer.topic_partition import TopicPartition

pytestmark = pytest.mark.compat

STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
SETTINGS = {
    **GROUP_SETTINGS,
    "group.streams.initial.rebalance.delay.ms": "0",
    # A member does not beat while a tool runs, which takes its time.
    "group.streams.max.session.timeout.ms": "600000",
    "group.streams.session.timeout.ms": "600000",
}

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path_factory.mktemp("node"), **SETTINGS)
    with node.running():
        yield node


@pytest.fixture
def tool(kafka: ApacheKafka, node: TidelogNode) -> Tool:
    """Runs a tool against the node, and holds it to success unless told otherwise."""

    def run(main_class: str, *arguments: str, fails: bool = False) -> str:
        done: Output = kafka.tool(main_class, "--bootstrap-server", node.bootstrap, *arguments)
        assert (done.code != 0) is fails, f"{main_class} {arguments}: {done}"
        return done.stdout + done.stderr

    return run


def table(text: str) -> list[dict[str, str]]:
    """The rows that a tool printed, by the names of their columns."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    start = next(number for number, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[start], line, strict=False)) for line in lines[start + 1 :]]


def test_kafka_streams_groups_lists_describes_resets_and_deletes_a_group(tool: Tool, node: TidelogNode) -> None:
    topics = Topics(node.bootstrap)
    topic, group = topics.make(2), new_name("group")
    topics.send(topic, 2, numbers(0, 10))
    log = f"{group}-counts-changelog"
    of = topology(part("0", [topic], changelogs=[info(log, replicas=1, cleanup_policy="compact")]))
    member = BeatingStreamsMember(node.bootstrap, group, of).join(2)

    listed = table(tool(STREAMS_GROUPS, "--list", "--state"))
    groups = table(tool(GROUPS, "--list", "--streams"))
    state = table(tool(STREAMS_GROUPS, "--describe", "--group", group, "--state", "--verbose"))
    members = tool(STREAMS_GROUPS, "--describe", "--group", group, "--members", "--verbose")
    offsets = table(tool(STREAMS_GROUPS, "--describe", "--group", group, "--offsets"))
    refused = tool(STREAMS_GROUPS, "--delete", "--group", group)
    member.leave()
    # Only of partitions that the group has committed something for can the tool tell.
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        assert set(admin.alter_group_offsets(group, {(topic, 0): 5, (topic, 1): 4}).values()) == {None}
    reset = tool(
        STREAMS_GROUPS, "--reset-offsets", "--group", group, "--input-topic", topic, "--to-earliest", "--execute"
    )
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        moved = {each: found.offset for each, found in admin.list_group_offsets(group).items()}
    deleted = tool(STREAMS_GROUPS, "--delete", "--group", group, "--delete-all-internal-topics")

    assert {"GROUP": group, "STATE": "Stable"} in listed
    assert [(row["TYPE"], row["PROTOCOL"]) for row in groups if row["GROUP"] == group] == [("Streams", "streams")]
    assert [(row["STATE"], row["#MEMBERS"]) for row in state] == [("Stable", "1")]
    assert "process of m" in members
    assert "0:[0,1]" in members
    assert f"Streams group '{group}' is not EMPTY" in refused
    assert topic in reset
    assert [(row["TOPIC"], row["PARTITION"], row["OFFSET-LAG"]) for row in sorted(offsets, key=str)] == [
        (topic, "0", "5"),
        (topic, "1", "5"),
    ]
    assert moved == {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}
    assert "successful" in deleted
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        assert group not in {each.group_id for each in admin.list_groups()}
        # The tool takes an application's own topics with it.
        assert log not in {each.name for each in admin.list_topics()}


def test_the_announced_apis_are_those_of_apache_kafka(tool: Tool) -> None:
    announced = [line for line in tool(VERSIONS).splitlines() if "(" in line and "):" in line and "usable" in line]

    assert any("StreamsGroupHeartbeat(88): 0" in line for line in announced)
    assert any("StreamsGroupDescribe(89): 0" in line for line in announced)
    assert len(announced) == 75
