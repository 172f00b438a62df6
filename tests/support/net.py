"""What the tests of connections share: a handler that records, and a client of raw frames."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from tidelog.net.connection import AnswerSlot, Connection
from tidelog.net.parts import Part

Respond = Callable[[bytes], Sequence[Part]]

# Far beyond anything that passes; a test that gets here has failed.
DEADLINE_S = 20.0


class Recorder:
    """Answers every frame at once with `respond`, unless `hold` is set: then it leaves the slots to the test."""

    def __init__(self, respond: Respond | None = None, *, hold: bool = False) -> None:
        self.respond = respond or (lambda frame: [frame])
        self.hold = hold
        self.frames: list[bytes] = []
        self.slots: list[AnswerSlot] = []
        self.reads = 0
        self.unfinished = 0
        self.connections: list[Connection] = []
        self.closed: list[Connection] = []
        self.changed = asyncio.Event()

    def connection_opened(self, connection: Connection) -> None:
        self.connections.append(connection)
        self.changed.set()

    def frame(self, connection: Connection, frame: memoryview) -> None:
        request = bytes(frame)
        self.frames.append(request)
        self.unfinished += 1
        self.changed.set()
        if request.startswith(b"fail"):
            raise ValueError(request.decode())
        if request.startswith(b"silent"):
            return
        slot = connection.expect_answer()
        if request.startswith(b"close"):
            slot.close_connection()
        elif self.hold:
            self.slots.append(slot)
        else:
            slot.send(self.respond(request))

    def frames_done(self, connection: Connection) -> None:
        self.reads += 1
        self.unfinished = 0

    def connection_closed(self, connection: Connection) -> None:
        self.closed.append(connection)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something that this handler hears of has come about."""
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


class RawClient:
    """Frames over asyncio's own streams: no code of ours."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, host: str, port: int) -> RawClient:
        async with asyncio.timeout(DEADLINE_S):
            return cls(*await asyncio.open_connection(host, port))

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(framed(frame) for frame in frames))

    async def receive(self) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def receive_end(self) -> bytes:
        """Whatever still comes before the peer closes."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self.reader.read(-1)
            except ConnectionResetError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def eventually(condition: Callable[[], bool]) -> None:
    """Waits for something of which nobody sends word."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0)


def open_sockets() -> int:
    """How many descriptors of this process are sockets."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        # The descriptor of the listing itself is gone by now.
        with contextlib.suppress(FileNotFoundError):
            count += str(link.readlink()).startswith("socket:")
    return count


def highest_descriptor() -> int:
    return max(int(link.name) for link in Path("/proc/self/fd").iterdir())


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame
