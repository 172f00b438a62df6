"""Apache Kafka on the directories of a cluster of ours, each node with the configuration and the ports that it had here."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.apache_kafka import (
    NODE_JVM,
    START_TIMEOUT_S,
    ApacheKafka,
    KafkaError,
    brokers_known,
    logging_file,
    wait_until,
)
from tests.support.cluster_processes import ClusterProcess, ClusterProcesses

# Kafka's last nodes wait minutes for a quorum that is gone: whoever stops a whole cluster of it kills them in the end.
_STOP_TIMEOUT_S = 15.0


class KafkaProcesses:
    """All nodes of a stopped cluster as Apache Kafka. They run inside of `running`, and stop at its end."""

    def __init__(self, kafka: ApacheKafka, cluster: ClusterProcesses, root: Path) -> None:
        self._kafka = kafka
        self._nodes = list(cluster.nodes.values())
        self._root = root
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.killed: list[int] = []
        """Nodes that did not stop by themselves."""

    def log(self, number: int) -> str:
        return (self._root / f"kafka-{number}.log").read_text(errors="replace")

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            for node in self._nodes:
                self._start(node)
            for node in self._nodes:
                wait_until(lambda: self._serves(node), f"node {node.number} serves", START_TIMEOUT_S)  # noqa: B023
            yield
        except BaseException:
            for process in self._processes.values():
                process.kill()
                process.wait()
            raise
        self._stop()

    def _start(self, node: ClusterProcess) -> None:
        path = self._root / f"kafka-{node.number}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in node.properties.items()))
        command = self._kafka.command("kafka.Kafka", str(path), jvm=NODE_JVM, logging=logging_file(self._root, "info"))
        with (self._root / f"kafka-{node.number}.log").open("ab") as log:
            self._processes[node.number] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _serves(self, node: ClusterProcess) -> bool:
        code = self._processes[node.number].poll()
        if code is not None:
            raise KafkaError(f"node {node.number} ended with code {code}:\n{self.log(node.number)[-3000:]}")
        return brokers_known(int(node.bootstrap.rpartition(":")[2])) == len(self._nodes)

    def _stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for number, process in self._processes.items():
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.killed.append(number)
        self._processes.clear()
