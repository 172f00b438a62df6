"""Connections to other nodes over real sockets, on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import uvloop

from tests.support.net import DEADLINE_S, Recorder, eventually, open_sockets
from tidelog.net.errors import ConnectFailedError, ConnectionLostError
from tidelog.net.node_connection import ConnectionOptions, ConnectionParts, Event, NodeConnection
from tidelog.net.socket_server import SocketServer
from tidelog.net.transport import LoopTransport

Run = Callable[[Coroutine[Any, Any, None]], None]
TIMEOUT_MS = int(DEADLINE_S * 1000)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_it(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main)

    return run_it


@asynccontextmanager
async def node(port: int = 0) -> AsyncIterator[tuple[SocketServer, Recorder, int]]:
    loop = asyncio.get_running_loop()
    handler = Recorder(lambda frame: [frame[4:8], frame[8:]])
    server = SocketServer(loop, LoopTransport(loop))
    listener = await server.listen("PLAINTEXT", "127.0.0.1", port, handler)
    try:
        yield server, handler, listener.address.port
    finally:
        server.abort()


def to_node(port: int, events: list[Event] | None = None, *, stay_connected: bool = False) -> NodeConnection:
    loop = asyncio.get_running_loop()
    heard = events if events is not None else []
    return NodeConnection(
        ConnectionParts(loop, LoopTransport(loop), Random(1)),
        "127.0.0.1",
        port,
        on_event=heard.append,
        stay_connected=stay_connected,
        options=ConnectionOptions(reconnect_backoff_ms=1),
    )


def request(connection: NodeConnection, body: bytes) -> list[bytes]:
    return [struct.pack(">hhi", 18, 4, connection.next_correlation_id()), body]


def test_many_requests_of_all_sizes_are_answered(run: Run) -> None:
    async def main() -> None:
        async with node() as (_, _, port):
            connection = to_node(port)
            bodies = [Random(number).randbytes(number**5) for number in range(25)]
            answers = await asyncio.gather(
                *(connection.request(request(connection, body), timeout_ms=TIMEOUT_MS) for body in bodies)
            )
            assert [answer[4:] for answer in answers] == bodies
            assert connection._stream is not None
            assert connection._stream._transport is not None
            sock = connection._stream._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
            connection.close()

    run(main())


def test_nobody_listening_is_known_at_once(run: Run) -> None:
    async def main() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            events: list[Event] = []
            connection = to_node(unused.getsockname()[1], events)
            with pytest.raises(ConnectFailedError, match="refused") as caught:
                await connection.request(request(connection, b""), timeout_ms=TIMEOUT_MS)
            assert caught.value.refused
            assert events == [Event.REFUSED]
            connection.close()

    run(main())


def test_a_name_that_does_not_resolve_is_unreachable(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        connection = NodeConnection(ConnectionParts(loop, LoopTransport(loop), Random(1)), "no-such-host.invalid", 9092)
        with pytest.raises(ConnectFailedError, match=r"cannot connect to no-such-host\.invalid:9092") as caught:
            await connection.request(request(connection, b""), timeout_ms=TIMEOUT_MS)
        assert not caught.value.refused
        connection.close()

    run(main())


def test_a_node_that_goes_and_comes_back(run: Run) -> None:
    async def main() -> None:
        events: list[Event] = []
        async with node() as (server, handler, port):
            connection = to_node(port, events, stay_connected=True)
            await connection.request(request(connection, b"x"), timeout_ms=TIMEOUT_MS)
            handler.hold = True
            waiting = asyncio.ensure_future(connection.request(request(connection, b"y"), timeout_ms=TIMEOUT_MS))
            await handler.until(lambda: len(handler.slots) == 1)
            server.abort()
            with pytest.raises(ConnectionLostError):
                await waiting
            await eventually(lambda: events[:3] == [Event.CONNECTED, Event.BROKEN, Event.REFUSED])
        async with node(port):
            await eventually(lambda: events[-1] is Event.CONNECTED)
            answer = await connection.request(request(connection, b"again"), timeout_ms=TIMEOUT_MS)
            assert answer[4:] == b"again"
            connection.close()

    run(main())


def test_close_in_any_moment_leaves_no_socket(run: Run) -> None:
    async def main() -> None:
        async with node() as (server, _, port):
            before = open_sockets()
            for steps in range(12):
                connection = to_node(port)
                connection.connect()
                for _ in range(steps):
                    await asyncio.sleep(0)
                connection.close()
            await eventually(lambda: not server.connections and open_sockets() == before)

    run(main())
