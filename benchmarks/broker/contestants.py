"""The two programs that are compared, each a node of its own in a process of its own, started as its users start it.

Both read the same `server.properties` but for ports and directories. Tidelog formats an empty directory by itself; Apache Kafka's
is formatted by its own tool first, and it runs with the heap and the collector that `kafka-server-start` and `kafka-run-class`
choose. What a process has used comes from /proc, so whatever else runs does not count as its work.

    new -> started -> stopped, and again from there on a fresh directory
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.broker.figures import BEFORE, OURS, THEIRS
from benchmarks.broker.load_client import PLAINTEXT
from tests.support.apache_kafka import CLUSTER_ID, ApacheKafka, free_ports

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0
# Short beside the fastest start, and cheap: a refused connection takes microseconds.
ANSWER_POLL_S = 0.002
LOG_TAIL_CHARACTERS = 2000

# What bin/kafka-server-start.sh and bin/kafka-run-class.sh pass when nobody sets KAFKA_HEAP_OPTS or KAFKA_JVM_PERFORMANCE_OPTS.
KAFKA_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
KAFKA_TOOL_JVM = ("-Xmx256M", *KAFKA_JVM[2:])

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class ContestantError(Exception):
    """A broker did not start, or did not stop; the message holds the end of its log."""


def server_properties(
    directory: Path,
    port: int,
    controller_port: int,
    further: Mapping[str, str] | None = None,
    listeners: Mapping[str, int] | None = None,
) -> str:
    """A node that is a cluster of its own, with Kafka's defaults but for what one node must have, and what is given: settings,
    and listeners with their ports."""
    ports = {PLAINTEXT: port, **(listeners or {}), "CONTROLLER": controller_port}
    addresses = ",".join(f"{name}://127.0.0.1:{each}" for name, each in ports.items())
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": addresses,
        "advertised.listeners": addresses,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "log.dirs": str(directory),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # The files of a round are gone when the next one begins: its disk writes must not fall into that one's time.
        "log.segment.delete.delay.ms": "0",
        **(further or {}),
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


class Contestant(ABC):
    """A broker. `start` and `stop` in turn; at the end of `with` nothing of it is left, not even its files."""

    name: str
    # Besides PLAINTEXT: whoever names some says in the settings what they are.
    listeners: Sequence[str] = ()

    def __init__(self, root: Path, settings: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.settings = settings
        self.port = 0
        self.listener_ports: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return self.address(PLAINTEXT)

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.port if listener == PLAINTEXT else self.listener_ports[listener]}"

    def start(self) -> float:
        """Formats a fresh directory and starts the process. The seconds from its first program to its first answer."""
        if self._process is not None:
            raise ContestantError(f"{self.name} runs already")
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        self.port, controller_port, *further = free_ports(2 + len(self.listeners))
        self.listener_ports = dict(zip(self.listeners, further, strict=True))
        properties = self.root / "server.properties"
        data = self.root / "data"
        text = server_properties(data, self.port, controller_port, self.settings, self.listener_ports)
        properties.write_text(text, encoding="utf-8")
        begun_s = time.monotonic()
        with (self.root / "log").open("ab") as log:
            self._format(properties, log.fileno())
            self._process = subprocess.Popen(
                self._command(properties),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
            )
        while not serves(self.port):
            if self._process.poll() is not None:
                raise ContestantError(f"{self.name} ended while it started:\n{self._log_tail()}")
            if time.monotonic() - begun_s > START_TIMEOUT_S:
                raise ContestantError(f"{self.name} did not answer within {START_TIMEOUT_S:.0f} s:\n{self._log_tail()}")
            time.sleep(ANSWER_POLL_S)
        return time.monotonic() - begun_s

    def stop(self) -> None:
        """SIGTERM, and the end. ContestantError where it does not come; nothing where it does not run."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ContestantError(f"{self.name} did not stop within {STOP_TIMEOUT_S:.0f} s") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def discard(self) -> None:
        """SIGKILL to what still runs, and no files left."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self.root, ignore_errors=True)

    def cpu_s(self) -> float:
        """What the process has used so far, its own time and the system's for it."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS

    def resident_mb(self) -> float:
        return resident_bytes(self._proc("status")) / 1e6

    def _proc(self, name: str) -> str:
        if self._process is None or self._process.poll() is not None:
            raise ContestantError(f"{self.name} does not run:\n{self._log_tail()}")
        return Path(f"/proc/{self._process.pid}/{name}").read_text(encoding="ascii", errors="replace")

    def _log_tail(self) -> str:
        log = self.root / "log"
        return log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if log.exists() else ""

    @abstractmethod
    def _format(self, properties: Path, log: int) -> None: ...

    @abstractmethod
    def _command(self, properties: Path) -> list[str]: ...

    @abstractmethod
    def _environment(self) -> dict[str, str]: ...


class Tidelog(Contestant):
    """`tidelog broker --config`, which formats an empty directory itself. With a checkout: the node of that one."""

    name = OURS

    def __init__(self, root: Path, settings: Mapping[str, str] | None = None, checkout: Path | None = None) -> None:
        super().__init__(root, settings)
        self._program = tidelog_program(checkout)
        if checkout is not None:
            self.name = BEFORE

    def _format(self, properties: Path, log: int) -> None:
        del properties, log

    def _command(self, properties: Path) -> list[str]:
        return [self._program, "broker", "--config", str(properties)]

    def _environment(self) -> dict[str, str]:
        return tidelog_environment()


class TidelogUp(Tidelog):
    """`tidelog up`, which writes its node's configuration itself."""

    def _command(self, properties: Path) -> list[str]:
        return [self._program, "up", "--port", str(self.port), "--dir", str(properties.parent / "up")]


class Kafka(Contestant):
    """`kafka-storage format --standalone`, then `kafka-server-start`."""

    name = THEIRS

    def __init__(self, root: Path, installation: ApacheKafka, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(root, settings)
        self._installation = installation

    def _format(self, properties: Path, log: int) -> None:
        arguments = ("format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties))
        command = self._installation.command("kafka.tools.StorageTool", *arguments, jvm=KAFKA_TOOL_JVM)
        if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode != 0:
            raise ContestantError(f"Apache Kafka did not format its directory:\n{self._log_tail()}")

    def _command(self, properties: Path) -> list[str]:
        return self._installation.command("kafka.Kafka", str(properties), jvm=KAFKA_JVM)

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)


def tidelog_program(checkout: Path | None = None) -> str:
    """The command of this environment, or of a checkout that has one of its own. ContestantError where it has none."""
    place = Path(sys.executable).parent if checkout is None else checkout / ".venv" / "bin"
    program = place / "tidelog"
    if not program.exists():
        raise ContestantError(f"there is no {program}: run `make environment` in that checkout")
    return str(program)


def tidelog_environment() -> dict[str, str]:
    """That of this process, without what would configure a node, or keep an installation from having its modules compiled."""
    left_out = {"PYTHONDONTWRITEBYTECODE"}
    return {
        name: value for name, value in os.environ.items() if name not in left_out and not name.startswith("TIDELOG_")
    }


def resident_bytes(status: str) -> int:
    """VmRSS of a /proc/PID/status."""
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ContestantError("the process has no VmRSS: it has ended")


def serves(port: int) -> bool:
    """Whether a Metadata v1 answer names one broker."""
    request = struct.pack(">hhih", 3, 1, 1, 1) + b"b" + struct.pack(">i", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as connection:
            connection.settimeout(5.0)
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(4096)
    except OSError:
        return False
    return len(answer) >= 12 and struct.unpack_from(">i", answer, 8)[0] == 1


# Who is beside us: an installation of Apache Kafka, a checkout of ours, or a kind of contestant.
Peer = ApacheKafka | Path | type[Contestant]


class Contestants:
    """Makes pairs of fresh nodes below one directory: ours, and its peer, which is Apache Kafka, the node of another checkout, or
    a program of another kind.

    `settings` and `listeners` are what both have besides the usual.
    """

    def __init__(
        self, directory: Path, peer: Peer, settings: Mapping[str, str] | None = None, listeners: Sequence[str] = ()
    ) -> None:
        self._directory = directory
        self._peer = peer
        self._settings = settings
        self._listeners = listeners
        self._made = 0

    @contextlib.contextmanager
    def pair(self, ours: type[Tidelog] = Tidelog) -> Iterator[tuple[Contestant, Contestant]]:
        """Two nodes, not started. What the block leaves of them is killed and removed, whatever happened."""
        self._made += 1
        root = self._directory / str(self._made)
        peer: Contestant
        if isinstance(self._peer, Path):
            peer = ours(root / BEFORE, self._settings, self._peer)
        elif isinstance(self._peer, ApacheKafka):
            peer = Kafka(root / THEIRS, self._peer, self._settings)
        else:
            peer = self._peer(root / self._peer.name, self._settings)
        pair = (ours(root / OURS, self._settings), peer)
        for each in pair:
            each.listeners = self._listeners
        try:
            yield pair
        finally:
            for each in pair:
                each.discard()

    @contextlib.contextmanager
    def running_pair(self, say: Callable[[str], None]) -> Iterator[tuple[Contestant, Contestant]]:
        """Two nodes that serve."""
        with self.pair() as pair:
            say("starting both brokers")
            for each in pair:
                each.start()
            yield pair
