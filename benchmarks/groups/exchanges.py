"""Requests and their answers, made once and then replayed by a C program as often as a row wants them.

    with Connections(port, 50) as connections:
        exchanges = connections.ask_all([Asked(0, request, 4), ...])       each answer is read, and looked at by whoever asked
    replayer.run(port, by_connection(exchanges), count=50_000, rate_per_s=3_000, depth=1)

What a broker says to a heartbeat or a commit does not change from one to the next, so the program needs no codec: it patches
correlation ids and compares bytes. Nothing but the broker has to be fast then.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from benchmarks.broker.load_client import LoadError, cache_directory
from tidelog.wire.frames import read_response, request_frame
from tidelog.wire.schema import Request, Response

CLIENT_ID = "bench"
TIMEOUT_S = 60.0
RUN_TIMEOUT_S = 180.0
_SIZE = struct.Struct(">i")
_SOURCE = Path(__file__).parent / "replay.c"


class Asked(NamedTuple):
    """What is asked, and over which connection."""

    connection: int
    request: Request
    version: int


class Exchange(NamedTuple):
    """A request as it was sent, with its size, and the answer as it came, without."""

    connection: int
    sent: bytes
    received: bytes
    response: Response


class Connections:
    """So many connections to a broker, numbered from 0."""

    def __init__(self, port: int, count: int) -> None:
        self._opened = contextlib.ExitStack()
        self._sockets = [
            self._opened.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT_S)) for _ in range(count)
        ]
        for each in self._sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._files = [self._opened.enter_context(each.makefile("rb")) for each in self._sockets]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def ask_all(self, asked: Sequence[Asked]) -> list[Exchange]:
        """Sends everything, then reads all answers, which come in the order of the questions on each connection."""
        frames = [request_frame(each.request, each.version, 0, CLIENT_ID) for each in asked]
        waiting: dict[int, list[bytes]] = {}
        for each, frame in zip(asked, frames, strict=True):
            waiting.setdefault(each.connection, []).append(frame)
        for connection, sent in waiting.items():
            self._sockets[connection].sendall(b"".join(sent))
        exchanges = []
        for each, frame in zip(asked, frames, strict=True):
            received = self._read(each.connection)
            _, response = read_response(received, each.request.api_key, each.version)
            exchanges.append(Exchange(each.connection, frame, received, response))
        return exchanges

    def _read(self, connection: int) -> bytes:
        file = self._files[connection]
        head = file.read(_SIZE.size)
        received = file.read(_SIZE.unpack(head)[0]) if len(head) == _SIZE.size else b""
        if not received:
            raise LoadError("the broker closed a connection")
        return received


@dataclass(frozen=True)
class Replayed:
    """What the program says about itself."""

    requests: int
    seconds: float
    client_cpu_s: float


class Replayer:
    """The C program, compiled when it is first used and kept under a digest of its source."""

    def __init__(self, program: Path) -> None:
        self._program = program

    @classmethod
    def built(cls) -> Replayer:
        """LoadError where there is no compiler."""
        program = cache_directory() / f"replay-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}"
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            # Under another name first: an interrupted compiler must not leave a program.
            fresh = program.with_suffix(f".{os.getpid()}")
            try:
                done = subprocess.run(
                    ["cc", "-O2", "-o", str(fresh), str(_SOURCE)], capture_output=True, text=True, check=False
                )
            except FileNotFoundError:
                raise LoadError("`cc` is missing: install a C compiler (Debian: gcc and libc6-dev)") from None
            if done.returncode != 0:
                raise LoadError(f"the replayer does not compile: {done.stderr[-2000:]}")
            fresh.replace(program)
        return cls(program)

    def run(self, port: int, exchanges: Iterable[Exchange], *, count: int, rate_per_s: int, depth: int) -> Replayed:
        """Sends the requests in turn until `count` are answered. LoadError where an answer differs from the one given."""
        with tempfile.NamedTemporaryFile(prefix="tidelog-bench-") as file:
            file.write(_packed(exchanges))
            file.flush()
            arguments = (str(port), file.name, str(count), str(rate_per_s), str(depth))
            try:
                done = subprocess.run(
                    [str(self._program), *arguments],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=RUN_TIMEOUT_S,
                )
            except subprocess.TimeoutExpired:
                raise LoadError(f"a replay did not end within {RUN_TIMEOUT_S:.0f} s") from None
        if done.returncode != 0:
            raise LoadError(f"a replay failed: {done.stderr.strip()}")
        return Replayed(**json.loads(done.stdout))


def _packed(exchanges: Iterable[Exchange]) -> bytes:
    by_connection: dict[int, list[Exchange]] = {}
    for each in exchanges:
        by_connection.setdefault(each.connection, []).append(each)
    parts = [_SIZE.pack(len(by_connection))]
    for _, own in sorted(by_connection.items()):
        parts.append(_SIZE.pack(len(own)))
        for each in own:
            parts += (_SIZE.pack(len(each.sent)), each.sent, _SIZE.pack(len(each.received)), each.received)
    return b"".join(parts)
