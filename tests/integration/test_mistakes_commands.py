"""Mistakes on the command line, made on purpose: each is one sentence, promptly, with an exit code that is not 0."""

from __future__ import annotations

import errno
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cluster_processes import free_ports
from tests.support.command_process import CommandProcess, run

# Generous: these take a fraction of a second, and the worst of them once took a minute or never ended.
PROMPT_S = 10.0

DECIDED_BY_UP = (
    "node.id, broker.id, process.roles, listeners, listener.security.protocol.map, inter.broker.listener.name, "
    "controller.listener.names, controller.quorum.bootstrap.servers, controller.quorum.voters"
)


@dataclass(frozen=True)
class Mistake:
    """What is typed, and what it gets. `{dir}` is an empty directory, `{file}` a file."""

    typed: str
    sentence: str
    code: int = 2


MISTAKES = [
    Mistake("up --port 0 --dir {file}", "tidelog up: {file} is a file, no directory: choose another one with --dir"),
    Mistake(
        "up --port 0 --dir {file}/x/y", "tidelog up: {file} is a file, no directory: choose another one with --dir"
    ),
    *[
        Mistake(
            f"up --port 0 --set {setting}",
            f"tidelog up: {setting.partition('=')[0]} cannot be set here: `tidelog up` decides {DECIDED_BY_UP} itself, "
            "and `tidelog broker --config FILE` takes all of them",
        )
        for setting in (
            "listeners=PLAINTEXT://127.0.0.1:9999",
            "node.id=5",
            "process.roles=broker",
            "inter.broker.listener.name=FOO",
            "controller.quorum.voters=1@localhost:9093",
        )
    ],
    Mistake(
        "up --nodes 2 --port 0 --set log.dirs=/nowhere",
        "tidelog up: log.dirs cannot be set for several nodes, which do not share it: each is given its own",
    ),
    Mistake("verify {dir}/nowhere", "tidelog verify: {dir}/nowhere does not exist"),
    Mistake(
        "verify {dir}",
        "tidelog verify: {dir} holds no data directory: meta.properties or partitions are neither in it nor up to 2 "
        "directories below",
    ),
    Mistake("verify {file}", "tidelog verify: {file} is no file of a data directory"),
    Mistake(
        "dump-log {dir}",
        "tidelog dump-log: {dir} holds no data directory: meta.properties or partitions are neither in it nor up to 2 "
        "directories below",
    ),
    Mistake(
        "dump-log {file}",
        "tidelog dump-log: cannot dump {file}: its name is none that Kafka gives to a file in a data directory, such as "
        "00000000000000000000.log",
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.typed)
def test_a_mistake_is_one_sentence(mistake: Mistake, tmp_path: Path) -> None:
    names = {"dir": str(tmp_path / "dir"), "file": str(tmp_path / "file")}
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("hello")
    began_s = time.monotonic()

    result = run(*[each.format(**names) for each in mistake.typed.split()])

    assert (result.returncode, result.stdout) == (mistake.code, "")
    assert result.stderr == mistake.sentence.format(**names) + "\n"
    assert time.monotonic() - began_s < PROMPT_S


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, "may not be listened on by this user (the system keeps the lowest ports for root)"),
        (errno.EADDRINUSE, "is in use"),
        (errno.EADDRNOTAVAIL, "cannot be listened on (Cannot assign requested address)"),
    ],
)
def test_a_port_that_cannot_be_had_is_told_apart(number: int, reason: str) -> None:
    # Containers may let everybody have low ports, so the system's answer is given here.
    script = (
        "import os, socket, sys\n"
        "def bind(self, address):\n"
        f"    raise OSError({number}, os.strerror({number}))\n"
        "socket.socket.bind = bind\n"
        "from tidelog.cli.main import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, "up", "--port", "80"], capture_output=True, text=True, check=False, timeout=60
    )

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"tidelog up: port 80 {reason}: choose another one with --port, or --port 0 for any\n"


def test_a_directory_that_cannot_be_made_is_a_sentence() -> None:
    result = run("up", "--port", "0", "--dir", "/proc/tidelog")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("tidelog up: /proc/tidelog cannot be made: ")
    assert result.stderr.endswith("; choose another one with --dir\n")


def test_an_empty_directory_is_not_a_temporary_one() -> None:
    result = run("up", "--port", "0", "--dir", "")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "tidelog up: --dir is empty: name a directory, or leave --dir out for a temporary one\n"


def http(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PROMPT_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1) == b""


def tls(port: int) -> None:
    context = ssl.create_default_context()
    with socket.create_connection(("127.0.0.1", port), timeout=PROMPT_S) as connection, suppress(ssl.SSLError, OSError):
        context.wrap_socket(connection, server_hostname="localhost")


def garbage(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PROMPT_S) as connection:
        connection.sendall(b"\xff\xff\xff\xff")
        assert connection.recv(1) == b""


def test_a_node_says_what_it_was_sent_instead_of_a_request() -> None:
    (port,) = free_ports(1)
    spoken: dict[Callable[[int], None], str] = {
        http: "the peer sent an HTTP request, where a frame of the Kafka protocol was to come",
        tls: "the peer sent the start of a TLS connection (is security.protocol=SSL set for a listener without TLS?), "
        "where a frame of the Kafka protocol was to come",
        garbage: "the peer sent a frame of -1 bytes, where 0 to 104857600 are allowed",
    }
    with CommandProcess("up", "--port", str(port)) as up:
        up.ready_line()
        for speak in spoken:
            speak(port)
        up.process.terminate()
        code, errors = up.end()

    assert code == 0
    assert [line.partition(": closed: ")[2] for line in errors.splitlines()] == list(spoken.values())
