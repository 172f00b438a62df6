"""The client's end, on virtual time: every wait is exact and takes no time."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tests.support.net import Recorder
from tidelog.net.connection import Connection
from tidelog.net.errors import (
    ConnectFailedError,
    ConnectionClosedError,
    ConnectionLostError,
    RequestFailedError,
    RequestTimedOutError,
    TooManyRequestsError,
)
from tidelog.net.node_connection import (
    DEFAULT_OPTIONS,
    ConnectionOptions,
    ConnectionParts,
    Event,
    NodeConnection,
    State,
)
from tidelog.net.output_queue import OutputQueue
from tidelog.net.parts import Bytes
from tidelog.net.socket_server import SocketServer
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.simulation.network import SimulatedNetwork

Answer = bytes | RequestFailedError


class World:
    """A client, a server that answers with the request's correlation id and body, and a network between them."""

    def __init__(self, seed: int = 5) -> None:
        self.loop = VirtualTimeLoop()
        self.network = SimulatedNetwork(self.loop, Random(seed))
        self.handler = Recorder(respond)
        self.server = SocketServer(self.loop, self.network.host("server"), clock=VirtualClock(self.loop))
        self.events: list[tuple[float, Event]] = []
        self.answers: list[Answer] = []
        self.parts = ConnectionParts(self.loop, self.network.host("client"), Random(6))
        self.connection = self.connect()

    def connect(self, options: ConnectionOptions = DEFAULT_OPTIONS, **more: Any) -> NodeConnection:
        return NodeConnection(
            self.parts,
            "server",
            9092,
            on_event=lambda event: self.events.append((self.loop.time(), event)),
            options=options,
            **more,
        )

    async def serve(self) -> None:
        await self.server.listen("PLAINTEXT", "server", 9092, self.handler)

    def send(self, body: bytes = b"", *, timeout_ms: int = 1000, connection: NodeConnection | None = None) -> None:
        connection = connection or self.connection
        connection.send(request(connection, body), self.answered, timeout_ms=timeout_ms)

    def answered(self, answer: memoryview | RequestFailedError) -> None:
        self.answers.append(answer if isinstance(answer, RequestFailedError) else bytes(answer[4:]))

    @property
    def event_names(self) -> list[Event]:
        return [event for _, event in self.events]


def request(connection: NodeConnection, body: bytes) -> list[bytes]:
    return [struct.pack(">hhi", 18, 4, connection.next_correlation_id()), body]


def respond(frame: bytes) -> list[bytes]:
    return [frame[4:8], b"answer to " + frame[8:]]


def play(main: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    world = World()
    world.loop.run_until_complete(main(world))


def test_requests_connect_first_and_are_answered_in_order() -> None:
    async def main(world: World) -> None:
        await world.serve()
        assert world.connection.state is State.IDLE
        for number in range(5):
            world.send(b"%d" % number)
        assert world.connection.in_flight == 5
        await asyncio.sleep(0.1)
        assert world.answers == [b"answer to %d" % number for number in range(5)]
        assert world.event_names == [Event.CONNECTED]
        assert world.connection.in_flight == 0
        assert len(world.handler.connections) == 1

    play(main)


def test_a_request_can_be_awaited() -> None:
    async def main(world: World) -> None:
        await world.serve()
        answer = await world.connection.request(request(world.connection, b"this"), timeout_ms=1000)
        assert answer[4:] == b"answer to this"
        world.handler.hold = True
        with pytest.raises(RequestTimedOutError):
            await world.connection.request(request(world.connection, b"that"), timeout_ms=1000)

    play(main)


def test_a_cancelled_wait_does_not_disturb_what_comes_after() -> None:
    async def main(world: World) -> None:
        await world.serve()
        waiting = asyncio.ensure_future(
            world.connection.request(request(world.connection, b"forgotten"), timeout_ms=1000)
        )
        await asyncio.sleep(0)
        waiting.cancel()
        answer = await world.connection.request(request(world.connection, b"wanted"), timeout_ms=1000)
        assert answer[4:] == b"answer to wanted"

    play(main)


def test_a_refused_connection_is_said_at_once_and_retried_with_growing_waits() -> None:
    async def main(world: World) -> None:
        connection = world.connect(
            ConnectionOptions(reconnect_backoff_ms=100, reconnect_backoff_max_ms=1000), stay_connected=True
        )
        world.send(connection=connection)
        await asyncio.sleep(0.01)
        assert world.event_names == [Event.REFUSED]
        assert isinstance(world.answers[0], ConnectFailedError)
        assert world.answers[0].refused
        assert "cannot connect to server:9092: connection refused" in str(world.answers[0])
        await asyncio.sleep(10)
        attempts_s = [at_s for at_s, _ in world.events]
        waits_ms = [(after - before) * 1000 for before, after in pairwise(attempts_s)]
        for wait_ms, expected_ms in zip(waits_ms, [100, 200, 400, 800, 1000, 1000, 1000], strict=False):
            assert expected_ms * 0.8 <= wait_ms <= expected_ms * 1.2 + 5
        assert len(set(waits_ms)) == len(waits_ms)

        await world.serve()
        await asyncio.sleep(2)

        assert world.event_names[-1] is Event.CONNECTED
        # Success starts the waits over.
        world.network.host("server").kill()
        killed_s = world.loop.time()
        await asyncio.sleep(0.2)
        assert world.event_names[-2:] == [Event.BROKEN, Event.REFUSED]
        assert world.events[-1][0] - killed_s < 0.13
        connection.close()

    play(main)


def test_what_is_sent_while_backing_off_gets_the_next_attempt() -> None:
    async def main(world: World) -> None:
        world.send(b"first")
        await asyncio.sleep(0.01)
        assert world.connection.state is State.BACKING_OFF
        world.send(b"second")
        await world.serve()
        await asyncio.sleep(0.2)
        assert isinstance(world.answers[0], ConnectFailedError)
        assert world.answers[1:] == [b"answer to second"]

    play(main)


def test_without_demand_it_rests_after_a_failure() -> None:
    async def main(world: World) -> None:
        world.connection.connect()
        await asyncio.sleep(100)
        assert world.event_names == [Event.REFUSED]
        assert world.connection.state is State.IDLE

    play(main)


def test_a_host_that_does_not_answer_is_unreachable_in_time() -> None:
    async def main(world: World) -> None:
        world.network.partition({"client"}, {"server"})
        connection = world.connect(ConnectionOptions(connect_timeout_ms=3000))
        connection.connect()
        await asyncio.sleep(3.5)
        assert world.event_names == [Event.UNREACHABLE]
        assert world.events[0][0] == pytest.approx(3.0)

    play(main)


def test_a_broken_connection_fails_what_waits_at_once_and_is_made_anew_on_demand() -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.send()
        await asyncio.sleep(0.1)
        world.handler.hold = True
        world.send(timeout_ms=60_000)
        world.send(timeout_ms=60_000)
        await asyncio.sleep(0.1)
        before_s = world.loop.time()

        world.server.abort()
        await asyncio.sleep(0.02)

        assert [type(answer) for answer in world.answers[1:]] == [ConnectionLostError, ConnectionLostError]
        assert world.event_names == [Event.CONNECTED, Event.BROKEN]
        assert world.events[-1][0] - before_s < 0.01
        world.handler.hold = False
        world.server = SocketServer(world.loop, world.network.host("server"), clock=VirtualClock(world.loop))
        await world.serve()
        world.send(b"again")
        await asyncio.sleep(1)
        assert world.answers[-1] == b"answer to again"

    play(main)


def test_a_killed_node_is_noticed_and_then_refuses() -> None:
    async def main(world: World) -> None:
        await world.serve()
        connection = world.connect(stay_connected=True)
        connection.connect()
        await asyncio.sleep(0.1)
        killed_s = world.loop.time()
        world.network.host("server").kill()
        await asyncio.sleep(0.1)
        assert world.event_names == [Event.CONNECTED, Event.BROKEN, Event.REFUSED]
        # A death is known within a tenth of a second, long before any time-out.
        assert world.events[2][0] - killed_s < 0.1
        connection.close()

    play(main)


def test_a_late_answer_closes_the_connection_and_fails_what_is_behind_it() -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.handler.hold = True
        world.send(b"slow", timeout_ms=500)
        world.send(b"behind", timeout_ms=60_000)
        await asyncio.sleep(0.499)
        assert world.answers == []
        await asyncio.sleep(0.002)
        assert sorted(type(answer).__name__ for answer in world.answers) == [
            "ConnectionLostError",
            "RequestTimedOutError",
        ]
        assert world.event_names == [Event.CONNECTED, Event.TIMED_OUT]
        await asyncio.sleep(0.1)
        assert len(world.handler.closed) == 1

    play(main)


def test_a_request_that_was_never_sent_times_out_alone() -> None:
    async def main(world: World) -> None:
        world.network.partition({"client"}, {"server"})
        world.send(b"short", timeout_ms=200)
        world.send(b"long", timeout_ms=60_000)
        await asyncio.sleep(0.3)
        assert [type(answer) for answer in world.answers] == [RequestTimedOutError]
        assert world.connection.in_flight == 1
        assert world.connection.state is State.CONNECTING

    play(main)


def test_the_earliest_deadline_counts_whatever_was_sent_first() -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.handler.hold = True
        world.send(timeout_ms=60_000)
        world.send(timeout_ms=100)
        await asyncio.sleep(0.11)
        assert RequestTimedOutError in [type(answer) for answer in world.answers]

    play(main)


def test_a_send_that_finds_the_connection_broken_returns_before_it_fails() -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.connection.connect()
        await asyncio.sleep(0.1)
        stream = world.connection._stream
        assert stream is not None
        stream._output = OutputQueue(BrokenChannel())
        world.send()
        assert (world.answers, stream.is_closed) == ([], True)
        await asyncio.sleep(0)
        assert [type(answer) for answer in world.answers] == [ConnectionLostError]
        assert world.event_names == [Event.CONNECTED, Event.BROKEN]

    play(main)


class BrokenChannel:
    """What a socket whose peer is gone does to a write."""

    sends_files = False

    def send(self, data: Bytes, *, more_follows: bool) -> int:
        raise BrokenPipeError("Broken pipe")

    def send_file(self, descriptor: int, position: int, count: int) -> int:
        raise BrokenPipeError("Broken pipe")


def test_unanswered_requests_are_bounded() -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.handler.hold = True
        connection = world.connect(ConnectionOptions(in_flight_max=2))
        for _ in range(3):
            world.send(connection=connection)
        assert world.answers == []
        await asyncio.sleep(0)
        assert [type(answer) for answer in world.answers] == [TooManyRequestsError]
        assert connection.in_flight == 2

    play(main)


def test_close_fails_everything_and_nothing_can_be_sent_after_it() -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.handler.hold = True
        world.send()
        await asyncio.sleep(0.1)
        world.send()
        world.connection.close()
        world.connection.close()
        world.send()
        await asyncio.sleep(0.1)
        assert [type(answer) for answer in world.answers] == [ConnectionClosedError] * 3
        assert world.event_names == [Event.CONNECTED]
        assert len(world.handler.closed) == 1

    play(main)


@pytest.mark.parametrize("after_s", [0, 0.0005, 0.001, 0.0015, 0.002, 0.0025])
def test_close_while_connecting_leaves_nothing_open(after_s: float) -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.send()
        await asyncio.sleep(after_s)
        world.connection.close()
        await asyncio.sleep(1)
        assert world.network.host("client").endpoints() == []
        assert world.server.connections == {}
        assert len(world.answers) == 1

    play(main)


def test_an_answer_to_another_request_ends_the_connection() -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.handler.respond = lambda _: [b"\x00\x00\x30\x39", b"?"]
        world.send()
        await asyncio.sleep(0.1)
        assert [type(answer) for answer in world.answers] == [ConnectionLostError]
        assert world.event_names == [Event.CONNECTED, Event.BROKEN]

    play(main)


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.connection.connect()
        await asyncio.sleep(0.1)
        server_end: Connection = world.handler.connections[0]
        server_end.push([b"\x00\x00\x00\x00", b"surprise"])
        await asyncio.sleep(0.1)
        assert world.event_names == [Event.CONNECTED, Event.BROKEN]

    play(main)


def _fail(_told: object) -> None:
    raise ValueError("a bug of the receiver")


def test_a_client_whose_receiver_fails_loses_its_connection_and_whoever_waits_hears_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.connection.send(request(world.connection, b""), _fail, timeout_ms=1000)
        world.send(b"next")
        await asyncio.sleep(0.1)
        assert [type(each) for each in world.answers] == [ConnectionLostError]
        assert world.event_names == [Event.CONNECTED, Event.BROKEN]
        world.send(b"after")
        await asyncio.sleep(0.1)
        assert world.answers[1:] == [b"answer to after"]
        world.connection.send(request(world.connection, b""), _fail, timeout_ms=1000)
        world.connection.close()

    play(main)
    assert caplog.text.count("ValueError: a bug of the receiver") == 2


def test_a_node_whose_receiver_fails_is_told_so_by_answers_failures_and_events() -> None:
    async def main(world: World) -> None:
        await world.serve()
        bugs: list[Exception] = []
        connection = world.connect(on_bug=bugs.append)
        connection.send(request(connection, b""), _fail, timeout_ms=1000)
        world.send(b"next", connection=connection)
        await asyncio.sleep(0.1)
        # Whether the node goes on is not for the connection to say.
        assert world.answers == [b"answer to next"]
        connection.send(request(connection, b""), _fail, timeout_ms=1000)
        connection.close()
        connection.send(request(connection, b""), _fail, timeout_ms=1000)
        await asyncio.sleep(0.1)
        assert [str(each) for each in bugs] == ["a bug of the receiver"] * 3

        deaf = NodeConnection(
            world.parts,
            "server",
            9092,
            on_event=_fail,
            on_bug=bugs.append,
        )
        deaf.connect()
        await asyncio.sleep(0.1)
        assert len(bugs) == 4

    play(main)


def test_a_request_without_an_answer_needs_a_connection() -> None:
    async def main(world: World) -> None:
        await world.serve()
        assert not world.connection.send_unanswered([b"silent"])
        world.connection.connect()
        await asyncio.sleep(0.1)
        assert world.connection.send_unanswered([b"silent"])
        await asyncio.sleep(0.1)
        assert world.handler.frames == [b"silent"]

    play(main)


def test_large_requests_and_answers_pass_through_small_windows() -> None:
    async def main(world: World) -> None:
        await world.serve()
        body = Random(1).randbytes(3_000_000)
        for _ in range(3):
            world.send(body, timeout_ms=60_000)
        await asyncio.sleep(10)
        assert world.answers == [b"answer to " + body] * 3

    play(main)


def test_a_partition_of_seconds_loses_nothing() -> None:
    async def main(world: World) -> None:
        await world.serve()
        world.send(b"one")
        await asyncio.sleep(0.1)
        world.network.partition({"client"}, {"server"})
        world.send(b"two", timeout_ms=30_000)
        await asyncio.sleep(5)
        assert world.answers == [b"answer to one"]
        world.network.heal()
        await asyncio.sleep(0.1)
        assert world.answers == [b"answer to one", b"answer to two"]

    play(main)
