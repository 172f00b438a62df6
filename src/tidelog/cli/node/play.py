"""What a console that `tidelog up` has started may do with its nodes, over a private socket: hold one, kill one, start it again.

    {"do": "hold", "node": 2, "seconds": 30}        SIGSTOP; released when the time, the console or `up` ends, or by "release"
    {"do": "kill", "node": 1}                       SIGKILL, unless it is the last one that runs
    {"do": "start", "node": 1}                      one that is down
    {"do": "list"}

Each line is answered with one: {"nodes": [{"id": 1, "state": "running"}, ...], "error": null, or a sentence}.

    running -> held -> running          down -> running, once it serves
    running, held -> down
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

HOLD_MAX_S = 60


class PlayError(Exception):
    """What was asked for cannot be, in one sentence."""


class NodePlay:
    def __init__(
        self,
        nodes: Sequence[int],
        running_pid: Callable[[int], int | None],
        start: Callable[[int], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes = nodes
        self._running_pid = running_pid
        self._start = start
        self._now_s = now_s
        self._held: dict[int, tuple[int, float]] = {}
        """By node: the process that is held, and until when."""

    @property
    def wait_s(self) -> float | None:
        """How long until the next one is to be released; None while none is held."""
        if not self._held:
            return None
        return max(0.0, min(until_s for _, until_s in self._held.values()) - self._now_s())

    def answer(self, line: bytes) -> bytes:
        """What to say to one line."""
        error = None
        try:
            self._do(json.loads(line))
        except PlayError as problem:
            error = str(problem)
        except (ValueError, RecursionError):
            error = "that is no request"
        return json.dumps({"nodes": self._states(), "error": error}).encode() + b"\n"

    def _do(self, request: Any) -> None:
        if not isinstance(request, dict):
            raise PlayError("that is no request")
        action, node_id = request.get("do"), request.get("node")
        if action == "list":
            return
        if not isinstance(node_id, int) or node_id not in self._nodes:
            raise PlayError(f"this cluster has no node {node_id!r:.20}")
        pid = self._running_pid(node_id)
        if action == "start":
            if pid is not None:
                raise PlayError(f"node {node_id} runs already")
            self._start(node_id)
        elif action == "release":
            self._release(node_id)
        elif pid is None:
            raise PlayError(f"node {node_id} is down")
        elif action == "hold":
            self._hold(node_id, pid, request.get("seconds"))
        elif action == "kill":
            if sum(self._running_pid(each) is not None for each in self._nodes) < 2:
                raise PlayError(f"node {node_id} is the last one that runs: the cluster would end with it")
            self._release(node_id)
            os.kill(pid, signal.SIGKILL)
        else:
            raise PlayError("that is no request")

    def _hold(self, node_id: int, pid: int, seconds: object) -> None:
        if not isinstance(seconds, int) or isinstance(seconds, bool) or not 1 <= seconds <= HOLD_MAX_S:
            raise PlayError(f"a node is held for 1 to {HOLD_MAX_S} seconds")
        os.kill(pid, signal.SIGSTOP)
        self._held[node_id] = (pid, self._now_s() + seconds)

    def _release(self, node_id: int) -> None:
        held = self._held.pop(node_id, None)
        if held is not None and self._running_pid(node_id) == held[0]:
            with suppress(ProcessLookupError):
                os.kill(held[0], signal.SIGCONT)

    def release_due(self) -> None:
        now_s = self._now_s()
        for node_id in [each for each, (_, until_s) in self._held.items() if until_s <= now_s]:
            self._release(node_id)

    def release_all(self) -> None:
        for node_id in list(self._held):
            self._release(node_id)

    def _states(self) -> list[dict[str, Any]]:
        return [
            {
                "id": each,
                "state": "down" if self._running_pid(each) is None else "held" if each in self._held else "running",
            }
            for each in self._nodes
        ]
