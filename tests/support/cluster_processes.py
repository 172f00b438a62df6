"""Three nodes as processes of their own, one cluster: started as a service manager starts them, to be killed and stopped."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.running_node import DEADLINE_S

_REPOSITORY = Path(__file__).resolve().parents[2]
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
HOST = "127.0.0.1"


class ClusterProcess:
    """One node. Its directory outlives it."""

    def __init__(self, number: int, directory: Path, port: int, controller_port: int, voters: str) -> None:
        self.number = number
        self.bootstrap = f"{HOST}:{port}"
        self._log = directory / f"node-{number}.log"
        self._properties = directory / f"node-{number}.properties"
        self._process: subprocess.Popen[str] | None = None
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.voters": voters,
            "log.dirs": str(directory / f"data-{number}"),
            "min.insync.replicas": "2",
            "default.replication.factor": "3",
            "group.initial.rebalance.delay.ms": "0",
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        formatted = self._tidelog("format", "--cluster-id", CLUSTER_ID)
        formatted.communicate(timeout=DEADLINE_S)
        assert formatted.returncode == 0, self._log.read_text()

    def _tidelog(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        with self._log.open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tidelog.cli", command, "--config", str(self._properties), *arguments],
                cwd=_REPOSITORY,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """It may need others before it serves."""
        assert self._process is None
        self._process = self._tidelog("broker")

    def wait_until_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        # A pipe has no time-out of its own: a node that never gets ready is killed, and the read ends.
        giving_up = threading.Timer(DEADLINE_S, self._process.kill)
        giving_up.start()
        try:
            line = self._process.stdout.readline()
        finally:
            giving_up.cancel()
        if not line.startswith("ready"):
            raise RuntimeError(f"node {self.number} did not get ready: {self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit code once the node has stopped."""
        return self._end(signal.SIGTERM)

    def _end(self, sign: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(sign)
        code = process.wait(DEADLINE_S)
        if process.stdout is not None:
            process.stdout.close()
        return code


class ClusterProcesses:
    """Nodes 1 to 3. All that run at the end of `running` are killed."""

    def __init__(self, directory: Path) -> None:
        ports = _free_ports(6)
        voters = ",".join(f"{number}@{HOST}:{ports[number + 2]}" for number in (1, 2, 3))
        self.nodes = {
            number: ClusterProcess(number, directory, ports[number - 1], ports[number + 2], voters)
            for number in (1, 2, 3)
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self, *numbers: int) -> None:
        started = [self.nodes[number] for number in numbers or self.nodes]
        for node in started:
            node.start()
        for node in started:
            node.wait_until_ready()

    @contextmanager
    def running(self) -> Iterator[ClusterProcesses]:
        try:
            self.start()
            yield self
        finally:
            for node in self.nodes.values():
                if node.is_running:
                    node.kill()


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. All are held until all are found, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
