"""`tidelog up` and `tidelog format`, as a person types them."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.command_process import DEADLINE_S, CommandProcess, command, environment, run
from tidelog.cli.rendering import printable
from tidelog.storage.properties import parse_properties


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def ends(pid: int) -> bool:
    """Whether a process that is not a child of this one ends before the deadline."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], DEADLINE_S)[0])
    finally:
        os.close(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_cluster_is_told_of_serves_and_stops(tmp_path: Path, number: signal.Signals) -> None:
    with CommandProcess("up", "--port", "0", "--dir", tmp_path / "cluster") as up:
        ready = up.ready_line()
        (row,) = json.loads((tmp_path / "cluster" / "cluster.json").read_text())
        served = connects(row["port"])
        up.send(number)
        code, errors = up.end()

    assert served
    assert f"127.0.0.1:{row['port']}" in ready
    assert row["node"] == 1
    assert (code, errors) == (0, "")
    assert not (tmp_path / "cluster" / "cluster.json").exists()
    assert (Path(row["dir"]) / ".kafka_cleanshutdown").exists()
    assert ends(row["pid"])


def test_a_directory_can_be_used_again_and_is_the_same_cluster(tmp_path: Path) -> None:
    identities = []
    for _ in range(2):
        with CommandProcess("up", "--port", "0", "--dir", tmp_path) as up:
            up.ready_line()
            up.send(signal.SIGTERM)
            assert up.end()[0] == 0
        identities.append((tmp_path / "node-1" / "data" / "meta.properties").read_text())

    assert identities[0] == identities[1]


def test_a_temporary_directory_is_removed() -> None:
    with CommandProcess("up", "--port", "0") as up:
        found = re.search(r"data in (\S+),", up.ready_line())
        assert found is not None
        directory = Path(found[1])
        existed = directory.exists()
        up.send(signal.SIGTERM)
        assert up.end()[0] == 0

    assert existed
    assert not directory.exists()


def test_the_file_of_a_node_says_all_that_another_program_needs(tmp_path: Path) -> None:
    settings = ["--set", "num.partitions=3", "--set", "num.io.threads=8"]
    with CommandProcess("up", "--port", "0", "--dir", tmp_path, *settings) as up:
        up.ready_line()
        up.send(signal.SIGTERM)
        _, errors = up.end()

    properties = parse_properties((tmp_path / "node-1" / "server.properties").read_bytes())
    assert errors.startswith("tidelog up: num.io.threads is without effect: ")
    assert errors.count("\n") == 1
    assert (properties["num.partitions"], properties["num.io.threads"]) == ("3", "8")
    assert properties["offsets.topic.replication.factor"] == "1"
    assert properties["group.initial.rebalance.delay.ms"] == "0"
    assert properties["group.consumer.assignment.interval.ms"] == "0"
    assert re.fullmatch(r"PLAINTEXT://127.0.0.1:\d+,CONTROLLER://127.0.0.1:\d+", properties["listeners"])
    assert Path(properties["log.dirs"]).is_absolute()


def test_nodes_do_not_outlive_a_killed_up(tmp_path: Path) -> None:
    with CommandProcess("up", "--port", "0", "--dir", tmp_path) as up:
        up.ready_line()
        (row,) = json.loads((tmp_path / "cluster.json").read_text())
        up.send(signal.SIGKILL)
        up.process.wait(DEADLINE_S)

        assert ends(row["pid"])


def test_a_node_that_is_killed_ends_the_cluster_with_a_sentence(tmp_path: Path) -> None:
    with CommandProcess("up", "--port", "0", "--dir", tmp_path) as up:
        up.ready_line()
        (row,) = json.loads((tmp_path / "cluster.json").read_text())
        os.kill(row["pid"], signal.SIGKILL)
        code, errors = up.end()

    assert code == 1
    assert errors == "tidelog up: node 1 ended: it was killed by signal 9\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_node_that_is_asked_to_stop_ends_the_cluster_with_a_sentence(tmp_path: Path, number: signal.Signals) -> None:
    with CommandProcess("up", "--port", "0", "--dir", tmp_path) as up:
        up.ready_line()
        (row,) = json.loads((tmp_path / "cluster.json").read_text())
        os.kill(row["pid"], number)
        code, errors = up.end()

    assert code == 1
    assert errors == "tidelog up: node 1 ended: somebody asked it to stop, which it did cleanly\n"


def test_a_second_one_on_the_same_directory_changes_nothing(tmp_path: Path) -> None:
    with CommandProcess("up", "--port", "0", "--dir", tmp_path) as up:
        up.ready_line()
        before = (tmp_path / "node-1" / "server.properties").read_bytes()
        second = run("up", "--port", "0", "--dir", tmp_path)

    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert (tmp_path / "node-1" / "server.properties").read_bytes() == before


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        up = run("up", "--port", str(port))

    assert up.returncode == 1
    assert up.stderr == f"tidelog up: port {port} is in use: choose another one with --port, or --port 0 for any\n"


def test_nobody_needs_to_listen(tmp_path: Path) -> None:
    """`tidelog up >&-`: with standard output closed, the file says when the cluster serves."""
    program = shlex.join(command("up", "--port", "0", "--dir", tmp_path))
    closed = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {program} >&-"], stderr=subprocess.PIPE, text=True, env=environment()
    )
    deadline = time.monotonic() + DEADLINE_S
    while not (tmp_path / "cluster.json").exists() and time.monotonic() < deadline and closed.poll() is None:
        time.sleep(0.01)
    served = (tmp_path / "cluster.json").exists()
    closed.terminate()
    _, errors = closed.communicate(timeout=DEADLINE_S)

    assert served
    assert (closed.returncode, errors) == (0, "")


def test_a_node_that_is_told_nothing_ends_without_a_word(tmp_path: Path) -> None:
    """Whatever is wrong with it: its parent has the same fault, and says so."""
    for kernels in ("", "rust"):
        node = subprocess.run(
            command("broker", "--led-by-stdin"),
            input="",
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
            env={**environment(), "TIDELOG_KERNELS": kernels},
        )

        assert (node.returncode, node.stdout, node.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_node_is_told_its_configuration(tmp_path: Path) -> None:
    """A file that is not there is enough to see that its path arrived."""
    missing = tmp_path / "two\nlines.properties"
    node = subprocess.run(
        command("broker", "--led-by-stdin"),
        input=f"{missing}\0",
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env=environment(),
    )

    assert (node.returncode, node.stdout) == (2, "")
    assert node.stderr == f"tidelog broker: {printable(f'Cannot read {missing}: No such file or directory')}\n"


def test_a_configuration_is_named_once() -> None:
    named_twice = run("broker", "--led-by-stdin", "--config", "a.properties")

    assert named_twice.returncode == 2
    assert named_twice.stderr == "tidelog broker: standard input names the configuration: leave --config out\n"


def test_a_fault_of_all_processes_is_one_sentence(tmp_path: Path) -> None:
    up = subprocess.run(
        command("up", "--nodes", "2", "--port", "0", "--dir", tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env={**environment(), "TIDELOG_KERNELS": "rust"},
    )

    assert (up.returncode, up.stdout) == (1, "")
    assert up.stderr == "tidelog: TIDELOG_KERNELS is 'rust'; it can be 'python' or 'compiled'\n"
