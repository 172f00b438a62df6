"""What compiled code relies on is looked at where it enters: each invariant fires, and none of them ends a connection quietly."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.support.net import Recorder
from tidelog.model.bugs import BugError
from tidelog.net.address import Address
from tidelog.net.backlog import Backlog
from tidelog.net.connection import AnswerSlot, Connection
from tidelog.net.frames import SIZE, FrameReader
from tidelog.net.limits import BacklogLimits, ConnectionLimits
from tidelog.net.output_queue import OutputQueue
from tidelog.net.parts import SENDFILE_BYTES_MIN, Bytes, Part
from tidelog.net.receive_buffers import ReceiveBuffers
from tidelog.net.turn import Turn
from tidelog.simulation.loop import VirtualTimeLoop


class BoastfulChannel:
    """Says that it took more than it was given."""

    sends_files = True

    def __init__(self, more: int = 1, more_of_files: int = 0) -> None:
        self._more = more
        self._more_of_files = more_of_files

    def send(self, data: Bytes, *, more_follows: bool) -> int:
        return len(data) + self._more

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        return count + self._more_of_files


class EmptyRegion:
    """A region of a file that nobody reads."""

    position = 0
    count = SENDFILE_BYTES_MIN

    @property
    def file(self) -> EmptyRegion:
        return self

    def fileno(self) -> int:
        return 99

    def pread(self, count: int, position: int, /) -> bytes:
        return bytes(count)


class MemoryTransport:
    """A transport without a socket."""

    def __init__(self) -> None:
        self.written = b""

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 9) if name.endswith("name") else None

    def write(self, data: bytes) -> None:
        self.written += data


@pytest.fixture
def connection() -> Connection:
    loop, turn = VirtualTimeLoop(), Turn()
    made = Connection(
        loop,
        Recorder(),
        ConnectionLimits(),
        ReceiveBuffers(),
        turn,
        Backlog(loop, turn, lambda: 0, BacklogLimits()),
        listener_name="CLIENTS",
        connection_id=1,
        peer_address=Address("127.0.0.1", 9),
        on_closed=lambda _: None,
    )
    made.connection_made(cast("asyncio.BaseTransport", MemoryTransport()))
    return made


@pytest.mark.parametrize("count", [-1, 1025, 1 << 40])
def test_no_more_is_received_than_there_was_room_for(count: int) -> None:
    reader = FrameReader(ReceiveBuffers(1024), 1000)

    with pytest.raises(BugError, match="room for 1024"):
        reader.received(count)


def test_the_room_of_a_connection_in_the_middle_of_a_frame_is_known_too() -> None:
    reader = FrameReader(ReceiveBuffers(1024), 1 << 20)
    start = SIZE.pack(5000) + bytes(600)
    reader.buffer()[: len(start)] = start
    reader.received(len(start))
    assert reader.take() is None
    reader.settle()
    room = len(reader.buffer())
    assert room == reader.held_bytes - len(start)

    with pytest.raises(BugError, match=f"room for {room}"):
        reader.received(room + 1)
    reader.received(room)


def test_what_was_put_aside_leaves_no_room() -> None:
    reader = FrameReader(ReceiveBuffers(1024), 1000)
    frames = (SIZE.pack(3) + b"abc") * 10
    reader.buffer()[: len(frames)] = frames
    reader.received(len(frames))
    reader.take()
    reader.put_aside()

    with pytest.raises(BugError, match="room for 0"):
        reader.received(1)


@pytest.mark.parametrize("parts", [[b"one"], [b"one", bytes(70_000), b"three"]])
def test_a_channel_takes_no_more_than_it_was_given(parts: list[Part]) -> None:
    queue = OutputQueue(BoastfulChannel())
    queue.push(parts)

    with pytest.raises(BugError, match="bytes were sent of"):
        queue.flush()


def test_nor_more_of_a_file() -> None:
    queue = OutputQueue(BoastfulChannel(more=0, more_of_files=1))
    queue.push([EmptyRegion()])

    with pytest.raises(BugError, match="bytes were sent of a region"):
        queue.flush()


@pytest.mark.parametrize("others", [[], [bytes(70_000)]])
def test_a_frame_has_as_many_bytes_as_its_size_says(others: list[Part]) -> None:
    queue = OutputQueue(BoastfulChannel(more=0))
    part = bytearray(b"ab")
    queue.push([part, *others])
    part += b"c"

    with pytest.raises(BugError, match=r"bytes are to be sent|is left to send"):
        queue.flush()


def test_a_frame_that_lost_bytes_is_noticed_as_well() -> None:
    queue = OutputQueue(BoastfulChannel(more=0))
    part = bytearray(b"ab")
    queue.push([bytes(70_000), part])
    del part[:]

    with pytest.raises(BugError, match="nothing is left to send"):
        queue.flush()


def test_a_turn_that_has_not_begun_does_not_end() -> None:
    turn = Turn()
    with pytest.raises(BugError, match="has not begun"):
        turn.__exit__(None, None, None)


def test_a_request_is_answered_once(connection: Connection) -> None:
    slot = connection.expect_answer()
    slot.send([b"answer"])

    with pytest.raises(BugError, match="answered twice"):
        slot.send([b"another"])


def test_an_answer_has_its_place_among_the_others(connection: Connection) -> None:
    stray = AnswerSlot(connection)

    with pytest.raises(BugError, match="no place"):
        stray.send([b"answer"])


def test_answers_leave_as_they_were_counted(connection: Connection) -> None:
    first, second = connection.expect_answer(), connection.expect_answer()
    parts: list[Part] = [b"second"]
    second.send(parts)
    parts.append(b"changed afterwards")

    with pytest.raises(BugError, match="0 answers wait"):
        first.send([b"first"])
