"""The nodes of an embedded cluster as processes of their own: `kill` is SIGKILL, and what a crash loses is lost.

Each is led through its standard input, as those of `tidelog up` are: the path of its configuration starts it, and the end of the
pipe stops it, so that no node outlives the process of the test. Their log goes to `node-N/node.log` in the cluster's directory.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tidelog.testing.errors import ClusterError

TIMEOUT_S = 30.0

# The last lines of a node's log that the error of a failed start tells.
_LOG_BYTES_TOLD = 2000


class NodeProcesses:
    """By their numbers. The paths are those of `server.properties`."""

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._paths: dict[int, str] = {}

    def start(self, paths: Mapping[int, str]) -> dict[int, str]:
        """Return once all serve: where each does. ClusterError where one cannot; then none is left."""
        self._paths.update(paths)
        try:
            for node_id, path in paths.items():
                self._processes[node_id] = _begin(path)
            return self._until_ready(paths)
        except BaseException:
            self.end(paths)
            raise

    @property
    def running(self) -> list[int]:
        return sorted(node_id for node_id, each in self._processes.items() if each.poll() is None)

    def process_id(self, node_id: int) -> int:
        return self._processes[node_id].pid

    def kill(self, node_id: int) -> None:
        self.end([node_id])

    def restart(self, node_id: int) -> None:
        self.start({node_id: self._paths[node_id]})

    def stop(self) -> None:
        """Stop all cleanly. ClusterError where one did not."""
        running = {node_id: self._processes[node_id] for node_id in self.running}
        for process in running.values():
            process.terminate()
        deadline = time.monotonic() + TIMEOUT_S
        failed = []
        for node_id, process in running.items():
            try:
                code = process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                code = None
            if code != 0:
                failed.append(node_id)
        self.end(list(self._processes))
        if failed:
            raise ClusterError(f"node {failed[0]} did not stop cleanly: {_end_of(self._paths[failed[0]])}")

    def end(self, nodes: Iterable[int]) -> None:
        """SIGKILL. Whoever does not run any more stays so."""
        for node_id in nodes:
            process = self._processes.pop(node_id, None)
            if process is not None:
                process.kill()
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        pipe.close()

    def _until_ready(self, nodes: Iterable[int]) -> dict[int, str]:
        addresses: dict[int, str] = {}
        deadline = time.monotonic() + TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            for node_id in nodes:
                output = self._processes[node_id].stdout
                assert output is not None
                selector.register(output, selectors.EVENT_READ, node_id)
            while selector.get_map():
                ready = selector.select(deadline - time.monotonic())
                if not ready:
                    raise ClusterError(f"the embedded cluster did nothing for {TIMEOUT_S:g} s")
                for key, _ in ready:
                    line = self._processes[key.data].stdout.readline().decode(errors="replace")  # type: ignore[union-attr]
                    if not line:
                        raise ClusterError(f"node {key.data} could not start: {_end_of(self._paths[key.data])}")
                    # The last two words: where clients find it, and where watchers do.
                    *_, addresses[key.data], _ = line.split()
                    selector.unregister(key.fileobj)
        return addresses


def _begin(path: str) -> subprocess.Popen[bytes]:
    # -P: what lies in the current directory is not taken for a module of Python's.
    command = [sys.executable, "-P", "-m", "tidelog.cli", "broker", "--led-by-stdin"]
    with _log_of(path).open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, process_group=0
        )
    assert process.stdin is not None
    # One that has ended already says so by its output.
    with suppress(BrokenPipeError):
        os.write(process.stdin.fileno(), os.fsencode(path) + b"\0")
    return process


def _log_of(path: str) -> Path:
    return Path(path).with_name("node.log")


def _end_of(path: str) -> str:
    """What a node's log says last."""
    said = _log_of(path).read_bytes()[-_LOG_BYTES_TOLD:].decode(errors="replace").strip()
    return said.splitlines()[-1] if said else "it said nothing"
