"""The parts of the demo as processes: started, asked to end, or killed with all that they have started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]

END_TIMEOUT_S = 120.0


class DemoError(Exception):
    """Something did not happen that had to, in one sentence."""


class Part:
    """A module of this package, run as a process. What it complains about is appended to a log."""

    def __init__(self, name: str, module: str, *arguments: str, log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as errors:
            # A session of its own: what it starts can be killed together with it, and Ctrl-C is for the demo alone.
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"examples.orders_demo.{module}", *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def check(self) -> None:
        """DemoError where it has ended, and not in peace."""
        if not self.is_running and self._process.returncode != 0:
            raise DemoError(f"{self.name} has failed; {self._log} says why")

    def leave(self) -> None:
        """Ask it to end, and wait for that."""
        self._process.terminate()
        self.wait()

    def go_on(self) -> None:
        """Give it a line of input."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise DemoError(f"{self.name} does not end") from None
        self.check()

    def kill(self) -> None:
        """At once, with every process of its group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class PipelinePart(Part):
    """The pipeline, and what it has said about its batches."""

    def __init__(self, bootstrap: str, directory: Path, log: Path) -> None:
        self.is_ready = False
        self.batches: dict[str, list[int]] = {}
        """The batches with rows of each query."""
        self.rows_dropped = 0
        super().__init__("the pipeline", "pipeline", bootstrap, str(directory), log=log)
        self._listener = threading.Thread(target=self._listen, name="pipeline's words", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                # The last words of one that was killed.
                break
            told = json.loads(line)
            self.is_ready = self.is_ready or told.get("ready", False)
            self.rows_dropped += told.get("dropped", 0)
            if told.get("rows", 0):
                self.batches.setdefault(told["query"], []).append(told["batch"])

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._listener.join()
        super().__exit__()
