"""`tidelog produce` and `tidelog consume` against a node, Ctrl-C and closed pipes included. Mistakes are elsewhere."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidelog import Admin
from tidelog.cli.commands import all_commands
from tidelog.client.admin import ResourceKind
from tidelog.testing import EmbeddedCluster

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    # A member that joins soon after another has left is assigned at its next heartbeat.
    beats = dict.fromkeys(("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"), 100)
    beats |= dict.fromkeys(("group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"), 100)
    with EmbeddedCluster(config=beats) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-z_]", "_", request.node.name)
    cluster.create_topic(name, partitions=2)
    return name


class Shell:
    """The command: within this process, or as one of its own where it is to hear signals."""

    def __init__(self, bootstrap: str) -> None:
        self._environment = {"TIDELOG_BOOTSTRAP": bootstrap}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tidelog.cli", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **self._environment},
        )

    def run(self, *arguments: str, text: bytes = b"", code: int = 0) -> tuple[bytes, str]:
        result = CliRunner().invoke(all_commands(), arguments, input=text, env=self._environment)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.stderr
        return result.stdout_bytes, result.stderr

    def lines(self, *arguments: str) -> list[str]:
        out, errors = self.run(*arguments)
        assert errors == ""
        return out.decode().splitlines()

    def refused(self, *arguments: str, text: bytes = b"", code: int = 1) -> str:
        out, errors = self.run(*arguments, text=text, code=code)
        assert out == b""
        assert errors.count("\n") == 1
        return errors.strip()


@pytest.fixture
def shell(cluster: EmbeddedCluster) -> Shell:
    return Shell(cluster.bootstrap_servers)


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], TIMEOUT_S)[0]
    return process.stdout.readline()


def test_lines_go_in_and_come_out(shell: Shell, topic: str) -> None:
    out, errors = shell.run(
        "produce", topic, "--partition", "1", "--codec", "zstd", "--json", text=b"one\n\xff\r\nthree"
    )

    assert (json.loads(out), errors) == ({"topic": topic, "records": 3}, "")
    assert shell.run("consume", topic)[0] == b"one\n\xff\nthree\n"
    assert shell.lines("consume", f"{topic}:0") == []
    assert shell.lines("consume", topic, "--offsets", "--from", "-1") == [f"{topic}-1@2\tthree"]
    assert shell.lines("consume", topic, "--from", "2", "--count", "5") == ["three"]
    assert shell.lines("consume", topic, "--count", "1") == ["one"]


def test_keys_headers_and_nulls(shell: Shell, topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"a=1\nb=-\n")
    shell.run(
        "produce", topic, str(lines), "--key-separator", "=", "--null", "-", "--header", "h=x", "--partition", "0"
    )

    shown = [line.split("|") for line in shell.lines("consume", topic, "--keys", "--headers", "--separator", "|")]
    rows = [json.loads(line) for line in shell.lines("consume", topic, "--json")]

    assert shown == [["h=x", "a", "1"], ["h=x", "b", "null"]]
    assert [(row["key"], row["value"], row["headers"]) for row in rows] == [
        ("a", "1", [["h", "x"]]),
        ("b", None, [["h", "x"]]),
    ]


def test_what_is_consumed_as_json_can_be_produced_again(shell: Shell, topic: str) -> None:
    shell.run("produce", topic, text=b"k\x00\xff\n", code=0)
    saved, _ = shell.run("consume", topic, "--json")
    shell.run("produce", topic, "--from-json", text=saved)

    rows = [json.loads(line) for line in shell.lines("consume", topic, "--json")]

    assert len(rows) == 2
    assert len({(json.dumps(row["value"]), row["timestamp"], row["partition"]) for row in rows}) == 1


def test_a_time_to_begin_at(shell: Shell, topic: str) -> None:
    rows = [{"value": str(second), "timestamp": second * 1000, "partition": 0} for second in range(1, 6)]
    shell.run("produce", topic, "--from-json", text="\n".join(map(json.dumps, rows)).encode())

    assert shell.lines("consume", topic, "--from-time", "1970-01-01T00:00:03.500Z") == ["4", "5"]
    assert shell.lines("consume", topic, "--from-time", "2000", "--times", "--count", "1") == [
        "1970-01-01T00:00:02.000Z\t2"
    ]


def test_a_share_group_is_given_what_it_has_not_settled(shell: Shell, cluster: EmbeddedCluster, topic: str) -> None:
    with Admin(**cluster.client_options()) as admin:
        admin.alter_config(ResourceKind.GROUP, topic, set={"share.auto.offset.reset": "earliest"})
    member = ["consume", topic, "--share", topic]
    shell.run("produce", topic, text=b"\n".join(b"%d" % number for number in range(10)))

    first = shell.lines(*member, "--count", "3")
    others = shell.lines(*member, "--offsets")
    nothing = shell.lines(*member)
    shell.run("produce", topic, text=b"late")

    assert len(first) == 3
    assert len(others) == 7
    assert sorted(first + [line.split("\t")[1] for line in others], key=int) == [str(number) for number in range(10)]
    assert nothing == []
    assert shell.lines(*member, "--follow", "--count", "1") == ["late"]


def test_a_share_group_that_has_settled_nothing_ends_too(shell: Shell, topic: str) -> None:
    shell.run("produce", topic, text=b"before the group")

    assert shell.lines("consume", topic, "--share", topic) == []


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_was(shell: Shell, topic: str, protocol: str) -> None:
    shell.run("produce", topic, "--partition", "0", text=b"1\n2\n3\n")
    member = ["consume", topic, "--group", topic, "--group-protocol", protocol]

    assert shell.lines(*member, "--count", "1") == ["1"]
    assert shell.lines(*member) == ["2", "3"]
    assert shell.lines(*member) == []
    assert sorted(row["committed"] for row in map(json.loads, shell.lines("groups", "lag", topic, "--json"))) == [0, 3]


def test_ctrl_c_ends_what_follows(shell: Shell, topic: str) -> None:
    with shell.start("consume", topic, "--follow") as reader:
        shell.run("produce", topic, text=b"late\n")
        assert first_line(reader) == b"late\n"
        reader.send_signal(signal.SIGINT)
        out, errors = reader.communicate(timeout=TIMEOUT_S)

    assert (reader.returncode, out, errors) == (0, b"", b"")


def test_ctrl_c_does_not_lose_what_was_read(shell: Shell, topic: str) -> None:
    with shell.start("consume", topic, "--follow") as reader, shell.start("produce", topic, "--json") as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"typed\n")
        writer.stdin.flush()
        assert first_line(reader) == b"typed\n"
        writer.send_signal(signal.SIGINT)
        out, errors = writer.communicate(timeout=TIMEOUT_S)
        reader.send_signal(signal.SIGINT)

    assert (writer.returncode, json.loads(out)["records"], errors) == (130, 1, b"")


def test_a_reader_that_has_seen_enough_is_no_error(shell: Shell, topic: str) -> None:
    shell.run("produce", topic, text=b"x" * 200 + b"\n" + b"y\n" * 50_000)
    with shell.start("consume", topic, "--group", topic) as reader:
        first_line(reader)
        assert reader.stdout is not None
        reader.stdout.close()
        assert reader.stderr is not None
        assert (reader.wait(TIMEOUT_S), reader.stderr.read()) == (0, b"")


def test_a_wait_has_an_end_and_a_pace(shell: Shell, topic: str) -> None:
    assert shell.lines("consume", topic, "--from", "end", "--timeout", "0.1") == []
    out, _ = shell.run(
        "produce", topic, "--rate", "1000", "--count", "3", "--acks", "1", "--json", text=b"1\n2\n3\n4\n"
    )
    assert json.loads(out)["records"] == 3
    assert len(shell.lines("consume", topic)) == 3


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_a_cluster_that_is_not_there_is_one_sentence_with_what_to_do(shell: Shell, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once_taken:
        address = f"127.0.0.1:{once_taken.getsockname()[1]}"

    sentence = shell.refused(command, "t", "--bootstrap", address)

    assert sentence.startswith(f"tidelog {command}: cannot connect to {address}: connection refused; ")
    assert "tidelog up" in sentence
    assert shell.refused(command, "t", "--bootstrap", "here:there", code=2).startswith(
        f"tidelog {command}: 'here:there'"
    )


def test_records_are_looked_for_by_pattern_and_by_expression(shell: Shell, topic: str) -> None:
    lines = "".join(f'c{i}|{{"amount": {i}, "shop": "{"north" if i % 2 else "south"}"}}\n' for i in range(20))
    shell.run("produce", topic, "--key-separator", "|", "--partition", "0", "--header", "h=x", text=lines.encode())

    assert shell.lines("consume", topic, "--grep", "^c1[23]$", "--format", r"%k\n") == ["c12", "c13"]
    assert shell.lines(
        "consume", topic, "--filter", "json.amount > 16 and json.shop == 'north'", "--format", r"%o\n"
    ) == [
        "17",
        "19",
    ]
    assert shell.lines("consume", topic, "--grep", "north", "--filter", "headers.h == 'x'", "--count", "2", "--keys")[
        1
    ].startswith("c3\t")
    assert len(shell.lines("consume", topic, "--from-time", "-1h")) == 20
    assert shell.lines("consume", topic, "--from-time", "-0s") == []
    assert "column 6: only json and headers have fields" in shell.refused(
        "consume", topic, "--filter", "1 == key.a", code=2
    )


def test_a_group_commits_what_it_passed_over_and_no_more(shell: Shell, topic: str) -> None:
    shell.run("produce", topic, "--partition", "0", text=b"".join(b"%d\n" % i for i in range(10)))

    first = shell.lines("consume", topic, "--group", topic, "--filter", "int(value) % 4 == 3", "--count", "1")
    second = shell.lines("consume", topic, "--group", topic)

    assert (first, second) == (["3"], ["4", "5", "6", "7", "8", "9"])


def test_topics_are_chosen_by_pattern(shell: Shell, topic: str, cluster: EmbeddedCluster) -> None:
    cluster.create_topic(f"{topic}.eu")
    shell.run("produce", f"{topic}.eu", text=b"eu\n")
    shell.run("produce", topic, text=b"all\n")

    assert sorted(shell.lines("consume", f"^{topic}.*", "--format", r"%t=%s\n")) == [f"{topic}.eu=eu", f"{topic}=all"]
    assert (
        shell.refused("consume", "^nothing-of-this-name") == "tidelog consume: no topic matches ^nothing-of-this-name"
    )


def test_records_go_into_a_new_file(shell: Shell, topic: str, tmp_path: Path) -> None:
    shell.run("produce", topic, text=b"one\n\xff\n")
    file = tmp_path / "records"

    shell.refused("consume", f"{topic}:9", "--output", str(file))
    assert not file.exists()
    assert shell.lines("consume", topic, "--output", str(file)) == []
    assert file.read_bytes() == b"one\n\xff\n"
    assert "exists: give another --output" in shell.refused("consume", topic, "-o", str(file), code=2)
    assert shell.lines("consume", topic, "-o", str(file), "--force", "--count", "1") == []
    assert file.read_bytes() == b"one\n"
    assert "cannot be written" in shell.refused("consume", topic, "-o", str(tmp_path / "no" / "file"))
