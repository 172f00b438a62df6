"""TLS without sockets: whatever a channel takes at a time, and however bytes arrive, each side gets exactly what was sent."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections import deque
from collections.abc import Callable
from typing import IO, Any, cast

import pytest
from hypothesis import given, strategies as st

from tests.property.test_net_output import FILE, FakeFile, FakeRegion, content, parts, takes
from tests.support.tls_files import material, new_authority, trusted
from tidelog.net.frames import SIZE
from tidelog.net.output_queue import OutputQueue
from tidelog.net.parts import WOULD_BLOCK, Bytes, Part
from tidelog.net.receive_buffers import PIECE_BYTES, ReceiveBuffers
from tidelog.net.stream import FrameStream
from tidelog.net.tls import TlsSession
from tidelog.net.tls_channel import TlsChannel
from tidelog.net.tls_stream import TlsStream
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.tls_contexts import client_context, server_context
from tidelog.security.tls_settings import TlsSettings
from tidelog.security.tls_stores import TlsStores

AUTHORITY = new_authority()
SETTINGS = TlsSettings.of(ListenerSettings({}, "L"))
SERVER = server_context(SETTINGS, TlsStores(material(AUTHORITY.node_certificate(["node"])), None, (None, None)))
CLIENT = client_context(SETTINGS, TlsStores(None, trusted(AUTHORITY), (None, None)))


class Peer:
    """The client's end, in memory."""

    def __init__(self) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.end = CLIENT.wrap_bio(self.incoming, self.outgoing, server_hostname="node")

    def shake(self) -> bytes:
        """The next message of the handshake."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.end.do_handshake()
        return self.outgoing.read()

    def encrypt(self, data: bytes) -> bytes:
        at = 0
        while at < len(data):
            at += self.end.write(data[at : at + 16_384])
        return self.outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        self.incoming.write(data)
        read = bytearray()
        with contextlib.suppress(ssl.SSLWantReadError):
            while piece := self.end.read(65_536):
                read += piece
        return bytes(read)


class FakeUnder:
    """Takes as many bytes at a time as it is told to; 0 means that it would block."""

    def __init__(self, takes: list[int], *, sends_files: bool) -> None:
        self.received = bytearray()
        self.sends_files = sends_files
        self.is_half_closed = False
        self.longest_bytes = 0
        self.watching: Callable[[], None] | None = None
        self._takes = takes
        self._calls = 0

    def send(self, data: Bytes, *, more_follows: bool) -> int:
        self._calls += 1
        self.longest_bytes = max(self.longest_bytes, len(data))
        count = min(len(data), self._takes[self._calls % len(self._takes)])
        if not count and data:
            return WOULD_BLOCK
        self.received += data[:count]
        return count

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        raise AssertionError("files are never sent as they are")

    def watch(self, writable: Callable[[], None]) -> None:
        self.watching = writable

    def unwatch(self) -> None:
        self.watching = None

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def is_broken(self) -> bool:
        return False

    def half_close(self) -> None:
        assert not self.is_half_closed
        self.is_half_closed = True

    def close(self) -> None:
        self.watching = None


class RealFile(FakeFile):
    """One that the system reads."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file

    def fileno(self) -> int:
        return self._file.fileno()


def shaken(channel_of: Callable[[ssl.MemoryBIO], TlsChannel], under: FakeUnder) -> tuple[Peer, TlsChannel]:
    peer = Peer()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = SERVER.wrap_bio(incoming, outgoing, server_side=True)
    for _ in range(2):
        incoming.write(peer.shake())
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            peer.incoming.write(outgoing.read())
    channel = channel_of(outgoing)
    channel.begin(end)
    return peer, channel


def fail(error: OSError) -> None:
    raise error


@pytest.fixture(scope="module")
def file() -> Any:
    with tempfile.TemporaryFile() as opened:
        opened.write(FILE)
        opened.flush()
        yield opened


@given(
    pushed=st.lists(st.lists(parts, max_size=5), min_size=1, max_size=6),
    takes=takes,
    sends_files=st.booleans(),
    ends=st.booleans(),
)
def test_the_peer_decrypts_exactly_what_was_pushed(
    file: IO[bytes], pushed: list[list[Part]], takes: list[int], sends_files: bool, ends: bool
) -> None:
    under = FakeUnder(takes, sends_files=sends_files)
    buffers = ReceiveBuffers(64 * 1024)
    peer, channel = shaken(lambda outgoing: TlsChannel(outgoing, under, buffers, fail), under)
    queue = OutputQueue(channel)
    expected = b""
    for frame in pushed:
        for part in frame:
            if isinstance(part, FakeRegion):
                part.file = RealFile(file)
        body = b"".join(content(part) for part in frame)
        expected += SIZE.pack(len(body)) + body
        queue.push(frame)
        queue.flush()

    while not queue.flush():
        pass
    if ends:
        channel.half_close()
    channel.unwatch()
    while under.watching is not None:
        under.watching()

    assert peer.decrypt(bytes(under.received)) == expected
    assert queue.pending_bytes == 0
    assert under.is_half_closed == ends
    # Four records, the heads and marks of which are small, and perhaps the end.
    assert under.longest_bytes <= PIECE_BYTES + 1024


class FakeStream:
    """Keeps what it reads, in a buffer of its own size; stops reading after some reads."""

    def __init__(self, sizes: list[int], pauses: list[bool]) -> None:
        self.read = bytearray()
        self.transport: Any = None
        self.is_made = False
        self._sizes, self._pauses = deque(sizes), deque(pauses)
        self._buffer = memoryview(bytearray(1))

    def connection_opening(self, transport: Any) -> None:
        self.transport = transport

    def connection_made(self, transport: Any) -> None:
        assert transport is self.transport
        self.is_made = True

    def get_buffer(self, sizehint: int) -> memoryview:
        if not len(self._buffer):
            self._sizes.rotate()
            self._buffer = memoryview(bytearray(self._sizes[0]))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.read += self._buffer[:nbytes]
        self._buffer = self._buffer[:0]
        self._pauses.rotate()
        if self._pauses[0]:
            self.transport.pause_reading()

    def abort(self, error: BaseException | None = None) -> None:
        raise AssertionError(error)


class FakeTransport:
    """A transport whose reading the test is."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_reading = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return False

    def write(self, data: Bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


class FakeLoop:
    """Does things when it is told to."""

    def __init__(self) -> None:
        self.soon: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self.soon.append(lambda: callback(*args))

    def call_later(self, _delay_s: float, _callback: Callable[..., None], *_args: Any) -> Any:
        class Timer:
            def cancel(self) -> None: ...

        return Timer()


@given(
    messages=st.lists(st.integers(0, 60_000).map(lambda size: FILE[:size]), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 70_000), min_size=1, max_size=8),
    sizes=st.lists(st.integers(1, 40_000), min_size=1, max_size=5),
    pauses=st.lists(st.booleans(), min_size=1, max_size=5),
    together=st.booleans(),
)
def test_the_stream_reads_exactly_what_was_encrypted_however_it_arrives(
    messages: list[bytes], cuts: list[int], sizes: list[int], pauses: list[bool], together: bool
) -> None:
    loop, transport, stream, peer = FakeLoop(), FakeTransport(), FakeStream(sizes, pauses), Peer()
    sessions: list[TlsSession] = []
    tls = TlsStream(
        cast("asyncio.AbstractEventLoop", loop),
        cast("FrameStream", stream),
        ReceiveBuffers(64 * 1024),
        lambda incoming, outgoing: SERVER.wrap_bio(incoming, outgoing, server_side=True),
        peer="client",
        on_secured=sessions.append,
        on_failed=pytest.fail,
    )
    pending_cuts = deque(cuts)

    def arrive(data: bytes) -> None:
        while data:
            while not transport.is_reading:
                # The stream goes on later.
                tls.resume_reading()
                while loop.soon:
                    loop.soon.popleft()()
            pending_cuts.rotate()
            view = tls.get_buffer(-1)
            count = min(len(data), len(view), pending_cuts[0])
            view[:count] = data[:count]
            tls.buffer_updated(count)
            # The buffer is everybody's: the next connection writes to it.
            view[:count] = bytes(count)
            data = data[count:]

    tls.connection_made(cast("asyncio.BaseTransport", transport))
    arrive(peer.shake())
    assert not sessions
    peer.incoming.write(bytes(transport.written))
    last = peer.shake()
    if together:
        arrive(last + b"".join(peer.encrypt(message) for message in messages))
    else:
        arrive(last)
        assert stream.is_made
        for message in messages:
            arrive(peer.encrypt(message))
    while not transport.is_reading or loop.soon:
        tls.resume_reading()
        while loop.soon:
            loop.soon.popleft()()

    assert bytes(stream.read) == b"".join(messages)
    assert len(sessions) == 1
