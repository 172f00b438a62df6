"""Clients that are a burden to others. A process of its own; it says `attacking` when all its connections are there, and begins.

python -m benchmarks.fairness.attack PORT SECONDS pipeline CONNECTIONS REQUESTS
python -m benchmarks.fairness.attack PORT SECONDS metadata CONNECTIONS
python -m benchmarks.fairness.attack PORT SECONDS consumers CONNECTIONS TOPIC PARTITIONS

    pipeline     each sends so many small requests at once, reads all the answers, and begins again
    metadata     each sends Metadata as fast as its socket takes it, and never reads
    consumers    each fetches from the start of a partition, 10 requests in a row, and never reads

At the end it just goes, and its sockets with it.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import time
from collections.abc import Sequence

from benchmarks.fairness.requests import api_versions, fetch, metadata

CONNECT_TIMEOUT_S = 60.0
FETCHES = 10
FETCH_BYTES_MAX = 1024 * 1024
METADATA_AT_ONCE = 1000


class Pipelining:
    """One connection that keeps so many requests in flight: all sent, all answered, and again."""

    def __init__(self, connection: socket.socket, requests: int) -> None:
        self._connection = connection
        # An ApiVersions answer is as long as the one before it: the first says what to wait for.
        connection.sendall(api_versions(0))
        answer_bytes = 4 + int.from_bytes(_exactly(connection, 4), "big")
        _exactly(connection, answer_bytes - 4)
        connection.setblocking(False)
        self._burst = memoryview(b"".join(api_versions(number) for number in range(requests)))
        self._answers_bytes = requests * answer_bytes
        self._unsent = self._burst
        self._unread_bytes = self._answers_bytes

    def go_on(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                self._unsent = self._unsent[self._connection.send(self._unsent) :]
        with contextlib.suppress(BlockingIOError):
            while self._unread_bytes:
                read = len(self._connection.recv(1 << 20))
                if not read:
                    sys.exit("the broker closed the connection")
                self._unread_bytes -= read
        if not self._unsent and not self._unread_bytes:
            self._unsent = self._burst
            self._unread_bytes = self._answers_bytes

    @property
    def events(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)


def main() -> None:
    port, seconds, kind = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    count, further = int(sys.argv[4]), sys.argv[5:]
    connections = [socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S) for _ in range(count)]
    pipelining = [Pipelining(each, int(further[0])) for each in connections] if kind == "pipeline" else []
    print("attacking", flush=True)
    end_s = time.monotonic() + seconds
    if pipelining:
        _pipeline(connections, pipelining, end_s)
    elif kind == "metadata":
        requests = b"".join(metadata(number, None) for number in range(METADATA_AT_ONCE))
        _send_for_ever(connections, requests, end_s)
    else:
        topic, partitions = further[0], int(further[1])
        for number, each in enumerate(connections):
            each.sendall(b"".join(fetch(at, topic, number % partitions, FETCH_BYTES_MAX) for at in range(FETCHES)))
        time.sleep(max(0.0, end_s - time.monotonic()))


def _pipeline(connections: Sequence[socket.socket], pipelining: Sequence[Pipelining], end_s: float) -> None:
    with selectors.DefaultSelector() as selector:
        for connection, each in zip(connections, pipelining, strict=True):
            selector.register(connection, each.events, each)
        while (left_s := end_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                key.data.go_on()
                if key.events != key.data.events:
                    selector.modify(key.fileobj, key.data.events, key.data)


def _send_for_ever(connections: Sequence[socket.socket], requests: bytes, end_s: float) -> None:
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_WRITE, memoryview(requests))
        while (left_s := end_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                connection = key.fileobj  # type: ignore[assignment] # a socket was registered
                with contextlib.suppress(BlockingIOError):
                    # Whole requests, whatever the socket takes: the rest is next.
                    rest = key.data[connection.send(key.data) :]
                    selector.modify(connection, selectors.EVENT_WRITE, rest if len(rest) else memoryview(requests))


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            sys.exit("the broker closed the connection")
        data += piece
    return data


if __name__ == "__main__":
    main()
