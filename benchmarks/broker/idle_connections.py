"""Connections that have introduced themselves and say nothing more."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
from collections.abc import Iterator

# ApiVersions v0, correlation id 1, client id "idle".
_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, 4) + b"idle"
_ANSWER_BYTES_MAX = 1 << 16
# Of our own files and sockets, besides.
_SPARE_FILES = 200
TIMEOUT_S = 20.0


class TooFewFilesError(Exception):
    """The system lets this process open fewer files than it needs."""


def raise_open_files_limit(needed: int) -> None:
    """For this process and those that it starts from here on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed + _SPARE_FILES:
        raise TooFewFilesError(f"{needed} open files are needed, and the system allows {hard}: raise `ulimit -n`")
    if soft != resource.RLIM_INFINITY and soft < needed + _SPARE_FILES:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (needed + _SPARE_FILES if hard == resource.RLIM_INFINITY else hard, hard)
        )


@contextlib.contextmanager
def idle_connections(port: int, count: int) -> Iterator[None]:
    """So many connections, each of which has been answered once."""
    with contextlib.ExitStack() as opened:
        for _ in range(count):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))
            connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
            _read_answer(connection)
        yield


def _read_answer(connection: socket.socket) -> None:
    size = int.from_bytes(_read_exactly(connection, 4), "big")
    if not 6 <= size <= _ANSWER_BYTES_MAX:
        raise ConnectionError(f"an ApiVersions answer of {size} bytes")
    correlation_id, error = struct.unpack_from(">ih", _read_exactly(connection, size))
    if (correlation_id, error) != (1, 0):
        raise ConnectionError(f"ApiVersions was answered with error {error}")


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = connection.recv(count)
        if not part:
            raise ConnectionError("the broker closed an idle connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
