"""The command line as a process of its own, with signals and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

# Far beyond anything that passes; a test that gets here has failed.
DEADLINE_S = 30.0


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "tidelog.cli", *map(str, arguments)]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """That of the test, without what would configure a node."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
    return {**kept, **(extra or {})}


def run(*arguments: str | Path, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, env=environment(variables), timeout=DEADLINE_S
    )


class CommandProcess:
    """A command that runs until it is told to stop. Whatever is left of it at the end of the `with` is killed."""

    def __init__(self, *arguments: str | Path, variables: Mapping[str, str] | None = None) -> None:
        self._arguments = command(*arguments)
        self._environment = environment(variables)

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._environment
        )
        return self

    def ready_line(self) -> str:
        """The line that says that it serves."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready"), self.process.communicate(timeout=DEADLINE_S)
        return line.strip()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """The exit code, and all of standard error, once it has ended by itself."""
        _, errors = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, errors

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)
