"""The driver under chaos: a process with its Java and its workers, in a session of its own, so that nobody else's are killed."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from tidelog.spark.testing_kit.chaos_driver import ChaosJob

# A Java and its queries start in some ten seconds, on a busy machine in a minute.
START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 120.0
_WORKER = b"pyspark"
_SENTENCE_BYTES_MAX = 4096


class MortalDriver:
    """One driver after another, of the same job."""

    def __init__(self, job: ChaosJob, directory: Path) -> None:
        self._job = directory / "driver.job"
        self._job.write_bytes(pickle.dumps(job))
        self._log = directory / "driver.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""
        self.failures = 0
        """How often it has ended by itself."""

    @property
    def is_up(self) -> bool:
        """Whether there is one, running or about to."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_running(self) -> bool:
        """Whether its queries have started."""
        self._listen(0)
        return self.is_up and self._said.startswith(b"running")

    @property
    def sentence(self) -> str:
        """Why it ended by itself."""
        found = [each for each in self._said.decode(errors="replace").splitlines() if each.startswith("failed: ")]
        return found[-1].removeprefix("failed: ") if found else f"it ended; {self._log} has what it said"

    def start(self) -> None:
        self._said = b""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "tidelog.spark.testing_kit.chaos_driver", str(self._job)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def ensure_up(self) -> None:
        """Start it again where it has ended by itself."""
        if self._process is not None and not self.is_up:
            self._listen(0)
            self.failures += 1
            self._let_go()
            self.start()

    def wait_until_running(self) -> bool:
        """False where it does not come to that."""
        until_s = time.monotonic() + START_TIMEOUT_S
        while not self.is_running:
            if not self.is_up or time.monotonic() > until_s:
                return False
            self._listen(1.0)
        return True

    def kill(self) -> None:
        """The driver with its Java and its workers, all by SIGKILL."""
        if self._process is None:
            return
        for pid in self._members():
            _kill(pid)
        self._process.kill()
        self._process.wait()
        self._let_go()

    def doom(self, step: str) -> None:
        """Have it die right behind the next step of this name."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{step}\n".encode())
            self._process.stdin.flush()

    def wait_until_dead(self, timeout_s: float) -> bool:
        """Whether it has died by itself in that time; in any case it is no more, nor its Java and its workers."""
        assert self._process is not None
        try:
            has_died = self._process.wait(timeout_s) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            has_died = False
        self.kill()
        return has_died

    def kill_worker(self, random: Random) -> bool:
        """One of the Python processes that Spark has started, by SIGKILL; False where there is none."""
        if self._process is None:
            return False
        workers = [pid for pid in self._members() if pid != self._process.pid and _is_worker(pid)]
        if not workers:
            return False
        _kill(random.choice(sorted(workers)))
        return True

    def stop(self) -> None:
        """Behind the batches that are under way; killed where that takes too long."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT_S)
        self.kill()

    def _listen(self, timeout_s: float) -> None:
        if self._process is None or self._process.stdout is None or self._process.stdout.closed:
            return
        while select.select([self._process.stdout], [], [], timeout_s)[0]:
            read = os.read(self._process.stdout.fileno(), _SENTENCE_BYTES_MAX)
            if not read:
                return
            self._said += read
            timeout_s = 0

    def _let_go(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for pid in _session_of(process.pid):
                _kill(pid)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _members(self) -> list[int]:
        return [] if self._process is None else _session_of(self._process.pid)


def _session_of(leader: int) -> list[int]:
    """Every process of a session, as Linux lists them."""
    members = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                # The name in parentheses may hold anything; the session comes fourth behind it.
                fields = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader:
                members.append(int(each.name))
    return members


def _is_worker(pid: int) -> bool:
    """Whether it is a Python of Spark's: Java's own command line names PySpark too."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"python" in words[0] and any(_WORKER in each for each in words[1:])


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
