"""Apache Kafka's own tools for clusters, against three nodes of ours."""

from __future__ import annotations

import json
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import TOOL_TIMEOUT_S, ApacheKafka, Output
from tests.support.cluster_load import wait_until
from tests.support.cluster_processes import CLUSTER_ID, ClusterProcesses
from tidelog import Admin, Producer
from tidelog.client.admin import NewTopic
from tidelog.storage.properties import parse_properties

pytestmark = pytest.mark.compat

TOOLS = "org.apache.kafka.tools"
SHELL = "org.apache.kafka.shell.MetadataShell"

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three nodes, of which the first votes alone, with a topic of which each leads one partition."""
    cluster = ClusterProcesses(tmp_path_factory.mktemp("cluster"), voters=[1])
    with cluster.running(), Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", replicas=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])])
        with Producer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(300):
                producer.send("orders", b"%d" % number, partition=number % 3)
            producer.flush()
        yield cluster


@pytest.fixture
def tool(kafka: ApacheKafka, cluster: ClusterProcesses) -> Tool:
    """Runs a tool against the brokers, or the controllers, and holds it to success unless told otherwise."""

    def run(name: str, *arguments: str, controllers: bool = False, fails: bool = False) -> str:
        to = (
            ("--bootstrap-controller", cluster.controllers)
            if controllers
            else ("--bootstrap-server", cluster.bootstrap)
        )
        done: Output = kafka.tool(f"{TOOLS}.{name}", *to, *arguments)
        assert (done.code != 0) is fails, f"{name} {arguments}: {done}"
        return done.stdout + done.stderr

    return run


def directory_of(cluster: ClusterProcesses, number: int) -> str:
    return parse_properties((cluster.nodes[number].data / "meta.properties").read_bytes())["directory.id"]


def properties_of(cluster: ClusterProcesses, number: int) -> str:
    return str(cluster.nodes[number].data.parent / f"node-{number}.properties")


@pytest.mark.parametrize("controllers", [False, True], ids=["brokers", "controllers"])
def test_kafka_metadata_quorum_changes_the_voters_and_describes_them(
    tool: Tool, cluster: ClusterProcesses, *, controllers: bool
) -> None:
    def status() -> dict[str, str]:
        printed = tool("MetadataQuorumCommand", "describe", "--status", controllers=controllers)
        return dict(re.findall(r"^(\w+): +(.*)$", printed, re.MULTILINE))

    def ids(replicas: str) -> list[int]:
        return sorted(each["id"] for each in json.loads(replicas))

    before = status()
    assert (before["ClusterId"], before["LeaderId"], before["MaxFollowerLag"]) == (CLUSTER_ID, "1", "0")
    assert (ids(before["CurrentVoters"]), ids(before["CurrentObservers"])) == ([1], [2, 3])

    for number in (2, 3):
        options = ("--command-config", properties_of(cluster, number))
        added = tool("MetadataQuorumCommand", *options, "add-controller", controllers=controllers)
        assert f"Added controller {number} with directory id {directory_of(cluster, number)}" in added
    twice = tool(
        "MetadataQuorumCommand",
        *("--command-config", properties_of(cluster, 2), "add-controller"),
        controllers=controllers,
        fails=True,
    )
    assert "DuplicateVoterException" in twice
    voters = json.loads(status()["CurrentVoters"])
    assert [(each["id"], each["directoryId"]) for each in voters] == [
        (number, directory_of(cluster, number)) for number in (1, 2, 3)
    ]
    table = tool("MetadataQuorumCommand", "describe", "--replication", controllers=controllers)
    assert re.findall(r"^(\d)\s.*\s(Leader|Follower|Observer)\s*$", table, re.MULTILINE) == [
        ("1", "Leader"),
        ("2", "Follower"),
        ("3", "Follower"),
    ]

    for number in (2, 3):
        removed = tool(
            "MetadataQuorumCommand",
            *("remove-controller", "--controller-id", str(number)),
            *("--controller-directory-id", directory_of(cluster, number)),
            controllers=controllers,
        )
        assert f"controller {number} with directory id {directory_of(cluster, number)}" in removed
    assert ids(status()["CurrentVoters"]) == [1]


def test_kafka_leader_election_elects_the_preferred_ones(tool: Tool, cluster: ClusterProcesses, tmp_path: Path) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:

        def leaders() -> list[int | None]:
            return [each.leader for each in admin.describe_topic("orders").partitions]

        def is_whole() -> bool:
            return all(len(each.in_sync) == 3 for each in admin.describe_topic("orders").partitions)

        wait_until(is_whole, "all replicas are in sync")
        preferred = ("--election-type", "preferred")
        right = tool("LeaderElectionCommand", *preferred, "--topic", "orders", "--partition", "0")
        assert "Valid replica already elected for partitions orders-0" in right
        cluster.nodes[3].stop()
        cluster.start(3)
        wait_until(is_whole, "all replicas are in sync again")
        assert leaders()[2] != 3

        wanted = tmp_path / "partitions.json"
        wanted.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": 2}]}))
        elected = tool("LeaderElectionCommand", *preferred, "--path-to-json-file", str(wanted))
        assert "Successfully completed leader election (PREFERRED) for partitions orders-2" in elected
        assert leaders() == [1, 2, 3]
        tool("LeaderElectionCommand", *preferred, "--all-topic-partitions")
        nowhere = tool("LeaderElectionCommand", *preferred, "--topic", "nowhere", "--partition", "0", fails=True)
        assert "UnknownTopicOrPartitionException" in nowhere


@pytest.mark.parametrize("controllers", [False, True], ids=["brokers", "controllers"])
def test_kafka_features_describes_and_changes_levels(tool: Tool, *, controllers: bool) -> None:
    described = tool("FeatureCommand", "describe", controllers=controllers)
    levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", described))
    assert levels == {
        "eligible.leader.replicas.version": "1",
        "group.version": "1",
        "kraft.version": "1",
        "metadata.version": "4.3-IV0",
        "share.version": "1",
        "streams.version": "1",
        "transaction.version": "2",
    }
    lowered = tool("FeatureCommand", "downgrade", "--feature", "transaction.version=1", controllers=controllers)
    assert "transaction.version was downgraded to 1." in lowered
    raised = tool("FeatureCommand", "upgrade", "--feature", "transaction.version=2", controllers=controllers)
    assert "transaction.version was upgraded to 2." in raised
    tool("FeatureCommand", "upgrade", "--feature", "transaction.version=9", controllers=controllers, fails=True)


def test_replica_verification_finds_all_replicas_equal(kafka: ApacheKafka, cluster: ClusterProcesses) -> None:
    """It never ends by itself: its first reports are read, and it is killed."""
    command = kafka.command(
        f"{TOOLS}.ReplicaVerificationTool",
        *("--broker-list", cluster.bootstrap, "--topics-include", "orders", "--report-interval-ms", "500"),
    )
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            deadline_s = time.monotonic() + TOOL_TIMEOUT_S
            while sum("max lag is" in line for line in lines) < 3 and time.monotonic() < deadline_s:
                if selector.select(1.0):
                    line = process.stdout.readline()
                    if not line:
                        break
                    lines.append(line.decode())
        process.kill()

    reports = [line for line in lines if "max lag is" in line]
    assert len(reports) >= 3, lines
    assert all("max lag is 0 for partition" in line and "among 3 partitions" in line for line in reports), lines


def test_kafka_metadata_shell_reads_our_snapshots(kafka: ApacheKafka, tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, settings={"metadata.log.max.snapshot.interval.ms": "500"})
    metadata = cluster.nodes[2].data / "__cluster_metadata-0"
    with cluster.running(), Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", replicas=[[1, 2, 3]], configs={"retention.ms": "1234"})])
        end = admin.describe_quorum().high_watermark
        wait_until(
            lambda: any(int(each.name.partition("-")[0]) >= end for each in metadata.glob("*.checkpoint")),
            "the topic is in a snapshot",
        )
        # The shell insists on the directory's lock, which the node holds.
        newest = shutil.copy(max(metadata.glob("*.checkpoint")), tmp_path / "newest.checkpoint")

    def shell(*command: str) -> str:
        done = kafka.tool(SHELL, "--snapshot", str(newest), *command)
        assert done.code == 0, done
        return done.stdout

    assert shell("ls", "/image/cluster/brokers").split() == ["1", "2", "3"]
    assert shell("ls", "/image/topics/byName").split() == ["orders"]
    assert "replicas=[1, 2, 3]" in shell("cat", "/image/topics/byName/orders/0")
    assert shell("cat", "/image/configs/TOPIC:orders/retention.ms").strip() == "1234"
