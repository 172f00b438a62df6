"""What a console may do with the nodes of the `up` that started it: processes that sleep, in place of nodes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli.node.play import NodePlay

DEADLINE_S = 30.0


class Nodes:
    """Three processes, and time that a test moves."""

    def __init__(self) -> None:
        self.processes = {node_id: subprocess.Popen(["sleep", "1000"]) for node_id in (1, 2, 3)}
        self.started: list[int] = []
        self.now_s = 0.0
        self.play = NodePlay([1, 2, 3], self.running_pid, self.started.append, lambda: self.now_s)

    def running_pid(self, node_id: int) -> int | None:
        process = self.processes[node_id]
        return process.pid if process.poll() is None else None

    def ask(self, action: str, node: object = None, **more: object) -> tuple[dict[int, str], str | None]:
        answer: Any = json.loads(self.play.answer(json.dumps({"do": action, "node": node, **more}).encode()))
        return {each["id"]: each["state"] for each in answer["nodes"]}, answer["error"]

    def becomes(self, node_id: int, *, stopped: bool) -> bool:
        """Whether the system has come to do what the signal says."""
        deadline_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline_s:
            status = Path(f"/proc/{self.processes[node_id].pid}/status").read_text()
            if ("State:\tT" in status) is stopped:
                return True
        return False


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait()


def test_a_node_is_held_until_it_is_released(nodes: Nodes) -> None:
    assert nodes.ask("hold", 2, seconds=30) == ({1: "running", 2: "held", 3: "running"}, None)
    assert nodes.becomes(2, stopped=True)
    assert nodes.ask("release", 2) == ({1: "running", 2: "running", 3: "running"}, None)
    assert nodes.becomes(2, stopped=False)
    assert nodes.play.wait_s is None


def test_a_node_is_released_when_its_time_is_over_and_not_before(nodes: Nodes) -> None:
    nodes.ask("hold", 1, seconds=10)
    nodes.ask("hold", 2, seconds=60)
    assert nodes.play.wait_s == 10
    nodes.now_s = 9.9
    nodes.play.release_due()
    assert nodes.becomes(1, stopped=True)
    nodes.now_s = 10
    nodes.play.release_due()
    assert nodes.becomes(1, stopped=False)
    assert nodes.becomes(2, stopped=True)
    nodes.play.release_all()
    assert nodes.becomes(2, stopped=False)


def test_nobody_is_held_for_longer_than_a_minute(nodes: Nodes) -> None:
    for seconds in (0, 61, True, "5", None):
        _, error = nodes.ask("hold", 1, seconds=seconds)
        assert error == "a node is held for 1 to 60 seconds"
    assert nodes.becomes(1, stopped=False)


def test_a_held_node_is_killed_and_only_a_dead_one_started(nodes: Nodes) -> None:
    nodes.ask("hold", 1, seconds=60)
    assert nodes.ask("start", 1)[1] == "node 1 runs already"
    nodes.ask("kill", 1)
    assert nodes.processes[1].wait() == -9
    assert nodes.ask("list")[0] == {1: "down", 2: "running", 3: "running"}
    assert nodes.ask("hold", 1, seconds=5)[1] == "node 1 is down"
    nodes.ask("start", 1)
    assert nodes.started == [1]


def test_the_last_node_is_not_killed(nodes: Nodes) -> None:
    for node_id in (1, 2):
        nodes.ask("kill", node_id)
        nodes.processes[node_id].wait()
    assert "the last one that runs" in str(nodes.ask("kill", 3)[1])
    assert nodes.running_pid(3) is not None


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"do": "format", "node": 1}', b'{"do": "kill", "node": "1; reboot"}', b"\xff"]
)
def test_anything_else_is_no_request(nodes: Nodes, line: bytes) -> None:
    assert json.loads(nodes.play.answer(line))["error"] is not None
    assert nodes.started == []
