"""Types a page of the documentation from top to bottom, as a person at a terminal would, and compares what is printed.

The page is typed in an empty directory, or in one that looks like a clone where the page is marked so. Nothing is set up that
the page does not show. Three things differ from what a reader types, all of them so that tests may run beside each other and
beside a node of the developer's own:

- The ports of `PORTS` are replaced by free ones, of four digits as well, so that columns stay as wide: by their numbers where a
  block names them, by `--port` behind `tidelog up` and by `TIDELOG_BOOTSTRAP` where it leaves them out. What is printed is
  changed back.
- Temporary files are made below the page's own directory, and are shown as in `/tmp`; the directory itself is `/home/you`.
- `tidelog`, `python` and `pytest` are those of the environment that runs the tests.

Commands have a terminal for their output, as `tidelog consume` writes differently into a pipe. `VARYING` lists what is not
compared; in a shown line `...` stands for anything, and alone in a line for any number of lines.
"""

from __future__ import annotations

import difflib
import errno
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from tests.support.documents import ROOT, Block, Command, Page

# The ports that the documentation names.
PORTS = (9092, 9093, 9094, 9095, 9096, 9097, 9404)
# Below what systems give to outgoing connections, and of as many digits as the ports in the documentation. Each worker of
# pytest-xdist has a part of them.
FREE_PORTS = range(2000, 9000)
WORKERS = 14
# What differs from run to run, and what stands for it in the comparison.
VARYING = (
    (re.compile(r"/tmp/tidelog-\w+"), "/tmp/tidelog-*"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?Z?"), "<time>"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "<milliseconds>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    # The 22 characters of Kafka's ids: with capitals, which no word of ours of that length has.
    (re.compile(r"(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z0-9])[\w-]{22}(?![\w-])"), "<id>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|seconds)\b"), "<duration>"),
    (re.compile(r"\bpid \d+"), "pid <pid>"),
)
# Far beyond anything that passes, and beyond a Spark that starts on a machine with much else to do.
DEADLINE_S = 120.0
SPARK_DEADLINE_S = 600.0


class PageError(AssertionError):
    """What a reader of the page would have met."""


def difference(shown: tuple[str, ...], printed: str) -> str:
    """How what was printed differs from what a page shows; empty if it does not."""
    wanted = [_normal(line) for line in shown]
    got = [_normal(line) for line in printed.rstrip().splitlines()]
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in wanted
    )
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in got)):
        return ""
    return "\n".join(difflib.unified_diff(wanted, got, "shown", "printed", lineterm=""))


def _normal(line: str) -> str:
    for pattern, stands_for in VARYING:
        line = pattern.sub(stands_for, line)
    return line.rstrip()


def free_ports(count: int) -> list[int]:
    found: list[int] = []
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    for port in Random().sample(FREE_PORTS[worker::WORKERS], 200):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(errno.EADDRINUSE, "too few ports are free")


class TypedPage:
    """One page, in one directory. At the end of the `with` what still runs is told to stop, and has to do so in peace."""

    def __init__(self, page: Page, directory: Path, run_program: Callable[[str], str] | None = None) -> None:
        """`run_program` runs the programs of the page, and returns what they print, in the place of a Python of their own."""
        self.page = page
        self._run_program = run_program
        self.directory = directory
        self._ports = dict(zip(map(str, PORTS), map(str, free_ports(len(PORTS))), strict=True))
        self._numbers = {mine: theirs for theirs, mine in self._ports.items()}
        (directory / "tmp").mkdir(parents=True)
        self.home = directory / "home"
        self.home.mkdir()
        if page.is_in_a_clone:
            _like_a_clone(self.home)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "PYTEST_"))},
            # A reader need not have pytest-asyncio, which the tests of the plugin do.
            "PYTEST_ADDOPTS": "-p no:asyncio",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(directory / "tmp"),
            "TERM": "dumb",
            "COLUMNS": "80",
            "PYSPARK_PYTHON": sys.executable,
            "TIDELOG_BOOTSTRAP": f"127.0.0.1:{self._ports['9092']}",
        }
        self._deadline_s = SPARK_DEADLINE_S if page.is_for_compat else DEADLINE_S
        self._terminals: list[tuple[Block, Terminal]] = []
        self._session: Session | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def type_all(self) -> None:
        for block in self.page.blocks:
            self.type_block(block)

    def type_block(self, block: Block) -> None:
        if block.file is not None:
            path = self.home / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._as_typed(block.text))
        elif not block.is_run:
            return
        elif block.language == "python":
            self._check(block.place, block.output, self._program(block))
        elif block.language == "sh":
            with self._terminal(f"set -e\n{block.text}") as terminal:
                self._check(block.place, block.output, self._end_of(block.place, terminal, block.exit_code))
        else:
            commands = block.commands()
            for number, command in enumerate(commands, 1):
                self._type_command(block, command, block.exit_code if number == len(commands) else 0)

    def _type_command(self, block: Block, command: Command, exit_code: int) -> None:
        place = f"{block.page}:{command.line}: $ {command.typed}"
        terminal = self._open.enter_context(self._terminal(command.typed))
        if block.stays:
            self._await(place, command.shown, terminal)
            self._terminals.append((block, terminal))
        elif command.shown and command.shown[-1] == "^C":
            self._await(place, command.shown[:-1], terminal)
            terminal.interrupt()
            self._end_of(place, terminal, exit_code)
        else:
            self._check(place, command.shown, self._end_of(place, terminal, exit_code))

    def _program(self, block: Block) -> str:
        code = self._as_typed(block.text)
        if self._run_program is not None:
            printed, problem = self._run_program(code), ""
        elif self.page.is_one_session:
            if self._session is None:
                self._session = self._open.enter_context(Session(self.home, self._environment))
            printed, problem = self._session.run(code)
        else:
            run = subprocess.run(
                [sys.executable, "-c", code],
                cwd=self.home,
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=self._deadline_s,
            )
            printed, problem = run.stdout, run.stderr or (f"exit code {run.returncode}" if run.returncode else "")
        if problem:
            raise PageError(f"{block.place}: {problem}")
        return self._as_shown(printed)

    def _terminal(self, typed: str) -> Terminal:
        return Terminal(self._as_typed(typed), self.home, self._environment, self._deadline_s)

    def _end_of(self, place: str, terminal: Terminal, exit_code: int) -> str:
        code, printed = terminal.end()
        printed = self._as_shown(printed)
        if code != exit_code:
            raise PageError(f"{place}: exit code {code}\n{printed}")
        return printed

    def _await(self, place: str, shown: tuple[str, ...], terminal: Terminal) -> None:
        """Wait until all that is shown has been printed."""
        terminal.wait_for(lambda printed: not difference(shown, self._as_shown(printed)))
        self._check(place, shown, self._as_shown(terminal.printed))

    def _check(self, place: str, shown: tuple[str, ...] | None, printed: str) -> None:
        if shown is not None and (found := difference(shown, printed)):
            raise PageError(f"{place}:\n{found}")

    def _as_typed(self, text: str) -> str:
        text = re.sub(r"\btidelog up\b(?!.*--port)", "tidelog up --port 9092", text)
        return re.sub(rf"\b({'|'.join(self._ports)})\b", lambda found: self._ports[found[0]], text)

    def _as_shown(self, text: str) -> str:
        text = text.replace(str(self.directory / "tmp"), "/tmp").replace(str(self.home), "/home/you")
        return re.sub(rf"\b({'|'.join(self._numbers)})\b", lambda found: self._numbers[found[0]], text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            for block, terminal in reversed(self._terminals):
                stayed = not terminal.has_ended
                terminal.interrupt()
                code, printed = terminal.end()
                if error is None and not (stayed and code == 0):
                    how = "after Ctrl-C" if stayed else "by itself"
                    raise PageError(f"{block.place}: it ended {how} with {code}\n{self._as_shown(printed)}")


class Terminal:
    """A command with a terminal of its own, until the end of the `with`."""

    def __init__(self, typed: str, directory: Path, environment: dict[str, str], deadline_s: float) -> None:
        self._typed = typed
        self._deadline_s = deadline_s
        self._directory = directory
        self._environment = environment
        self._bytes = bytearray()

    def __enter__(self) -> Self:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))
        self._process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", self._typed],
            cwd=self._directory,
            env=self._environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        return self

    @property
    def printed(self) -> str:
        return self._bytes.decode(errors="replace").replace("\r\n", "\n")

    def wait_for(self, seen: Callable[[str], bool]) -> None:
        """Read until `seen` holds of what was printed, or nothing more can come."""
        deadline = time.monotonic() + self._deadline_s
        while not seen(self.printed) and self._read(deadline):
            pass

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def interrupt(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """The exit code, and all that was printed."""
        deadline = time.monotonic() + self._deadline_s
        while self._read(deadline):
            pass
        if self._process.poll() is None and time.monotonic() >= deadline:
            raise PageError(f"{self._typed!r} goes on for ever:\n{self.printed}")
        return self._process.wait(DEADLINE_S), self.printed

    def _read(self, deadline: float) -> bool:
        if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            read = os.read(self._master, 65536)
        except OSError as error:
            # What Linux says once the other side is closed; elsewhere nothing is read then.
            if error.errno != errno.EIO:
                raise
            return False
        self._bytes += read
        return bool(read)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(DEADLINE_S)
        os.close(self._master)


class Session:
    """One Python that runs one program after another, with the names of those before."""

    LOOP = """
import contextlib, io, json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    printed, problem = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(json.loads(line), "page", "exec"), names)
        except BaseException:
            problem = traceback.format_exc()
    print(json.dumps([printed.getvalue(), problem]), flush=True)
"""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        self._environment = environment

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.LOOP],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def run(self, code: str) -> tuple[str, str]:
        """What it printed, and what was wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise PageError(f"Python has ended with {self._process.wait(DEADLINE_S)}")
        printed, problem = json.loads(answer)
        return printed, problem

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate(timeout=DEADLINE_S)


def _like_a_clone(directory: Path) -> None:
    """All that is kept in the repository, as links, and its environment: what is written stays out of it."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split(
        "\n"
    )
    for name in {line.split("/")[0] for line in listed if line}:
        target = directory / name
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.symlink_to(ROOT / name)
    (directory / ".venv").symlink_to(Path(sys.prefix))
