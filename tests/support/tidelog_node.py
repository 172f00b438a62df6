"""Tidelog as the program that it is: `tidelog broker` in a process of its own, with a server.properties that Kafka could read.

The same verbs as `apache_kafka.Node`, and the same file: a test starts one of the two where the other one has stopped.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.support.apache_kafka import ApacheKafka, Node
from tests.support.command_process import command, environment

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
LOG_TAIL_CHARACTERS = 3000


class TidelogError(Exception):
    """The node did not do what it was asked to; the message holds the end of what it printed."""


class TidelogNode:
    """A node of Tidelog in the place of a node of Apache Kafka: its data, its ports, its server.properties."""

    def __init__(self, place: Node) -> None:
        self._place = place
        self._process: subprocess.Popen[str] | None = None

    @classmethod
    def at(cls, root: Path, **settings: str) -> Self:
        """A node where no Kafka has been; underscores in setting names stand for dots."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        # Only the ports and the properties are used: there need be no installation.
        return cls(Node(ApacheKafka(root), root, given))

    @property
    def bootstrap(self) -> str:
        return self._place.bootstrap

    @property
    def controller_address(self) -> str:
        return f"127.0.0.1:{self._place.controller_port}"

    @property
    def data(self) -> Path:
        return self._place.data

    @property
    def log_file(self) -> Path:
        return self._place.root / "tidelog.log"

    @property
    def cpu_s(self) -> float:
        """How long the running process has worked so far, in seconds of one processor."""
        if self._process is None:
            raise TidelogError("the node does not run")
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def properties(self) -> Path:
        return self._place.properties()

    def start(self) -> None:
        """Starts the process and returns when it serves."""
        if self._process is not None:
            raise TidelogError("the node runs already")
        with self.log_file.open("a") as log:
            self._process = subprocess.Popen(
                command("broker", "--config", self.properties),
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        # The one line that a node prints, or the end of the output where it cannot start.
        readable, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT_S)
        if not readable or not self._process.stdout.readline().startswith("ready"):
            self.kill()
            raise TidelogError(f"the node did not start:\n{self.log_tail()}")

    def stop(self) -> None:
        """A clean stop: SIGTERM, and the exit code of one. Does nothing to a node that is not running."""
        code = self._end(signal.SIGTERM)
        if code:
            raise TidelogError(f"the node ended with code {code}:\n{self.log_tail()}")

    def kill(self) -> None:
        """An unclean stop: SIGKILL. Does nothing to a node that is not running."""
        self._end(signal.SIGKILL)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Serves on the data as it is; stops cleanly at the end, if it still runs then, and is killed if the body raises."""
        self.start()
        try:
            yield self
        except BaseException:
            self.kill()
            raise
        self.stop()

    def log_tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]

    def _end(self, sign: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        assert process.stdout is not None
        process.send_signal(sign)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TidelogError(f"the node did not stop within {STOP_TIMEOUT_S:.0f} s:\n{self.log_tail()}") from None
        finally:
            process.stdout.close()
