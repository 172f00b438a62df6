"""Connections that send much at once, or never read, beside others that do not: real sockets, both loops, both twins.

What came first is counted, not timed. Whoever attacks does so with sockets that block, before the server has looked at any of
them: its loop then finds everything at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import uvloop
from msgspec.structs import replace

from tests.support.net import Recorder, eventually, framed, open_sockets
from tidelog.model.clock import Clock, SystemClock
from tidelog.model.ids import TimestampMs
from tidelog.net.connection import Connection
from tidelog.net.limits import BacklogLimits, ConnectionLimits, NodeLimits, SocketOptions
from tidelog.net.socket_server import Listener, SocketServer
from tidelog.net.transport import LoopTransport

Run = Callable[[Coroutine[Any, Any, None]], None]

REQUESTS = 4000
ROUND_REQUESTS = BacklogLimits().round_requests_max


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

    def run_it(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main)

    return run_it


class Gatherer(Recorder):
    """Looks at the requests of a read at its end, as a handler does that gathers them: they must still be there."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._gathered: list[tuple[Connection, memoryview, bytes]] = []
        self.by_connection: dict[int, list[bytes]] = {}
        self.on_frame: Callable[[bytes], None] = lambda _: None

    def frame(self, connection: Connection, frame: memoryview) -> None:
        assert all(each is connection for each, _, _ in self._gathered)
        self._gathered.append((connection, frame, bytes(frame)))
        self.by_connection.setdefault(connection.connection_id, []).append(bytes(frame))
        super().frame(connection, frame)
        self.on_frame(bytes(frame))

    def frames_done(self, connection: Connection) -> None:
        gathered, self._gathered = self._gathered, []
        assert all(each is connection and view == copy for each, view, copy in gathered)
        super().frames_done(connection)


class SteppingClock:
    """Goes on by a fixed step whenever it is read: as if everything took that long."""

    def __init__(self, step_us: int) -> None:
        self._step_ns = step_us * 1000
        self._now_ns = 0

    def now_ms(self) -> TimestampMs:
        return TimestampMs(0)

    def monotonic_ms(self) -> int:
        return self.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        self._now_ns += self._step_ns
        return self._now_ns


@asynccontextmanager
async def serving(
    handler: Recorder, limits: NodeLimits | None = None, clock: Clock | None = None, *, exempt: bool = False
) -> AsyncIterator[tuple[SocketServer, Listener]]:
    loop = asyncio.get_running_loop()
    # Connections are made while the loop stands still.
    limits = replace(limits or NodeLimits(), socket=SocketOptions(backlog=200))
    # Of the real clock little would be known: a slow machine takes fewer requests in the same time.
    server = SocketServer(loop, LoopTransport(loop), limits, clock=clock or SteppingClock(0))
    listener = await server.listen("PLAINTEXT", "127.0.0.1", 0, handler, exempt=exempt)
    try:
        yield server, listener
    finally:
        server.abort()


@contextmanager
def connected(listener: Listener, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as opened:
        sockets = []
        for _ in range(count):
            each = opened.enter_context(socket.create_connection(listener.address))
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets.append(each)
        yield sockets


def requests(name: str, count: int) -> list[bytes]:
    return [b"%s %d" % (name.encode(), number) for number in range(count)]


def joined(frames: list[bytes]) -> bytes:
    return b"".join(framed(frame) for frame in frames)


async def received(sock: socket.socket, count: int) -> list[bytes]:
    """As many answers as that, from a socket that the test reads by itself."""
    loop = asyncio.get_running_loop()
    sock.setblocking(False)
    data = b""
    answers: list[bytes] = []
    async with asyncio.timeout(20):
        while len(answers) < count:
            piece = await loop.sock_recv(sock, 1 << 20)
            assert piece
            data += piece
            while len(data) >= 4 and len(data) >= 4 + (size := struct.unpack_from(">i", data)[0]):
                answers.append(data[4 : 4 + size])
                data = data[4 + size :]
    return answers


@pytest.mark.parametrize("attackers", [1, 10, 50])
def test_a_single_request_does_not_wait_for_thousands_of_others(run: Run, attackers: int) -> None:
    async def main() -> None:
        handler = Gatherer()
        async with serving(handler) as (server, listener), contextlib.AsyncExitStack() as opened:
            crowd = opened.enter_context(connected(listener, attackers))
            [polite] = opened.enter_context(connected(listener, 1))
            await handler.until(lambda: len(handler.connections) == attackers + 1)
            each = REQUESTS // attackers
            for number, sock in enumerate(crowd):
                sock.sendall(joined(requests(f"many {number}", each)))
            polite.sendall(framed(b"one"))

            assert await received(polite, 1) == [b"one"]

            # The sockets' round and the queue's, whichever was before; without a limit it would be after all of them.
            assert handler.frames.index(b"one") <= 2 * ROUND_REQUESTS + attackers
            answers = await asyncio.gather(*(received(sock, each) for sock in crowd))
            assert answers == [requests(f"many {number}", each) for number in range(attackers)]
            assert (server.backlog.held_bytes, len(server.backlog)) == (0, 0)

    run(main())


def test_connections_in_the_backlog_take_turns(run: Run) -> None:
    async def main() -> None:
        handler = Gatherer()
        async with serving(handler) as (_, listener):
            with connected(listener, 5) as crowd:
                await handler.until(lambda: len(handler.connections) == 5)
                for number, sock in enumerate(crowd):
                    sock.sendall(joined(requests(f"{number}", 800)))
                await handler.until(lambda: len(handler.frames) >= 2000)

                counts = [len(each) for each in handler.by_connection.values()]

                # All are half-way; one after the other it would be two and a half of them that are done.
                assert len(counts) == 5
                assert max(counts) <= 400 + 2 * ROUND_REQUESTS
                assert min(counts) >= 400 - 2 * ROUND_REQUESTS

    run(main())


def test_a_round_is_cut_by_time_where_requests_take_long(run: Run) -> None:
    async def main() -> None:
        handler = Gatherer()
        # Three requests take as long as a round may.
        async with serving(handler, clock=SteppingClock(200)) as (_, listener):
            with connected(listener, 1) as [busy], connected(listener, 1) as [polite]:
                await handler.until(lambda: len(handler.connections) == 2)
                busy.sendall(joined(requests("many", 300)))
                polite.sendall(framed(b"one"))

                await received(polite, 1)

                assert handler.frames.index(b"one") <= 12
                assert await received(busy, 300) == requests("many", 300)

    run(main())


def test_a_single_request_goes_first_even_when_the_round_is_spent(run: Run) -> None:
    async def main() -> None:
        handler = Gatherer()
        async with serving(handler) as (_, listener), contextlib.AsyncExitStack() as opened:
            crowd = opened.enter_context(connected(listener, 20))
            polite = opened.enter_context(connected(listener, 20))
            await handler.until(lambda: len(handler.connections) == 40)
            for sock in crowd:
                sock.sendall(joined(requests("many", 200)))
            for number, sock in enumerate(polite):
                sock.sendall(framed(b"one %d" % number))

            await asyncio.gather(*(received(sock, 1) for sock in polite))

            last = max(handler.frames.index(b"one %d" % number) for number in range(20))
            assert last <= 3 * ROUND_REQUESTS + 40

    run(main())


def test_connections_of_an_exempt_listener_do_not_wait(run: Run) -> None:
    async def main() -> None:
        handler = Gatherer()
        async with serving(handler, exempt=True) as (server, listener):
            with connected(listener, 1) as [busy]:
                await handler.until(lambda: len(handler.connections) == 1)
                busy.sendall(joined(requests("many", 1000)))
                answers = await received(busy, 1000)
                assert answers == requests("many", 1000)
                # As many as a read brings, but for what the connection's own limit cuts off.
                assert handler.reads <= 20
                assert server.backlog.held_bytes == 0

    run(main())


def test_what_was_put_aside_is_dropped_when_the_peer_resets(run: Run) -> None:
    async def main() -> None:
        handler = Gatherer()
        async with serving(handler) as (server, listener):
            with connected(listener, 1) as [busy]:
                busy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                handler.on_frame = lambda frame: busy.close() if frame == b"silent 10" else None
                await handler.until(lambda: len(handler.connections) == 1)
                busy.sendall(joined(requests("silent", REQUESTS)))
                await handler.until(lambda: len(handler.closed) == 1)

                # It was closed within the first round; a slice may have been under way.
                assert 10 < len(handler.frames) <= 2 * ROUND_REQUESTS
                assert (server.backlog.held_bytes, len(server.backlog)) == (0, 0)

    run(main())


def test_after_an_orderly_close_everything_that_has_arrived_is_handled(run: Run) -> None:
    async def main() -> None:
        handler = Gatherer()
        async with serving(handler) as (server, listener):
            with connected(listener, 1) as [busy]:
                await handler.until(lambda: len(handler.connections) == 1)
                busy.sendall(joined(requests("silent", REQUESTS)))
                busy.close()
                await handler.until(lambda: len(handler.closed) == 1)

            assert handler.frames == requests("silent", REQUESTS)
            assert server.backlog.held_bytes == 0

    run(main())


def test_what_is_put_aside_is_bounded_and_sized(run: Run) -> None:
    bytes_max, little_bytes, crowd_size = 1 << 20, 4096, 100
    limits = NodeLimits(backlog=BacklogLimits(bytes_max=bytes_max, little_read_bytes=little_bytes))
    largest = 0

    async def main() -> None:
        handler = Gatherer()
        async with serving(handler, limits) as (server, listener):
            with connected(listener, crowd_size) as crowd, connected(listener, 1) as [polite]:
                await handler.until(lambda: len(handler.connections) == crowd_size + 1)

                def look(_frame: bytes) -> None:
                    nonlocal largest
                    largest = max(largest, server.backlog.held_bytes)

                handler.on_frame = look
                for sock in crowd:
                    # No more than a socket takes without a reader.
                    sock.setblocking(False)
                    sock.send(joined([b"silent " + bytes(200)] * 500))
                polite.sendall(framed(b"one"))

                assert await received(polite, 1) == [b"one"]
                owned = [each._reader.held_bytes for each in server.connections.values() if each._is_put_off]
                assert owned
                assert sum(owned) <= server.backlog.held_bytes
                await eventually(lambda: len(server.backlog) == 0)

                # One read may go beyond it; after that each is little.
                assert 0 < largest <= bytes_max + (1 << 20) + crowd_size * little_bytes
                assert server.backlog.held_bytes == 0

    run(main())


def test_beyond_the_bound_little_is_read_of_a_connection(run: Run) -> None:
    limits = NodeLimits(backlog=BacklogLimits(bytes_max=1, little_read_bytes=1000, round_requests_max=1))
    seen: list[int] = []

    async def main() -> None:
        handler = Gatherer()
        async with serving(handler, limits) as (server, listener):
            with connected(listener, 10) as crowd:
                await handler.until(lambda: len(handler.connections) == 10)
                handler.on_frame = lambda _frame: seen.append(server.backlog.held_bytes)
                for number, sock in enumerate(crowd):
                    sock.sendall(joined(requests(f"{number}", 500)))

                answers = await asyncio.gather(*(received(sock, 500) for sock in crowd))

                assert answers == [requests(f"{number}", 500) for number in range(10)]
                # The first read was a whole one.
                assert max(seen) <= len(joined(requests("0", 500))) + 9 * 1000
                assert server.backlog.held_bytes == 0

    run(main())


def test_peers_that_never_read_are_not_handled_any_more_and_others_are(run: Run) -> None:
    limits = NodeLimits(connection=ConnectionLimits(output_bytes_max=10_000))

    async def main() -> None:
        handler = Gatherer(respond=lambda _: [bytes(100_000)])
        async with serving(handler, limits) as (server, listener), contextlib.AsyncExitStack() as opened:
            crowd = opened.enter_context(connected(listener, 30))
            [polite] = opened.enter_context(connected(listener, 1))
            await handler.until(lambda: len(handler.connections) == 31)
            for sock in crowd:
                sock.sendall(joined(requests("never read", 300)))
            for _ in range(20):
                polite.sendall(framed(b"one"))
                await received(polite, 1)
            await eventually(lambda: len(server.backlog) == 0)

            # Each has what its socket and its queue take, and waits.
            attacked = [each for each in server.connections.values() if each._stalled]
            assert len(attacked) == 30
            assert all(each.output_bytes <= 10_000 + 100_000 for each in attacked)
            handled = len(handler.frames)
            assert handled < 30 * 300
            polite.sendall(framed(b"one"))
            await received(polite, 1)
            assert len(handler.frames) == handled + 1
            # Whoever reads after all gets every answer.
            assert len(await received(crowd[0], 300)) == 300

    run(main())


def test_large_answers_wait_their_turn_like_requests(run: Run) -> None:
    async def main() -> None:
        handler = Gatherer(respond=lambda frame: [bytes(500_000)] if frame == b"much" else [frame])
        sent_bytes: list[int] = []
        async with (
            # As if each took a fifth of a millisecond to send.
            serving(handler, clock=SteppingClock(200)) as (server, listener),
            contextlib.AsyncExitStack() as opened,
        ):
            crowd = opened.enter_context(connected(listener, 100))
            [polite] = opened.enter_context(connected(listener, 1))
            await handler.until(lambda: len(handler.connections) == 101)

            def look(frame: bytes) -> None:
                if frame == b"one":
                    sent_bytes.append(sum(each.bytes_out for each in server.connections.values()))

            handler.on_frame = look
            for sock in crowd:
                sock.sendall(framed(b"much"))
            polite.sendall(framed(b"one"))

            assert await received(polite, 1) == [b"one"]

            # Nobody reads: a socket that takes half a megabyte without a reader gets it all, later.
            assert sent_bytes[0] <= 10 * 500_000
            answers = await asyncio.gather(*(received(sock, 1) for sock in crowd))
            assert [len(each[0]) for each in answers] == [500_000] * 100

    run(main())


def test_a_connection_takes_one_descriptor_also_while_its_peer_does_not_read(run: Run) -> None:
    async def main() -> None:
        handler = Gatherer(respond=lambda _: [bytes(20_000_000)])
        async with serving(handler, clock=SystemClock()) as (server, listener):
            before = open_sockets()
            with connected(listener, 40) as crowd:
                await handler.until(lambda: len(handler.connections) == 40)
                for sock in crowd[:5]:
                    sock.sendall(framed(b"much"))
                await handler.until(lambda: len(handler.frames) == 5)
                await eventually(lambda: len(server.backlog) == 0)

                assert sum(each.output_bytes > 0 for each in server.connections.values()) == 5
                # One at this end, and one at the other, which is in this process too.
                assert open_sockets() == before + 2 * 40
                # What had to wait arrives whole and in order.
                [answer] = await received(crowd[0], 1)
                assert answer == bytes(20_000_000)

    run(main())
