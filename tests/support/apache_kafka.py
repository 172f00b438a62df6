"""Apache Kafka as a program to judge ours by: found or installed, formatted, started, stopped, killed, and its tools run.

The jars come from Maven, once, into `.compat/kafka/lib` (`TIDELOG_KAFKA_DIR` names another place). A `Node` is a broker and
controller in one process on two free ports that it keeps over restarts; its data is in `<root>/data`. Nothing here knows Tidelog.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

KAFKA_VERSION = "4.3.1"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
NODE_ID = 1
# An installation that lacks one of these is of an earlier pom.xml.
PARTS = ("kafka_2.13", "kafka-tools", "kafka-shell", "kafka-streams", "connect-file")
REPOSITORY = Path(__file__).resolve().parents[2]
POM = REPOSITORY / "tests" / "compat" / "pom.xml"

# A machine that runs these tests has other work to do: a small heap, and no compiler threads for code that runs once.
NODE_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
TOOL_JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dfile.encoding=UTF-8",
    "-Dsun.stdout.encoding=UTF-8",
)
START_TIMEOUT_S = 90.0
TOOL_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.05
PORTS = range(20_000, 32_000)

SMALL_NODE = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class MissingProgramError(Exception):
    """A program that these tests need is not there; the message names the package to install."""


class KafkaError(Exception):
    """Apache Kafka did not do what it was asked to; the message holds the end of what it printed."""


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """Polls until the condition holds; KafkaError naming `what` when the deadline passes."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise KafkaError(f"waited {timeout_s:.0f} s in vain until {what}")
        time.sleep(POLL_INTERVAL_S)


def require(program: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise MissingProgramError(f"`{program}` is missing: install the package `{package}` (Debian, Ubuntu)")
    return found


@dataclass(frozen=True)
class Output:
    """What a tool printed, and how it ended."""

    stdout: str
    stderr: str
    code: int


@dataclass(frozen=True)
class ApacheKafka:
    """An installation: a directory whose `lib` holds the jars."""

    home: Path

    @classmethod
    def installed(cls) -> ApacheKafka:
        """The installation that `TIDELOG_KAFKA_DIR` or `.compat/kafka` holds, fetched by Maven if it is not there yet."""
        home = Path(os.environ.get("TIDELOG_KAFKA_DIR") or REPOSITORY / ".compat" / "kafka").resolve()
        require("java", "openjdk-17-jdk-headless")
        home.mkdir(parents=True, exist_ok=True)
        with (home / ".install-lock").open("w") as lock:
            # Two test runs at once install it once.
            fcntl.lockf(lock, fcntl.LOCK_EX)
            if not all((home / "lib" / f"{part}-{KAFKA_VERSION}.jar").exists() for part in PARTS):
                _install(home)
        return cls(home)

    def command(
        self, main_class: str, *arguments: str, jvm: tuple[str, ...] = TOOL_JVM, logging: Path | None = None
    ) -> list[str]:
        """The command line that runs a class of the installation. A `main_class` that ends in .java is compiled first."""
        configured = logging or logging_file(self.home, "warn")
        java = require("java", "openjdk-17-jdk-headless")
        class_path = f"{self.home}/lib/*"
        return [java, *jvm, f"-Dlog4j2.configurationFile={configured}", "-cp", class_path, main_class, *arguments]

    def tool(self, main_class: str, *arguments: str, given: str = "", timeout_s: float = TOOL_TIMEOUT_S) -> Output:
        """Runs one of Kafka's command-line tools to its end, whatever its exit code."""
        done = subprocess.run(
            self.command(main_class, *arguments),
            input=given,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
        return Output(done.stdout, done.stderr, done.returncode)

    def java_version(self) -> str:
        lines = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()
        return lines[1] if len(lines) > 1 else lines[0]


def _install(home: Path) -> None:
    maven = require("mvn", "maven")
    # Into a directory of its own first: an interrupted download must not pass for an installation.
    fresh = home / "lib.fetching"
    shutil.rmtree(fresh, ignore_errors=True)
    command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaError(f"maven could not fetch Apache Kafka {KAFKA_VERSION}:\n{(done.stdout + done.stderr)[-2000:]}")
    shutil.rmtree(home / "lib", ignore_errors=True)
    fresh.rename(home / "lib")


def logging_file(directory: Path, level: str, loggers: Mapping[str, str] | None = None) -> Path:
    """Everything from this level on; some loggers, by their names, from levels of their own."""
    path = directory / f"log4j2-{level}.yaml"
    named = ", ".join(f"{{name: {name}, level: {each}}}" for name, each in (loggers or {}).items())
    others = f", Logger: [{named}]" if named else ""
    text = (
        "Configuration:\n"
        "  status: error\n"
        '  Appenders: {Console: {name: out, target: SYSTEM_ERR, PatternLayout: {pattern: "%p %c{1}: %m%n"}}}\n'
        f"  Loggers: {{Root: {{level: {level}, AppenderRef: {{ref: out}}}}{others}}}\n"
    )
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now.

    They lie below the range from which the system serves outgoing connections: a node that is stopped for a while must find
    its port free when it starts again.
    """
    found: list[int] = []
    for port in Random().sample(PORTS, 200):
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise KafkaError(f"there are no {count} free ports from {PORTS.start} to {PORTS.stop}")


@dataclass
class Node:
    """One node of Apache Kafka, a cluster of its own, on free ports unless they are given.

    Stopped -> start -> running -> stop (SIGTERM, a clean stop) or kill (SIGKILL) -> stopped. `with node.running():` starts it
    and leaves none behind; `with node:` formats it first.
    """

    kafka: ApacheKafka
    root: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "warn"
    ports: tuple[int, int] | None = None
    loggers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.root.resolve()
        self.root.mkdir(parents=True, exist_ok=True)
        self.port, self.controller_port = self.ports or free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    def copy(self, root: Path) -> Node:
        """Another node on a copy of this one's data, with the same ports, which the data names: only one of them may run."""
        shutil.copytree(self.data, root / "data")
        return Node(self.kafka, root, self.settings, self.log_level, (self.port, self.controller_port))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def log_file(self) -> Path:
        return self.root / "kafka.log"

    def properties(self) -> Path:
        """Writes the node's server.properties as its settings are now, and names the file."""
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(NODE_ID),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": (
                f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}"
            ),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.data),
            **SMALL_NODE,
            **self.settings,
        }
        path = self.root / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def format(self) -> None:
        """Formats the data directory, as `kafka-storage format --standalone` does."""
        done = self.kafka.tool(
            "kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(self.properties())
        )
        if done.code != 0:
            raise KafkaError(f"the directory was not formatted: {(done.stdout + done.stderr)[-2000:]}")

    def start(self) -> None:
        """Starts the process and returns when the broker answers and knows itself as alive."""
        if self._process is not None:
            raise KafkaError("the node runs already")
        logging = logging_file(self.root, self.log_level, self.loggers)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.kafka.command("kafka.Kafka", str(self.properties()), jvm=NODE_JVM, logging=logging),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(self._serves, "Apache Kafka serves", START_TIMEOUT_S)
        except KafkaError:
            self.kill()
            raise

    def _serves(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        if code is not None:
            self._process = None
            raise KafkaError(f"Apache Kafka ended with code {code}; the end of {self.log_file}:\n{self.log_tail()}")
        return brokers_known(self.port) == 1

    def log_tail(self, characters: int = 3000) -> str:
        return self.log_file.read_text(errors="replace")[-characters:] if self.log_file.exists() else ""

    def stop(self, timeout_s: float = 60.0) -> None:
        """A clean stop: SIGTERM, then wait for the end. Does nothing to a node that is not running."""
        self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        """An unclean stop: SIGKILL. Does nothing to a node that is not running."""
        self._end(signal.SIGKILL, 30.0)

    def _end(self, sign: signal.Signals, timeout_s: float) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(sign)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise KafkaError(f"Apache Kafka did not stop within {timeout_s:.0f} s:\n{self.log_tail()}") from None

    def __enter__(self) -> Self:
        self.format()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Starts on the data as it is; stops cleanly at the end, if it still runs then, and is killed if the body raises."""
        self.start()
        try:
            yield self
        except BaseException:
            self.kill()
            raise
        self.stop()


def brokers_known(port: int) -> int:
    """How many brokers a Metadata v1 answer names; 0 while nothing answers."""
    request = struct.pack(">hhih", 3, 1, 1, 1) + b"t" + struct.pack(">i", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as connection:
            connection.settimeout(2.0)
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(4096)
    except OSError:
        return 0
    return int(struct.unpack_from(">i", answer, 8)[0]) if len(answer) >= 12 else 0
