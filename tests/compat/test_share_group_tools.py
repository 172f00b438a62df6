"""`kafka-share-groups` and the other tools that know share groups, against a node of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka, Output
from tests.support.beating_member import BeatingMember
from tests.support.group_topics import GROUP_SETTINGS, Topics, new_name, numbers
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"
DUMP = "kafka.tools.DumpLogSegments"
SETTINGS = {
    **GROUP_SETTINGS,
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path_factory.mktemp("node"), **SETTINGS)
    with node.running():
        yield node


@pytest.fixture(scope="module")
def topics(node: TidelogNode) -> Topics:
    return Topics(node.bootstrap)


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


def test_kafka_share_groups_lists_and_describes_a_group_with_a_member(
    tool: Tool, node: TidelogNode, topics: Topics
) -> None:
    topic, group = topics.make(2), new_name("group")
    member = BeatingMember(node.bootstrap, group, topic).join(2)

    listed = table(tool(SHARE_GROUPS, "--list", "--state"))
    groups = table(tool(GROUPS, "--list", "--share"))
    state = table(tool(SHARE_GROUPS, "--describe", "--group", group, "--state", "--verbose"))
    members = table(tool(SHARE_GROUPS, "--describe", "--group", group, "--members"))
    offsets = table(tool(SHARE_GROUPS, "--describe", "--group", group))
    member.leave()

    assert {"GROUP": group, "STATE": "Stable"} in listed
    assert [(row["TYPE"], row["PROTOCOL"]) for row in groups if row["GROUP"] == group] == [("Share", "share")]
    assert [(row["STATE"], row["#MEMBERS"]) for row in state] == [("Stable", "1")]
    assert [(row["CONSUMER-ID"], row["#PARTITIONS"]) for row in members] == [(member.member_id, "2")]
    # Nothing was delivered: the group is nowhere.
    assert {(row["TOPIC"], row["START-OFFSET"], row["LAG"]) for row in offsets} == {(topic, "-", "-")}


def test_kafka_share_groups_moves_and_forgets_a_group(tool: Tool, topics: Topics) -> None:
    topic, group = topics.make(2), new_name("group")
    topics.send(topic, 2, numbers(0, 10))
    reset = ["--reset-offsets", "--group", group, "--topic", topic]

    tool(SHARE_GROUPS, *reset, "--to-earliest", "--execute")
    earliest = table(tool(SHARE_GROUPS, "--describe", "--group", group))
    tool(SHARE_GROUPS, *reset, "--to-latest", "--execute")
    latest = table(tool(SHARE_GROUPS, "--describe", "--group", group))
    forgotten = tool(SHARE_GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    afterwards = tool(SHARE_GROUPS, "--describe", "--group", group)
    deleted = tool(SHARE_GROUPS, "--delete", "--group", group)

    assert sum(int(row["LAG"]) for row in earliest) == 10
    assert {row["START-OFFSET"] for row in earliest} == {"0"}
    assert sum(int(row["START-OFFSET"]) for row in latest) == 10
    assert {row["LAG"] for row in latest} == {"0"}
    assert "Successful" in forgotten
    assert topic not in afterwards
    assert "success" in deleted
    assert group not in tool(SHARE_GROUPS, "--list").split()


def test_a_group_with_a_member_is_refused_in_words_that_the_tool_knows(
    tool: Tool, node: TidelogNode, topics: Topics
) -> None:
    topic, group = topics.make(1), new_name("group")
    member = BeatingMember(node.bootstrap, group, topic).join(1)

    reset = tool(
        SHARE_GROUPS, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute", fails=True
    )
    delete = tool(SHARE_GROUPS, "--delete", "--group", group, fails=False)
    member.leave()

    assert "not empty" in reset or "active" in reset
    assert "GroupNotEmpty" in delete or "not empty" in delete
