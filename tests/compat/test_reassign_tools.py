"""`kafka-reassign-partitions` of Apache Kafka against a cluster of ours with three nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka, Output, wait_until
from tests.support.command_line import tidelog
from tidelog import Admin, Producer
from tidelog.client.admin import ConfigSource, ResourceKind
from tidelog.testing import EmbeddedCluster

pytestmark = pytest.mark.compat

COMMAND = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPIC = "orders"
RATE = 1_000_000

Tool = Callable[..., Output]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    # Followers get one batch at a time: what is throttled to next to nothing is seen on its way.
    with EmbeddedCluster(nodes=3, config={"replica.fetch.max.bytes": "100"}) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, partitions=2, replication_factor=2)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
            for number in range(60):
                producer.send(TOPIC, b"%d" % number, partition=number % 2).result(30)
        yield cluster


@pytest.fixture
def admin(cluster: EmbeddedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def tool(kafka: ApacheKafka, cluster: EmbeddedCluster) -> Tool:
    def run(*arguments: str | Path, fails: bool = False) -> Output:
        done = kafka.tool(COMMAND, "--bootstrap-server", cluster.bootstrap_servers, *map(str, arguments))
        assert (done.code != 0) is fails, f"{arguments}: {done}"
        return done

    return run


def replicas(admin: Admin) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in admin.describe_topic(TOPIC).partitions]


def plan(path: Path, wanted: list[tuple[int, ...]]) -> Path:
    rows = [{"topic": TOPIC, "partition": index, "replicas": list(each)} for index, each in enumerate(wanted)]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return path


def elsewhere(admin: Admin) -> list[tuple[int, ...]]:
    """The same leaders, and the broker that has none yet as follower."""
    return [(each[0], next(node for node in (1, 2, 3) if node not in each)) for each in replicas(admin)]


def throttled(admin: Admin) -> bool:
    topic = admin.describe_config(ResourceKind.TOPIC, TOPIC)
    of_topic = any("throttled" in name and entry.source is ConfigSource.TOPIC for name, entry in topic.items())
    of_brokers = any("throttled" in name for node in "123" for name in admin.describe_config(ResourceKind.BROKER, node))
    assert of_topic == of_brokers
    return of_topic


def test_a_reassignment_with_a_throttle_is_executed_and_verified(tool: Tool, admin: Admin, tmp_path: Path) -> None:
    target = elsewhere(admin)
    file = plan(tmp_path / "plan.json", target)

    executed = tool("--execute", "--reassignment-json-file", file, "--throttle", str(RATE))
    was_throttled = throttled(admin)
    wait_until(lambda: not admin.list_partition_reassignments(), "the reassignment is done")
    verified = tool("--verify", "--reassignment-json-file", file)

    assert "Successfully started partition reassignments for orders-0,orders-1" in executed.stdout
    assert f"The inter-broker throttle limit was set to {RATE} B/s" in executed.stdout
    assert was_throttled
    assert replicas(admin) == target
    assert "Reassignment of partition orders-0 is completed." in verified.stdout
    assert "Clearing topic-level throttles on topic orders" in verified.stdout
    assert not throttled(admin)
    assert tool("--list").stdout.strip() == "No partition reassignments found."


def test_one_that_is_under_way_is_listed_and_cancelled(tool: Tool, admin: Admin, tmp_path: Path) -> None:
    before = replicas(admin)
    file = plan(tmp_path / "plan.json", elsewhere(admin))

    tool("--execute", "--reassignment-json-file", file, "--throttle", "1")
    listed = tool("--list").stdout
    again = tool("--execute", "--reassignment-json-file", file, fails=True)
    verified = tool("--verify", "--reassignment-json-file", file).stdout
    cancelled = tool("--cancel", "--reassignment-json-file", file).stdout

    assert "Current partition reassignments:" in listed
    assert all(f"{TOPIC}-{index}: replicas: " in listed for index in (0, 1))
    assert "there is an existing partition assignment" in again.stdout
    assert "Reassignment of partition orders-0 is still in progress." in verified
    assert "Successfully cancelled partition reassignments for: orders-0,orders-1" in cancelled
    assert [sorted(each) for each in replicas(admin)] == [sorted(each) for each in before]
    assert not throttled(admin)


def test_a_broker_that_is_not_there_is_refused_in_kafkas_words(tool: Tool, tmp_path: Path) -> None:
    refused = tool("--execute", "--reassignment-json-file", plan(tmp_path / "plan.json", [(1, 9)]), fails=True)

    assert "Unknown broker id 9" in refused.stdout + refused.stderr


def test_what_it_generates_is_a_plan_for_ours_and_the_other_way_round(
    tool: Tool, admin: Admin, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": TOPIC}]}))
    at = ("--bootstrap", cluster.bootstrap_servers)

    generated = tool("--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2").stdout
    proposed = tmp_path / "proposed.json"
    proposed.write_text(generated.rpartition("configuration\n")[2])
    applied = tidelog("reassign", "apply", proposed, "--wait", *at)
    emptied = replicas(admin)
    ours = tmp_path / "ours.json"
    ours.write_text(tidelog("reassign", "plan", "--topic", TOPIC, "--without", "1", "--json", *at).stdout)
    tool("--execute", "--reassignment-json-file", ours)
    wait_until(lambda: not admin.list_partition_reassignments(), "the reassignment is done")

    assert applied.exit_code == 0, applied.output
    assert all(set(each) == {1, 2} for each in emptied)
    assert all(set(each) == {2, 3} for each in replicas(admin))
    assert "is completed" in tool("--verify", "--reassignment-json-file", ours).stdout
