"""The two programs as clusters of three, each node a process of its own that is broker and controller.

Both read the same `server.properties` but for ports and directories, with static voters, and are formatted before the clock
starts. Apache Kafka has the heap and the collector that its own scripts choose. A node can be killed, and started again on what
it has left; CPU and memory are those of the processes that run, from /proc.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.broker.contestants import (
    KAFKA_JVM,
    KAFKA_TOOL_JVM,
    ContestantError,
    resident_bytes,
    tidelog_environment,
    tidelog_program,
)
from benchmarks.broker.figures import BEFORE, OURS, THEIRS
from tests.support.apache_kafka import CLUSTER_ID, ApacheKafka, free_ports

NODES = (1, 2, 3)
HOST = "127.0.0.1"
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 90.0
ANSWER_POLL_S = 0.005
LOG_TAIL_CHARACTERS = 2000

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Cluster(ABC):
    """Nodes 1 to 3. At the end of `with` nothing of them is left, not even their files."""

    name: str

    def __init__(self, root: Path) -> None:
        self.root = root
        ports = free_ports(2 * len(NODES))
        self.ports = dict(zip(NODES, ports, strict=False))
        self._controller_ports = dict(zip(NODES, ports[len(NODES) :], strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ended_cpu_s = 0.0

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.ports[node]}" for node in NODES)

    def data(self, node: int) -> Path:
        return self.root / f"data-{node}"

    def format(self) -> None:
        """Fresh directories for all."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        for node in NODES:
            self._properties(node).write_text(self._settings(node), encoding="utf-8")
            with self._log(node).open("ab") as log:
                done = subprocess.run(
                    self._format_command(self._properties(node)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment(),
                    check=False,
                )
            if done.returncode != 0:
                raise ContestantError(f"{self.name} did not format node {node}:\n{self._log_tail(node)}")

    def start(self, *nodes: int) -> float:
        """Starts nodes, all unless some are named. The seconds until each of them names all brokers that run."""
        begun_s = time.monotonic()
        started = nodes or NODES
        for node in started:
            with self._log(node).open("ab") as log:
                self._processes[node] = subprocess.Popen(
                    self._command(self._properties(node)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment(),
                )
        for node in started:
            while brokers_named(self.ports[node]) < len(self._processes):
                if self._processes[node].poll() is not None:
                    raise ContestantError(f"{self.name}: node {node} ended:\n{self._log_tail(node)}")
                if time.monotonic() - begun_s > START_TIMEOUT_S:
                    raise ContestantError(f"{self.name}: node {node} does not serve:\n{self._log_tail(node)}")
                time.sleep(ANSWER_POLL_S)
        return time.monotonic() - begun_s

    def kill(self, node: int) -> None:
        self._end(node, signal.SIGKILL)

    def stop(self, node: int) -> None:
        self._end(node, signal.SIGTERM)

    def _end(self, node: int, sign: signal.Signals) -> None:
        self._ended_cpu_s += self._node_cpu_s(node)
        process = self._processes.pop(node)
        process.send_signal(sign)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ContestantError(f"{self.name}: node {node} did not stop within {STOP_TIMEOUT_S:.0f} s") from None

    def discard(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()
        shutil.rmtree(self.root, ignore_errors=True)

    def cpu_s(self) -> float:
        """What all nodes have used so far, those that have ended too."""
        return self._ended_cpu_s + sum(self._node_cpu_s(node) for node in self._processes)

    def resident_mb(self) -> float:
        return sum(resident_bytes(self._proc(node, "status")) for node in self._processes) / 1e6

    def _node_cpu_s(self, node: int) -> float:
        fields = self._proc(node, "stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS

    def _proc(self, node: int, name: str) -> str:
        process = self._processes[node]
        if process.poll() is not None:
            raise ContestantError(f"{self.name}: node {node} does not run:\n{self._log_tail(node)}")
        return Path(f"/proc/{process.pid}/{name}").read_text(encoding="ascii", errors="replace")

    def _log(self, node: int) -> Path:
        return self.root / f"node-{node}.log"

    def _log_tail(self, node: int) -> str:
        log = self._log(node)
        return log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if log.exists() else ""

    def _properties(self, node: int) -> Path:
        return self.root / f"node-{node}.properties"

    def _settings(self, node: int) -> str:
        addresses = f"PLAINTEXT://{HOST}:{self.ports[node]},CONTROLLER://{HOST}:{self._controller_ports[node]}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "listeners": addresses,
            "advertised.listeners": addresses,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{each}@{HOST}:{self._controller_ports[each]}" for each in NODES),
            "log.dirs": str(self.data(node)),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "group.initial.rebalance.delay.ms": "0",
            # The files of a round are gone when the next one begins.
            "log.segment.delete.delay.ms": "0",
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    @abstractmethod
    def _format_command(self, properties: Path) -> list[str]: ...

    @abstractmethod
    def _command(self, properties: Path) -> list[str]: ...

    @abstractmethod
    def _environment(self) -> dict[str, str]: ...


class TidelogCluster(Cluster):
    name = OURS

    def __init__(self, root: Path, checkout: Path | None = None) -> None:
        super().__init__(root)
        self._program = tidelog_program(checkout)
        if checkout is not None:
            self.name = BEFORE

    def _format_command(self, properties: Path) -> list[str]:
        return [self._program, "format", "--cluster-id", CLUSTER_ID, "--config", str(properties)]

    def _command(self, properties: Path) -> list[str]:
        return [self._program, "broker", "--config", str(properties)]

    def _environment(self) -> dict[str, str]:
        return tidelog_environment()


class KafkaCluster(Cluster):
    name = THEIRS

    def __init__(self, root: Path, installation: ApacheKafka) -> None:
        super().__init__(root)
        self._installation = installation

    def _format_command(self, properties: Path) -> list[str]:
        arguments = ("format", "-t", CLUSTER_ID, "-c", str(properties))
        return self._installation.command("kafka.tools.StorageTool", *arguments, jvm=KAFKA_TOOL_JVM)

    def _command(self, properties: Path) -> list[str]:
        return self._installation.command("kafka.Kafka", str(properties), jvm=KAFKA_JVM)

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)


def brokers_named(port: int) -> int:
    """How many brokers a Metadata v1 answer names; 0 while nothing answers."""
    request = struct.pack(">hhih", 3, 1, 1, 1) + b"b" + struct.pack(">i", 0)
    try:
        with socket.create_connection((HOST, port), 1.0) as connection:
            connection.settimeout(5.0)
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(4096)
    except OSError:
        return 0
    return int(struct.unpack_from(">i", answer, 8)[0]) if len(answer) >= 12 else 0


class Clusters:
    """Makes pairs of fresh clusters below one directory: ours, and its peer, Apache Kafka or nodes of another checkout."""

    def __init__(self, directory: Path, peer: ApacheKafka | Path) -> None:
        self._directory = directory
        self._peer = peer
        self._made = 0

    @contextmanager
    def pair(self) -> Iterator[tuple[Cluster, Cluster]]:
        """Two clusters, formatted, not started. What the block leaves of them is killed and removed."""
        self._made += 1
        root = self._directory / str(self._made)
        peer: Cluster
        if isinstance(self._peer, Path):
            peer = TidelogCluster(root / BEFORE, self._peer)
        else:
            peer = KafkaCluster(root / THEIRS, self._peer)
        pair = (TidelogCluster(root / OURS), peer)
        try:
            for each in pair:
                each.format()
            yield pair
        finally:
            for each in pair:
                each.discard()
