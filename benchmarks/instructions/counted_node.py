"""A node under callgrind, of this checkout or of another one."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from benchmarks.broker.contestants import serves, tidelog_environment
from tests.support.apache_kafka import free_ports

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
# A program under valgrind takes some fifty times as long.
START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 120.0
CACHE = Path.home() / ".cache" / "tidelog"
_TOTALS = re.compile(r"^totals: (\d+)", re.MULTILINE)


class CountingError(Exception):
    """Something that counting needs is missing, or a node did not start; in one sentence."""


def check_valgrind() -> None:
    if shutil.which("valgrind") is None:
        raise CountingError("valgrind is not installed: instructions cannot be counted (Debian: apt install valgrind)")
    if shutil.which("cc") is None:
        raise CountingError("there is no C compiler `cc`, which counting needs once")


def counting_library() -> Path:
    """Compiled when it is first used."""
    source = HERE / "counting.c"
    made = CACHE / f"counting-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.so"
    if not made.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        unfinished = made.with_suffix(f".{os.getpid()}")
        try:
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(unfinished), str(source)], check=True)
        except subprocess.CalledProcessError:
            raise CountingError(
                "counting.c does not compile; it needs valgrind's headers (valgrind/callgrind.h)"
            ) from None
        unfinished.rename(made)
    return made


def properties(directory: Path, ports: Mapping[str, int], further: Mapping[str, str]) -> str:
    """A node that does nothing of its own accord while it is counted. Ports are those of its listeners."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports['CONTROLLER']}",
        "log.dirs": str(directory),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.max.session.timeout.ms": "3600000",
        "group.consumer.max.session.timeout.ms": "3600000",
        "group.consumer.session.timeout.ms": "3600000",
        "metadata.max.idle.interval.ms": "0",
        "broker.heartbeat.interval.ms": "600000",
        "broker.session.timeout.ms": "3600000",
        "replica.lag.time.max.ms": "3600000",
        "log.retention.check.interval.ms": "3600000",
        "log.cleaner.enable": "false",
        **further,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


class CountedNode:
    """`tidelog broker` of a checkout with its own .venv, in valgrind. Inside a `with` it serves."""

    def __init__(
        self,
        checkout: Path,
        directory: Path,
        settings: Callable[[Path], Mapping[str, str]] | None = None,
        listeners: Sequence[str] = (),
        *,
        is_watched: bool = False,
    ) -> None:
        """`settings` may write files below the node's directory; `listeners` are those besides the usual. A node that
        `is_watched` has a port for watchers."""
        self._checkout = checkout
        self.directory = directory
        self._settings = settings
        self.port, self.controller_port, self.http_port, *further = free_ports(3 + len(listeners))
        self._watched = ["--metrics-port", str(self.http_port)] if is_watched else []
        self.listener_ports = dict(zip(listeners, further, strict=True))
        self._dumps = 0

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True)
        config = self.directory / "server.properties"
        ports = {"PLAINTEXT": self.port, **self.listener_ports, "CONTROLLER": self.controller_port}
        settings = self._settings(self.directory) if self._settings is not None else {}
        config.write_text(properties(self.directory / "data", ports, settings))
        binaries = self._checkout / ".venv" / "bin"
        if not (binaries / "tidelog").exists():
            raise CountingError(f"{self._checkout} has no .venv with tidelog in it: run `make environment` there")
        command = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={self.directory / 'counted'}",
            str(binaries / "python"),
            str(HERE / "counted_process.py"),
            str(counting_library()),
            str(binaries / "tidelog"),
            "broker",
            "--config",
            str(config),
            *self._watched,
        ]
        self._log = (self.directory / "log").open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # One order of sets and dictionaries, and so one count; and never the plain twin because a build is out of date.
            env={**tidelog_environment(), "PYTHONHASHSEED": "0", "TIDELOG_KERNELS": "compiled"},
        )
        try:
            self._wait_until_it_serves()
        except BaseException:
            self._end()
            raise
        return self

    def _wait_until_it_serves(self) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not serves(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise CountingError(f"the node of {self._checkout} does not start: {self._log_tail()}")
            time.sleep(0.05)

    def _log_tail(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-1000:]

    def __exit__(self, *failure: object) -> None:
        self._end()

    def _end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._log.close()

    def wait_until_read(self, local_port: int) -> None:
        """What came from that port has been read, and the node is idle: a fetch that has to wait, waits."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        stat = Path(f"/proc/{self._process.pid}/stat")
        while unread_bytes(self.port, local_port) or stat.read_text().rpartition(")")[2].split()[0] != "S":
            if time.monotonic() > deadline_s:
                raise CountingError(f"the node reads nothing more: {self._log_tail()}")
            time.sleep(0.0005)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        # What the program itself prints comes before.
        while (answer := self._process.stdout.readline()) != b"done\n":
            if not answer:
                raise CountingError(f"the node ended: {self._log_tail()}")

    @contextmanager
    def counting(self, name: str) -> Iterator[list[int]]:
        """The instructions of the block are the list's one number, after it."""
        counted: list[int] = []
        self._say("begin")
        yield counted
        self._say(f"end {name}")
        self._dumps += 1
        dump = self.directory / f"counted.{self._dumps}"
        found = _TOTALS.search(dump.read_text(errors="replace"))
        if found is None:
            raise CountingError(f"valgrind has counted nothing in {dump}")
        dump.rename(self.directory / f"callgrind.{name}")
        counted.append(int(found.group(1)))


def unread_bytes(port: int, peer_port: int) -> int:
    """What lies in the receiving socket of a connection, on this machine, from `peer_port` to `port`."""
    ends = (f":{port:04X}", f":{peer_port:04X}")
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
            return int(fields[4].partition(":")[2], 16)
    raise CountingError(f"there is no connection from port {peer_port} to {port}")


def own_checkout() -> Path:
    """Where this program runs: its node is the one that is measured."""
    return REPOSITORY if (REPOSITORY / ".venv" / "bin" / "tidelog").exists() else Path(sys.prefix).parent
