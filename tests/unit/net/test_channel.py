"""Sending files that are not in memory: the loop goes on while a thread reads them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support.kernel_twins import TWINS
from tests.support.net_twins import net_modules
from tidelog.kernel_choice import Twin
from tidelog.net import channel as channels
from tidelog.net.channel import WARMED_BYTES_MAX, SocketChannel
from tidelog.net.output_queue import WOULD_BLOCK

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


class WatchingLoop:
    """Only notes which descriptors are watched."""

    def __init__(self) -> None:
        self.writers: dict[int, Callable[[], None]] = {}

    def add_writer(self, descriptor: int, callback: Callable[[], None]) -> None:
        self.writers[descriptor] = callback

    def remove_writer(self, descriptor: int) -> None:
        del self.writers[descriptor]


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

    monkeypatch.setattr(channels, "_is_warm", is_warm)
    return asked


def make(loop: object, sock: socket.socket, work: LaterWork) -> SocketChannel:
    return SocketChannel(loop, sock, work)  # type: ignore[arg-type]


def test_a_cold_file_is_read_ahead_while_the_channel_blocks(
    pair: tuple[socket.socket, socket.socket], descriptor: int, cold: list[int]
) -> None:
    loop, work = WatchingLoop(), LaterWork()
    channel = make(loop, pair[0], work)
    told: list[str] = []

    assert channel.send_file(descriptor, 0, 2 * WARMED_BYTES_MAX) == WOULD_BLOCK
    channel.watch(lambda: told.append("writable"))
    # Waiting for the socket would spin: it takes bytes, only there are none.
    assert loop.writers == {}
    assert channel.send_file(descriptor, 0, 2 * WARMED_BYTES_MAX) == WOULD_BLOCK
    assert len(work.waiting) == 1

    work.do_all()

    assert list(loop.writers) == [pair[0].fileno()]
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
    loop, work = WatchingLoop(), LaterWork()
    channel = make(loop, pair[0], work)
    channel.send_file(descriptor, 0, 100_000)
    channel.watch(lambda: None)
    channel.close()

    work.do_all()

    assert loop.writers == {}


def test_a_warm_file_is_sent_at_once(pair: tuple[socket.socket, socket.socket], descriptor: int) -> None:
    work = LaterWork()
    channel = make(WatchingLoop(), pair[0], work)
    os.pread(descriptor, 100_000, 0)
    assert channel.send_file(descriptor, 0, 50_000) == 50_000
    assert work.waiting == []
    assert len(pair[1].recv(100_000)) > 0


def test_a_file_that_ends_early_takes_nothing(pair: tuple[socket.socket, socket.socket], descriptor: int) -> None:
    channel = make(WatchingLoop(), pair[0], LaterWork())
    assert channel.send_file(descriptor, 3 * WARMED_BYTES_MAX, 100) == 0


@pytest.mark.parametrize("twin", TWINS)
def test_bytes_are_taken_as_far_as_the_socket_has_room(twin: Twin, pair: tuple[socket.socket, socket.socket]) -> None:
    modules = net_modules(twin)
    channel = modules["channel"].SocketChannel(WatchingLoop(), pair[0])
    queue = modules["output_queue"].OutputQueue(channel)
    content = bytes(range(256)) * 40_000

    assert channel.send(b"head", more_follows=True) == 4
    queue.push_frames(content)
    assert not queue.flush()
    received = bytearray()
    while not queue.flush() or len(received) < 4 + len(content):
        assert queue.pending_bytes + queue.sent_bytes == len(content)
        received += pair[1].recv(1 << 20)

    assert received == b"head" + content
    pair[1].close()
    with pytest.raises(OSError, match="Broken pipe"):
        channel.send(b"tail", more_follows=False)


@pytest.mark.parametrize("twin", TWINS)
def test_a_closed_channel_sends_nothing_to_who_has_its_number_now(
    twin: Twin, pair: tuple[socket.socket, socket.socket], descriptor: int
) -> None:
    own = pair[0].dup()
    number = own.fileno()
    channel = net_modules(twin)["channel"].SocketChannel(WatchingLoop(), own)
    channel.close()
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
