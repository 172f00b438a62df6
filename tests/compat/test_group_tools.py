"""Apache Kafka's tools for groups, against a node of ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka, Output, wait_until
from tests.support.group_members import MemberProcess
from tests.support.group_topics import GROUP_SETTINGS, Topics, new_name, numbers
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
VERIFIABLE = "org.apache.kafka.tools.VerifiableConsumer"
COMPATIBILITY = "org.apache.kafka.tools.ClientCompatibilityTest"
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path_factory.mktemp("node"), **GROUP_SETTINGS)
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


def protocol_settings(protocol: str) -> dict[str, object]:
    return {"group.protocol": "consumer"} if protocol == "consumer" else {}


@PROTOCOLS
def test_kafka_consumer_groups_lists_and_describes(
    tool: Tool, node: TidelogNode, topics: Topics, protocol: str
) -> None:
    topic, group = topics.make(2), new_name("group")
    topics.send(topic, 2, numbers(0, 10))
    settings = protocol_settings(protocol)
    with MemberProcess("confluent", node.bootstrap, group, [topic], settings=settings) as member:
        member.wait_until(lambda: sum(member.committed.values()) == 10, "all is committed")
        assert group in tool(GROUPS, "--list").split()
        listed = [line.split() for line in tool(GROUPS, "--list", "--type", "--state").splitlines()]
        assert [group, protocol.capitalize(), "Stable"] in listed
        topics.send(topic, 2, numbers(10, 12))
        member.wait_until(lambda: sum(member.committed.values()) == 12, "all is committed")
        rows = table(tool(GROUPS, "--describe", "--group", group))
        assert [(row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in rows] == [
            ("0", "6", "6", "0"),
            ("1", "6", "6", "0"),
        ]
        assert {row["CONSUMER-ID"] for row in rows} == {member.member_ids[-1]}
        members = table(tool(GROUPS, "--describe", "--group", group, "--members"))
        assert [(row["CONSUMER-ID"], row["#PARTITIONS"]) for row in members] == [(member.member_ids[-1], "2")]
        state = tool(GROUPS, "--describe", "--group", group, "--state")
        assert "Stable" in state
        refused = tool(GROUPS, "--delete", "--group", group, fails=False)
        assert "GroupNotEmptyException" in refused
    assert "has no active members" in tool(GROUPS, "--describe", "--group", group)


@PROTOCOLS
def test_kafka_consumer_groups_resets_and_deletes(
    tool: Tool, node: TidelogNode, topics: Topics, tmp_path: Path, protocol: str
) -> None:
    topic, other, group = topics.make(2), topics.make(1), new_name("group")
    topics.send(topic, 2, numbers(0, 10))
    topics.send(other, 1, numbers(0, 3))
    settings = protocol_settings(protocol)
    with MemberProcess("confluent", node.bootstrap, group, [topic, other], settings=settings) as member:
        member.wait_until(lambda: sum(member.committed.values()) == 13, "all is committed")

    def reset(*arguments: str, execute: bool = True) -> None:
        mode = "--execute" if execute else "--dry-run"
        tool(GROUPS, "--reset-offsets", "--group", group, *arguments, mode)

    def committed() -> list[int]:
        return topics.committed(group, topic, 2)

    reset("--topic", topic, "--to-earliest", execute=False)
    assert committed() == [5, 5]
    reset("--topic", topic, "--to-earliest")
    assert committed() == [0, 0]
    reset("--topic", f"{topic}:1", "--to-offset", "4")
    assert committed() == [0, 4]
    reset("--topic", topic, "--shift-by", "1")
    assert committed() == [1, 5]
    reset("--topic", topic, "--to-datetime", "2020-01-01T00:00:00.000")
    assert committed() == [0, 0]
    reset("--topic", topic, "--to-latest")
    assert committed() == [5, 5]
    reset("--topic", topic, "--by-duration", "P1D")
    assert committed() == [0, 0]
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,2\n{topic},1,3\n")
    reset("--from-file", str(plan))
    assert committed() == [2, 3]
    reset("--all-topics", "--to-current")
    assert committed() == [2, 3]

    tool(GROUPS, "--delete-offsets", "--group", group, "--topic", other)
    assert topics.committed(group, other, 1) == [-1001]
    assert committed() == [2, 3]
    assert "successful" in tool(GROUPS, "--delete", "--group", group)
    assert group not in tool(GROUPS, "--list").split()
    assert committed() == [-1001, -1001]


@PROTOCOLS
def test_kafka_console_consumer_goes_on_where_its_group_was(tool: Tool, topics: Topics, protocol: str) -> None:
    topic, group = topics.make(2), new_name("group")
    topics.send(topic, 2, numbers(0, 10))

    def consume(count: int) -> list[str]:
        printed = tool(
            CONSOLE,
            *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", str(count)),
            *("--timeout-ms", "20000", "--consumer-property", f"group.protocol={protocol}"),
        )
        return sorted((line for line in printed.splitlines() if line.isdigit()), key=int)

    assert consume(10) == numbers(0, 10)
    topics.send(topic, 2, numbers(10, 14))
    assert consume(4) == numbers(10, 14)


def test_kafka_consumer_perf_test_measures(tool: Tool, topics: Topics) -> None:
    topic = topics.make(2)
    topics.send(topic, 2, numbers(0, 2_000))
    printed = tool(PERFORMANCE, "--topic", topic, "--messages", "2000", "--timeout", "20000")
    figures = next(line for line in printed.splitlines() if line[:2] == "20")
    assert figures.split(", ")[4] == "2000"


@PROTOCOLS
def test_verifiable_consumers_share_and_commit(
    kafka: ApacheKafka, node: TidelogNode, topics: Topics, protocol: str
) -> None:
    topic, group = topics.make(4), new_name("group")
    topics.send(topic, 4, numbers(0, 40))
    arguments = ["--bootstrap-server", node.bootstrap, "--topic", topic, "--group-id", group]
    arguments += ["--group-protocol", protocol, "--reset-policy", "earliest"]
    command = kafka.command(VERIFIABLE, *arguments)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in range(2)]
    try:
        wait_until(lambda: topics.committed(group, topic, 4) == [10] * 4, "all is committed")
        wait_until(lambda: _owners(topics, group) == [2, 2], "both have their share")
    finally:
        for each in both:
            each.terminate()
        printed = [each.communicate(timeout=60)[0] for each in both]
    happened = [json.loads(line) for text in printed for line in text.splitlines() if line.startswith("{")]
    assert sum(each["count"] for each in happened if each["name"] == "records_consumed") >= 40
    assert all(each["success"] for each in happened if each["name"] == "offsets_committed")
    assert sum(each["name"] == "shutdown_complete" for each in happened) == 2
    assert _owners(topics, group) == []


def _owners(topics: Topics, group: str) -> list[int]:
    described = topics.admin.describe_consumer_groups([group])[group].result(30)
    return sorted(len(member.assignment.topic_partitions) for member in described.members)


def test_the_java_client_finds_all_that_it_can_use(tool: Tool, topics: Topics) -> None:
    topic = topics.make(1)
    supported = (
        *("--offsets-for-times-supported", "true", "--cluster-id-supported", "true"),
        *("--expect-record-too-large-exception", "false", "--num-cluster-nodes", "1", "--topic", topic),
        *("--create-topics-supported", "true", "--describe-acls-supported", "false"),
        *("--describe-configs-supported", "true", "--idempotent-producer-supported", "true"),
    )
    assert "SUCCESS" in tool(COMPATIBILITY, *supported)
