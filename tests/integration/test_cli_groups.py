"""`tidelog groups` against a node, mistakes included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.support.command_line import json_lines, tidelog
from tidelog import Admin, Consumer, Producer
from tidelog.testing import EmbeddedCluster

Command = Callable[..., Result]

RECORDS = 10
"""Of each of the two partitions, with the times 1000, 2000 and so on."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(RECORDS):
                for partition in range(2):
                    producer.send("orders", b"x", partition=partition, timestamp_ms=1000 * (number + 1))
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.delete_records({("orders", 1): 2})
        yield cluster


@pytest.fixture
def command(cluster: EmbeddedCluster) -> Command:
    """Run a command against the cluster."""
    return lambda *arguments: tidelog(*arguments, "--bootstrap", cluster.bootstrap_servers)


@pytest.fixture
def group(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> str:
    """A group without members that is at 5 in one partition and at 4 in the other."""
    name = str(request.node.name).partition("[")[0]
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_group_offsets(name, {("orders", 0): 5, ("orders", 1): 4})
    return name


@pytest.fixture
def member(cluster: EmbeddedCluster, group: str) -> Iterator[str]:
    """A member of the group that has got its partitions."""
    with Consumer(
        "orders", bootstrap_servers=cluster.bootstrap_servers, group_id=group, client_id="reader"
    ) as consumer:
        for _ in range(200):
            consumer.poll(timeout_ms=50)
            if consumer.assignment():
                break
        yield consumer.group_metadata().member_id


def refused(result: Result, code: int = 1) -> str:
    """The one sentence of a command that failed."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr.strip()


def planned(result: Result) -> list[tuple[int, int | None, int]]:
    assert result.exit_code == 0, result.output
    return [(row["partition"], row["current_offset"], row["new_offset"]) for row in json_lines(result)]


def committed(command: Command, group: str) -> dict[int, int]:
    return {row["partition"]: row["committed"] for row in json_lines(command("groups", "lag", group, "--json"))}


def test_a_group_is_listed_described_and_deleted(command: Command, group: str) -> None:
    listed = [
        row for row in json_lines(command("groups", "list", "--json", "--state", "empty")) if row["group"] == group
    ]
    described = command("groups", "describe", group).stdout.splitlines()
    deleted = command("groups", "delete", group)

    assert [(row["type"], row["state"]) for row in listed] == [("classic", "Empty")]
    assert described == [f"group {group}, classic, Empty, coordinator 1", "no members"]
    assert deleted.stdout == f"deleted group {group}\n"
    assert group not in command("groups", "list").stdout


def test_members_are_shown_with_what_they_have(command: Command, group: str, member: str) -> None:
    (row,) = json_lines(command("groups", "describe", group, "--json"))
    text = command("groups", "describe", group).stdout.splitlines()

    (described,) = row["members"]
    assert (row["state"], row["assignor"]) == ("Stable", "range")
    assert (described["member"], described["client"]) == (member, "reader")
    assert described["assignment"] == {"orders": [0, 1]}
    assert text[0] == f"group {group}, classic, Stable, assignor range, coordinator 1"
    assert text[2].split() == [member, "reader", "/127.0.0.1", "-", "orders:0,1"]


def test_lag_is_how_far_the_end_is(command: Command, group: str) -> None:
    rows = json_lines(command("groups", "lag", group, "--json"))
    text = command("groups", "lag", group).stdout.splitlines()

    assert [(row["partition"], row["committed"], row["end"], row["lag"]) for row in rows] == [
        (0, 5, 10, 5),
        (1, 4, 10, 6),
    ]
    assert text[0] == f"group {group}, 11 records behind"
    assert text[1].split() == ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST"]
    assert text[2].split() == ["orders", "0", "5", "10", "5", "-", "-"]
    assert {row["group"] for row in json_lines(command("groups", "lag", "--all", "--json"))} >= {group}


# What Apache Kafka's kafka-consumer-groups says of the same question is in tests/compat/test_cli_groups.py.
RESETS: list[tuple[list[str], list[tuple[int, int | None, int]]]] = [
    (["orders", "--to-earliest"], [(0, 5, 0), (1, 4, 2)]),
    (["orders", "--to-latest"], [(0, 5, 10), (1, 4, 10)]),
    (["orders:1", "--to-latest"], [(1, 4, 10)]),
    (["--all-topics", "--to-latest"], [(0, 5, 10), (1, 4, 10)]),
    (["orders", "--to-offset", "3"], [(0, 5, 3), (1, 4, 3)]),
    (["orders", "--to-offset", "1"], [(0, 5, 1), (1, 4, 2)]),
    (["orders", "--to-offset", "99"], [(0, 5, 10), (1, 4, 10)]),
    (["orders", "--shift-by", "-3"], [(0, 5, 2), (1, 4, 2)]),
    (["orders", "--shift-by", "2"], [(0, 5, 7), (1, 4, 6)]),
    (["orders", "--to-time", "1970-01-01T00:00:06.500Z"], [(0, 5, 6), (1, 4, 6)]),
    (["orders", "--to-time", "7000"], [(0, 5, 6), (1, 4, 6)]),
    (["orders", "--to-time", "2999-01-01"], [(0, 5, 10), (1, 4, 10)]),
    (["orders", "--by-duration", "PT1H"], [(0, 5, 10), (1, 4, 10)]),
    (["orders", "--by-duration", "P36500D"], [(0, 5, 0), (1, 4, 2)]),
]


@pytest.mark.parametrize(("arguments", "plan"), RESETS)
def test_a_plan_is_shown_and_nothing_is_done(
    command: Command, group: str, arguments: list[str], plan: list[tuple[int, int | None, int]]
) -> None:
    assert planned(command("groups", "reset-offsets", group, *arguments, "--json")) == plan
    assert committed(command, group) == {0: 5, 1: 4}


def test_a_plan_is_carried_out_when_told_to(command: Command, group: str) -> None:
    shown = command("groups", "reset-offsets", group, "orders:0", "--to-offset", "99").stdout.splitlines()
    done = command("groups", "reset-offsets", group, "orders:0", "--to-offset", "99", "--execute").stdout.splitlines()

    assert shown[0].split() == ["TOPIC", "PARTITION", "CURRENT", "NEW", "CHANGE", "NOTE"]
    assert shown[1].split(maxsplit=5) == ["orders", "0", "5", "10", "+5", "99 is beyond the end"]
    assert shown[2] == "nothing was changed: --execute does it"
    assert done == [*shown[:2], f"group {group} goes on there"]
    assert committed(command, group) == {0: 10, 1: 4}


def test_a_plan_can_be_kept_and_carried_out_later(command: Command, group: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(command("groups", "reset-offsets", group, "orders", "--to-earliest", "--json").stdout)
    command("groups", "reset-offsets", group, "orders", "--to-latest", "--execute")

    result = command("groups", "reset-offsets", group, "--from-file", plan, "--execute")

    assert result.exit_code == 0, result.output
    assert committed(command, group) == {0: 0, 1: 2}


def test_a_group_that_is_new_gets_its_first_offsets(command: Command) -> None:
    result = command("groups", "reset-offsets", "never-seen", "orders:0", "--to-offset", "7", "--execute", "--json")

    assert planned(result) == [(0, None, 7)]
    assert committed(command, "never-seen") == {0: 7}


def test_a_group_with_members_is_left_alone(command: Command, group: str, member: str) -> None:
    reset = command("groups", "reset-offsets", group, "orders", "--to-earliest", "--execute")
    deleted = command("groups", "delete", group)

    assert refused(reset) == f"tidelog groups: group {group} has a member: stop its consumers first"
    assert refused(deleted) == f"tidelog groups: group {group} has members: stop its consumers first"


def test_what_went_well_is_said_before_what_did_not(command: Command, group: str) -> None:
    described = command("groups", "describe", group, "nothing")
    deleted = command("groups", "delete", group, "nothing")

    assert (described.exit_code, deleted.exit_code) == (1, 1)
    assert described.stdout.startswith(f"group {group}, ")
    assert deleted.stdout == f"deleted group {group}\n"
    assert described.stderr == deleted.stderr == "tidelog groups: there is no group nothing\n"


MISTAKES: list[tuple[list[Any], int, str]] = [
    (["describe", "nothing"], 1, "there is no group nothing"),
    (["lag", "nothing"], 1, "there is no group nothing"),
    (["lag"], 2, "name one or more groups"),
    (["list", "--state", "odd"], 2, "'odd' is none of Unknown, "),
    (["list", "--type", "odd"], 2, "'odd' is none of unknown, "),
    (["delete", "nothing"], 1, "there is no group nothing"),
    (["reset-offsets", "g", "orders"], 2, "say where to: "),
    (["reset-offsets", "g", "--to-latest"], 2, "name topics"),
    (["reset-offsets", "g", "nothing", "--to-latest"], 1, "there is no topic nothing"),
    (["reset-offsets", "g", "orders:9", "--to-latest"], 1, "topic orders has no partition 9"),
    (["reset-offsets", "g", "orders:x", "--to-latest"], 2, "'orders:x' is not a topic"),
    (["reset-offsets", "nothing", "--all-topics", "--to-latest"], 1, "group nothing has committed nothing"),
    (["reset-offsets", "nothing", "orders", "--shift-by", "1"], 1, "nothing is committed for orders-0"),
    (["reset-offsets", "g", "orders", "--to-time", "soon"], 2, "'soon' is not a time"),
    (["reset-offsets", "g", "orders", "--by-duration", "soon"], 2, "'soon' is not a duration"),
    (["reset-offsets", "g", "--from-file", "/nowhere"], 2, "/nowhere cannot be read: No such file"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), MISTAKES)
def test_a_mistake_is_one_sentence(command: Command, arguments: list[str], code: int, sentence: str) -> None:
    assert refused(command("groups", *arguments), code).startswith(f"tidelog groups: {sentence}")
