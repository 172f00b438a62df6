"""Sending files that are not in memory: the loop goes on while a thread reads them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tidelog.net import page_cache
from tidelog.net.file_warmth import WARMED_BYTES_MAX
from tidelog.net.output_queue import OutputQueue
from tidelog.net.parts import WOULD_BLOCK
from tidelog.net.socket_channel import SocketChannel
from tidelog.net.writable_sockets import WritableSockets, writable_sockets

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
    """Looks for sockets that take bytes when the test says so."""

    def __init__(self) -> None:
        self._told: list[Callable[[], None]] = []

    def add_reader(self, _descriptor: int, callback: Callable[[], None]) -> None:
        self._told.append(callback)

    def go_round(self) -> None:
        for each in self._told:
            each()


class SocketTransport:
    """Nothing may be written through it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def get_extra_info(self, name: str) -> socket.socket:
        assert name == "socket"
        return self._socket


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
    loop.go_round()
    assert told == []
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
    told: list[str] = []
    channel.watch(lambda: told.append("writable"))
    channel.close()

    work.do_all()

    loop.go_round()
    assert told == []


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


def test_what_the_socket_does_not_take_is_sent_when_it_takes_bytes_again(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    loop = LaterLoop()
    channel = SocketChannel(loop, SocketTransport(pair[0]))  # type: ignore[arg-type]
    queue = OutputQueue(channel)
    content = bytes(range(256)) * 40_000
    told: list[str] = []

    assert channel.send(b"head", more_follows=True) == 4
    queue.push_frames(content)
    assert not queue.flush()
    assert queue.is_blocked
    channel.watch(lambda: told.append("writable"))
    channel.watch(lambda: told.append("writable"))
    loop.go_round()
    assert told == []

    received = bytearray()
    while not queue.flush() or len(received) < 4 + len(content):
        assert queue.pending_bytes + queue.sent_bytes == len(content)
        received += pair[1].recv(1 << 20)
    loop.go_round()
    assert told == ["writable"]
    channel.unwatch()
    loop.go_round()
    assert told == ["writable"]

    assert received == b"head" + content
    pair[1].close()
    with pytest.raises(OSError, match="Broken pipe"):
        channel.send(b"tail", more_follows=False)


def test_a_file_waits_for_a_socket_that_takes_nothing(
    pair: tuple[socket.socket, socket.socket], descriptor: int
) -> None:
    channel = SocketChannel(LaterLoop(), SocketTransport(pair[0]))  # type: ignore[arg-type]
    with contextlib.suppress(BlockingIOError):
        while True:
            pair[0].send(bytes(1 << 20))

    assert channel.send_file(descriptor, 1000, 100_000) == WOULD_BLOCK


def test_a_socket_that_breaks_while_it_is_waited_for_is_told_of(pair: tuple[socket.socket, socket.socket]) -> None:
    loop, told = LaterLoop(), list[str]()
    channel = SocketChannel(loop, SocketTransport(pair[0]))  # type: ignore[arg-type]
    while channel.send(bytes(1 << 20), more_follows=False) != WOULD_BLOCK:
        pass
    channel.watch(lambda: told.append("writable"))
    pair[1].close()

    loop.go_round()

    assert told == ["writable"]
    channel.close()


def test_a_channel_that_another_one_closes_in_the_same_round_hears_no_more() -> None:
    loop, told = LaterLoop(), list[int]()
    with contextlib.ExitStack() as open_sockets:
        channels: list[SocketChannel] = []
        for _ in range(2):
            near, far = socket.socketpair()
            open_sockets.enter_context(far)
            channels.append(SocketChannel(loop, SocketTransport(open_sockets.enter_context(near))))  # type: ignore[arg-type]

        def writable(number: int) -> None:
            told.append(number)
            for each in channels:
                each.close()

        channels[0].watch(lambda: writable(0))
        channels[1].watch(lambda: writable(1))
        loop.go_round()

    assert len(told) == 1


def test_a_loop_has_one_selector_that_ends_with_it() -> None:
    loop = asyncio.new_event_loop()
    sockets = writable_sockets(loop)
    assert writable_sockets(loop) is sockets
    number = sockets.descriptor()
    os.fstat(number)
    loop.close()
    del loop
    gc.collect()

    with pytest.raises(ValueError, match="closed"):
        sockets.descriptor()
    assert isinstance(sockets, WritableSockets)


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
