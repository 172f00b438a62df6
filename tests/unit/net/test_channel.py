"""Sending files that are not in memory: the loop goes on while a thread reads them."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tidelog.net import page_cache
from tidelog.net.output_queue import OutputQueue
from tidelog.net.parts import WOULD_BLOCK
from tidelog.net.socket_channel import HANDED_OVER_BYTES_MAX, WARMED_BYTES_MAX, SocketChannel

T = TypeVar("T")


class LaterWork:
    """Does what was submitted when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], T], then: Callable[[T | BaseException], None] | None = None) -> None:
        def run() -> None:
            outcome = work()
            if then is not None:
                then(outcome)

        self.waiting.append(run)

    def do_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


class LaterLoop:
    """Calls what is to be called soon when the test says so."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def go_round(self) -> None:
        soon, self.soon = self.soon, []
        for each in soon:
            each()


class SocketTransport:
    """Keeps what is written until the test sends it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.waiting = b""

    def get_extra_info(self, name: str) -> socket.socket:
        assert name == "socket"
        return self._socket

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def write(self, data: bytes) -> None:
        self.waiting += data

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)

    def send(self, channel: SocketChannel) -> None:
        """The socket takes bytes again, as far as it does."""
        self.waiting = self.waiting[self._socket.send(self.waiting) :]
        if not self.waiting:
            channel.resume()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        yield near, far


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "log").write_bytes(bytes(3 * WARMED_BYTES_MAX))
    opened = os.open(tmp_path / "log", os.O_RDONLY)
    yield opened
    os.close(opened)


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions that were looked at; all of them are cold."""
    asked: list[int] = []

    def is_warm(_descriptor: int, position: int) -> bool:
        asked.append(position)
        return False

    monkeypatch.setattr(page_cache, "is_warm", is_warm)
    return asked


def make(loop: object, sock: socket.socket, work: LaterWork) -> SocketChannel:
    return SocketChannel(loop, SocketTransport(sock), work)  # type: ignore[arg-type]


def test_a_cold_file_is_read_ahead_while_the_channel_blocks(
    pair: tuple[socket.socket, socket.socket], descriptor: int, cold: list[int]
) -> None:
    loop, work = LaterLoop(), LaterWork()
    channel = make(loop, pair[0], work)
    told: list[str] = []

    assert channel.send_file(descriptor, 0, 2 * WARMED_BYTES_MAX) == WOULD_BLOCK
    channel.watch(lambda: told.append("writable"))
    # To be told at once would spin: the socket takes bytes, only there are none.
    assert loop.soon == []
    assert channel.send_file(descriptor, 0, 2 * WARMED_BYTES_MAX) == WOULD_BLOCK
    assert len(work.waiting) == 1

    work.do_all()

    loop.go_round()
    assert told == ["writable"]
    sent = channel.send_file(descriptor, 0, 2 * WARMED_BYTES_MAX)
    assert 0 < sent <= WARMED_BYTES_MAX
    # What was read ahead is not looked at again; what lies behind it is.
    assert cold == [0]
    assert channel.send_file(descriptor, WARMED_BYTES_MAX, 100_000) == WOULD_BLOCK
    assert cold == [0, WARMED_BYTES_MAX]
    channel.unwatch()


def test_a_channel_that_closes_while_a_file_is_read_hears_no_more(
    pair: tuple[socket.socket, socket.socket], descriptor: int, cold: list[int]
) -> None:
    loop, work = LaterLoop(), LaterWork()
    channel = make(loop, pair[0], work)
    channel.send_file(descriptor, 0, 100_000)
    channel.watch(lambda: None)
    channel.close()

    work.do_all()

    assert loop.soon == []


def test_a_warm_file_is_sent_at_once(pair: tuple[socket.socket, socket.socket], descriptor: int) -> None:
    work = LaterWork()
    channel = make(LaterLoop(), pair[0], work)
    os.pread(descriptor, 100_000, 0)
    assert channel.send_file(descriptor, 0, 50_000) == 50_000
    assert work.waiting == []
    assert len(pair[1].recv(100_000)) > 0


def test_a_file_that_ends_early_takes_nothing(pair: tuple[socket.socket, socket.socket], descriptor: int) -> None:
    channel = make(LaterLoop(), pair[0], LaterWork())
    assert channel.send_file(descriptor, 3 * WARMED_BYTES_MAX, 100) == 0


def test_what_the_socket_does_not_take_the_transport_waits_with_and_nothing_overtakes_it(
    pair: tuple[socket.socket, socket.socket], descriptor: int
) -> None:
    transport, loop = SocketTransport(pair[0]), LaterLoop()
    channel = SocketChannel(loop, transport)  # type: ignore[arg-type]
    queue = OutputQueue(channel)
    content = bytes(range(256)) * 40_000
    told: list[str] = []

    assert channel.send(b"head", more_follows=True) == 4
    queue.push_frames(content)
    assert not queue.flush()
    assert queue.is_blocked
    assert 0 < len(transport.waiting) <= HANDED_OVER_BYTES_MAX
    channel.watch(lambda: told.append("writable"))
    # There may be room in the socket by now; who writes next must not use it before the transport has.
    received = bytearray(pair[1].recv(1 << 20))
    assert channel.send(b"too early", more_follows=False) == WOULD_BLOCK
    assert channel.send_file(descriptor, 0, 10) == WOULD_BLOCK
    assert (loop.soon, told) == ([], [])

    transport.send(channel)
    loop.go_round()
    assert told == ["writable"]
    while not queue.flush() or transport.waiting or len(received) < 4 + len(content):
        assert queue.pending_bytes + queue.sent_bytes == len(content)
        received += pair[1].recv(1 << 20)
        if transport.waiting:
            transport.send(channel)

    assert received == b"head" + content
    pair[1].close()
    with pytest.raises(OSError, match="Broken pipe"):
        channel.send(b"tail", more_follows=False)


def test_a_piece_of_a_file_is_read_for_a_socket_that_takes_nothing(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    content = bytes(range(251)) * 4000
    (tmp_path / "log").write_bytes(content)
    transport = SocketTransport(pair[0])
    channel = SocketChannel(LaterLoop(), transport)  # type: ignore[arg-type]
    filled = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            filled += pair[0].send(bytes(1 << 20))

    with (tmp_path / "log").open("rb") as file:
        sent = channel.send_file(file.fileno(), 1000, len(content) - 1000)

    assert transport.waiting == content[1000 : 1000 + sent]
    assert 0 < sent <= HANDED_OVER_BYTES_MAX
    assert channel.is_held


def test_a_closed_channel_sends_nothing_to_who_has_its_number_now(
    pair: tuple[socket.socket, socket.socket], descriptor: int
) -> None:
    number = pair[0].fileno()
    channel = SocketChannel(LaterLoop(), SocketTransport(pair[0]))  # type: ignore[arg-type]
    channel.close()
    pair[0].close()
    heir, other = socket.socketpair()
    taken = heir if heir.fileno() == number else other
    assert taken.fileno() == number

    with pytest.raises(OSError, match="Bad file descriptor"):
        channel.send(b"lost", more_follows=False)
    with pytest.raises(OSError, match="Bad file descriptor"):
        channel.send_file(descriptor, 0, 10)

    for each in (heir, other):
        each.setblocking(False)
        with pytest.raises(BlockingIOError):
            each.recv(100)
    heir.close()
    other.close()
