"""Several nodes as processes of their own, one cluster: started as a service manager starts them, to be killed and stopped."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from tests.support.running_node import DEADLINE_S
from tidelog.controller.features import bootstrap_levels
from tidelog.controller.formatting import format_directories
from tidelog.controller.metadata_version import NEWEST, MetadataVersion
from tidelog.model.clock import SystemClock
from tidelog.model.ids import DirectoryId, NodeId, random_uuid
from tidelog.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.storage.os_files import OsFiles
from tidelog.wire.internal_records import FramedRecord

_REPOSITORY = Path(__file__).resolve().parents[2]
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
HOST = "127.0.0.1"
COMBINED = "broker,controller"

# Internal topics of fifty partitions would cost more than what is tested.
_SMALL = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


class ClusterProcess:
    """One node. Its directory outlives it."""

    def __init__(self, number: int, directory: Path, data: Path, properties: Mapping[str, str]) -> None:
        self.number = number
        self.data = data
        self.properties = {**properties, "log.dirs": str(self.data)}
        self._log = directory / f"node-{number}.log"
        self._properties = directory / f"node-{number}.properties"
        self.options: list[str] = []
        """More of the command line, from the next start on."""
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        """Where its broker listens."""
        return self.properties["listeners"].partition("PLAINTEXT://")[2].partition(",")[0]

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def log(self) -> str:
        """What it has said so far, in all its lives."""
        return self._log.read_text()

    @property
    def marked_epoch(self) -> int | None:
        """The broker epoch that a clean stop has left behind; None where none has."""
        mark = self.data / ".kafka_cleanshutdown"
        return int(json.loads(mark.read_text())["brokerEpoch"]) if mark.exists() else None

    def start(self) -> None:
        """It may need others before it serves."""
        assert self._process is None
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidelog.cli", "broker", "--config", str(self._properties), *self.options],
                cwd=_REPOSITORY,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

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
            raise RuntimeError(f"node {self.number} did not get ready: {self.log[-2000:]}")

    def kill(self) -> None:
        """SIGKILL, also of a node that is held."""
        self.signal(signal.SIGKILL)
        self.wait_until_stopped()

    def stop(self) -> int:
        """SIGTERM; the exit code once the node has stopped."""
        self.signal(signal.SIGTERM)
        return self.wait_until_stopped()

    def hold(self) -> None:
        """SIGSTOP: the process is there, and does nothing any more."""
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait_until_stopped(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        code = process.wait(DEADLINE_S)
        if process.stdout is not None:
            process.stdout.close()
        return code


class ClusterProcesses:
    """Nodes 1 to `size`. All that run at the end of `running` are killed.

    Those of `voters`, all controllers unless it says otherwise, are the first voters of a quorum that can change. With
    `is_static` they are in the configuration instead. `data` says where a node's data are, if not below `directory`. The cluster
    begins with the feature levels that go with `version`, and with `records`, such as users.
    """

    def __init__(
        self,
        directory: Path,
        size: int = 3,
        *,
        settings: Mapping[str, str] | None = None,
        roles: Mapping[int, str] | None = None,
        voters: Collection[int] | None = None,
        is_static: bool = False,
        data: Mapping[int, Path] | None = None,
        version: MetadataVersion = NEWEST,
        records: Sequence[FramedRecord] = (),
    ) -> None:
        numbers = range(1, size + 1)
        self.directory = directory
        self._roles = {number: (roles or {}).get(number, COMBINED) for number in numbers}
        ports = iter(free_ports(2 * size))
        self._ports = {number: next(ports) for number in numbers}
        self._controller_ports = {number: next(ports) for number in numbers}
        controllers = [number for number in numbers if "controller" in self._roles[number]]
        voting = controllers if voters is None else [number for number in controllers if number in voters]
        addresses = {number: f"{HOST}:{self._controller_ports[number]}" for number in controllers}
        if is_static:
            quorum = {"controller.quorum.voters": ",".join(f"{each}@{addresses[each]}" for each in voting)}
        else:
            quorum = {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}
        replicas = sum("broker" in role for role in self._roles.values())
        common = {
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "default.replication.factor": str(min(3, replicas)),
            "min.insync.replicas": str(min(2, replicas)),
            "offsets.topic.replication.factor": str(min(3, replicas)),
            "transaction.state.log.replication.factor": str(min(3, replicas)),
            "transaction.state.log.min.isr": str(min(2, replicas)),
            **_SMALL,
            **quorum,
            **(settings or {}),
        }
        paths = {number: directory / f"data-{number}" for number in numbers} | dict(data or {})
        self.nodes = {
            number: ClusterProcess(number, directory, paths[number], {**self._own_properties(number), **common})
            for number in numbers
        }
        self._format(voting, version, records, is_static=is_static)

    def _own_properties(self, number: int) -> dict[str, str]:
        role = self._roles[number]
        listeners = []
        if "broker" in role:
            listeners.append(f"PLAINTEXT://{HOST}:{self._ports[number]}")
        if "controller" in role:
            listeners.append(f"CONTROLLER://{HOST}:{self._controller_ports[number]}")
        return {"node.id": str(number), "process.roles": role, "listeners": ",".join(listeners)}

    def _format(
        self, voting: list[int], version: MetadataVersion, records: Sequence[FramedRecord], *, is_static: bool
    ) -> None:
        random, clock, files = Random(), SystemClock(), OsFiles()
        voters = VoterSet(
            Voter(
                ReplicaKey(NodeId(number), DirectoryId(random_uuid(random))),
                (Endpoint("CONTROLLER", HOST, self._controller_ports[number]),),
            )
            for number in voting
        )
        for node in self.nodes.values():
            is_first = node.number in voting and not is_static
            format_directories(
                files,
                [str(node.data)],
                cluster_id=CLUSTER_ID,
                node_id=NodeId(node.number),
                controller_endpoints=(),
                random=random,
                clock=clock,
                voters=voters if is_first else None,
                is_static_quorum=not is_first,
                levels=bootstrap_levels(version),
                further=records,
            )

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values() if node.bootstrap)

    @property
    def controllers(self) -> str:
        """Where the controllers listen."""
        return ",".join(
            f"{HOST}:{self._controller_ports[number]}" for number, role in self._roles.items() if "controller" in role
        )

    def start(self, *numbers: int) -> None:
        started = [self.nodes[number] for number in numbers or self.nodes]
        for node in started:
            node.start()
        for node in started:
            node.wait_until_ready()

    def start_missing(self) -> None:
        """Have all of them run again, whatever a test has left."""
        missing = [number for number, node in self.nodes.items() if not node.is_running]
        if missing:
            self.start(*missing)

    def stop(self) -> list[int]:
        """SIGTERM to all that run, in one moment. Their exit codes once they have stopped."""
        running = [node for node in self.nodes.values() if node.is_running]
        for node in running:
            node.signal(signal.SIGTERM)
        return [node.wait_until_stopped() for node in running]

    @contextmanager
    def running(self, *numbers: int) -> Iterator[ClusterProcesses]:
        """Some nodes, or all of them, until the end."""
        try:
            self.start(*numbers)
            yield self
        finally:
            for node in self.nodes.values():
                if node.is_running:
                    node.kill()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. All are held until all are found, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
