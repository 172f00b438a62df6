"""`tidelog reassign` against three nodes: plans, carrying them out, throttles, progress, and taking back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.support.apache_kafka import wait_until
from tests.support.command_line import json_lines, tidelog
from tidelog import Admin, Consumer, Producer
from tidelog.cli.reassign.reassignment_throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from tidelog.client.admin import ConfigChange, ConfigOperation, ConfigResource, ConfigSource, ResourceKind
from tidelog.testing import EmbeddedCluster

DEADLINE_S = 30
RECORDS = 60

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    # Followers get one batch at a time: what is throttled is seen on its way.
    with EmbeddedCluster(nodes=3, config={"replica.fetch.max.bytes": "100"}) as cluster:
        yield cluster


@pytest.fixture
def command(cluster: EmbeddedCluster) -> Command:
    return lambda *arguments: tidelog(*arguments, "--bootstrap", cluster.bootstrap_servers)


@pytest.fixture
def admin(cluster: EmbeddedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """Three partitions with two replicas and some records."""
    name = request.node.name.partition("[")[0]
    cluster.create_topic(name, partitions=3, replication_factor=2)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        for number in range(RECORDS):
            producer.send(name, b"%d" % number, partition=number % 3).result(DEADLINE_S)
    yield name
    cluster.delete_topic(name, missing_ok=True)


def replicas(admin: Admin, topic: str) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in admin.describe_topic(topic).partitions]


def write_plan(path: Path, topic: str, *wanted: tuple[int, ...]) -> Path:
    rows = [{"topic": topic, "partition": index, "replicas": list(nodes)} for index, nodes in enumerate(wanted)]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return path


def throttles(admin: Admin, topic: str) -> set[str]:
    """The keys of throttles that are set."""
    found = {
        entry.name
        for entry in admin.describe_config(ResourceKind.TOPIC, topic).values()
        if entry.source is ConfigSource.TOPIC
    }
    for node in ("1", "2", "3"):
        found |= {entry.name for entry in admin.describe_config(ResourceKind.BROKER, node).values()}
    return found & {LEADER_RATE, FOLLOWER_RATE, LEADER_REPLICAS, FOLLOWER_REPLICAS}


def read_all(cluster: EmbeddedCluster, topic: str) -> list[int]:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, index) for index in range(3)])
        found: list[int] = []
        ends_s = time.monotonic() + DEADLINE_S
        while len(found) < RECORDS and time.monotonic() < ends_s:
            found += [int(record.value or b"") for record in consumer.poll(timeout_ms=500)]
    return sorted(found)


def test_a_broker_is_emptied_and_gets_its_share_again(
    cluster: EmbeddedCluster, command: Command, admin: Admin, topic: str, tmp_path: Path
) -> None:
    without = command("reassign", "plan", "--topic", topic, "--without", "3", "--json")
    plan = tmp_path / "plan.json"
    plan.write_text(without.stdout)
    applied = command("reassign", "apply", plan, "--wait", "--rollback", tmp_path / "back.json")
    emptied = replicas(admin, topic)
    checked = command("reassign", "status", plan)
    shown = command("reassign", "plan", "--topic", topic)

    assert applied.exit_code == 0, applied.output
    assert all(3 not in nodes for nodes in emptied)
    assert checked.stdout == "no partition is being reassigned\n"
    assert checked.exit_code == 0
    assert "2 replicas with" in shown.stdout
    back = command("reassign", "apply", tmp_path / "back.json", "--wait", "--json")
    assert {row["state"] for row in json_lines(back)} == {"reassigned"}
    assert any(3 in nodes for nodes in replicas(admin, topic))
    assert read_all(cluster, topic) == list(range(RECORDS))


def test_a_throttled_one_is_seen_on_its_way_and_taken_back(
    cluster: EmbeddedCluster, command: Command, admin: Admin, topic: str, tmp_path: Path
) -> None:
    before = replicas(admin, topic)
    missing = [next(node for node in (1, 2, 3) if node not in nodes) for nodes in before]
    plan = write_plan(
        tmp_path / "plan.json", topic, *((nodes[0], node) for nodes, node in zip(before, missing, strict=True))
    )

    begun = command("reassign", "apply", plan, "--throttle", "1")
    status = json_lines(command("reassign", "status", "--json"))
    table = command("reassign", "status", plan).stdout
    (whole,) = json_lines(command("cluster", "status", "--json"))
    set_then = throttles(admin, topic)
    early = command("reassign", "status", "--clear-throttles")
    cancelled = command("reassign", "cancel", plan)

    assert begun.stdout == "3 partitions: begun\n"
    assert [(row["partition"], row["adding"]) for row in status] == [
        (index, [node]) for index, node in enumerate(missing)
    ]
    assert all(0 <= share < 1 for row in status for share in row["arrived"].values())
    assert table.startswith("TOPIC")
    assert [row["adding"] for row in whole["reassigned"]] == [[node] for node in missing]
    assert set_then == {LEADER_RATE, FOLLOWER_RATE, LEADER_REPLICAS, FOLLOWER_REPLICAS}
    assert early.exit_code == 1
    assert "throttles stay while" in early.stderr
    assert cancelled.stdout == "3 partitions: cancelled\n"
    sets_before = [sorted(nodes) for nodes in before]
    wait_until(lambda: [sorted(nodes) for nodes in replicas(admin, topic)] == sets_before, "the replicas are as before")
    wait_until(lambda: not throttles(admin, topic), "no throttle is left")
    assert command("reassign", "cancel", "--all").stdout == "no partition is being reassigned\n"
    assert read_all(cluster, topic) == list(range(RECORDS))


def test_throttles_that_others_have_set_stay(
    command: Command, admin: Admin, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    nodes = replicas(admin, topic)[0]
    apart = next(node for node in (1, 2, 3) if node not in nodes)
    for node, rate in ((nodes[0], 7_000_000), (apart, 8_000_000)):
        resource = ConfigResource(ResourceKind.BROKER, str(node))
        change = ConfigChange(LEADER_RATE, ConfigOperation.SET, str(rate))
        admin.incremental_alter_configs({resource: [change]})
        undo = {resource: [ConfigChange(LEADER_RATE, ConfigOperation.DELETE)]}
        request.addfinalizer(partial(admin.incremental_alter_configs, undo))
    plan = write_plan(tmp_path / "plan.json", topic, nodes[::-1])

    applied = command("reassign", "apply", plan, "--throttle", "50000000", "--wait")

    assert applied.exit_code == 0, applied.output

    def rates(key: str) -> dict[int, str | None]:
        entries = {node: admin.describe_config(ResourceKind.BROKER, str(node)) for node in (1, 2, 3)}
        return {node: each[key].value for node, each in entries.items() if key in each}

    # Each node answers for itself, and may hear of the last change a little later than the command.
    wait_until(
        lambda: rates(LEADER_RATE) == {nodes[0]: "7000000", apart: "8000000"}, "the leaders' rates are as before"
    )
    wait_until(lambda: not rates(FOLLOWER_RATE), "no follower's rate is left")


def refused(result: Result, code: int) -> str:
    assert result.exit_code == code, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr.strip()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("plan", "--without", "9"), 2, "there is no broker 9: there are 1,2,3"),
        (("plan", "--broker", "1", "--without", "1"), 2, "no broker is left"),
        (("plan", "--topic", "nothing"), 1, "there is no topic nothing"),
        (("cancel",), 2, "name the file that was applied, or --all"),
        (("apply", "/nowhere/plan.json"), 2, "/nowhere/plan.json cannot be read"),
    ],
)
def test_what_makes_no_sense_is_said(command: Command, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    assert sentence in refused(command("reassign", *arguments), code)


def test_a_plan_that_cannot_be_carried_out(command: Command, admin: Admin, topic: str, tmp_path: Path) -> None:
    before = replicas(admin, topic)
    unknown = write_plan(tmp_path / "unknown.json", topic, before[0], (1, 9))
    too_many = write_plan(tmp_path / "many.json", topic, *before, (1, 2))
    other: Any = write_plan(tmp_path / "other.json", topic, tuple(reversed(before[0])))

    assert "includes broker 9" in refused(command("reassign", "apply", unknown), 1)
    assert f"topic {topic} has no partition 3" in refused(command("reassign", "apply", too_many), 1)
    assert f"{topic}-0 have other replicas" in refused(command("reassign", "status", other), 1)
