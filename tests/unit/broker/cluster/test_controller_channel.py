"""The way to the active controller: here, elsewhere, nowhere yet; and what becomes of a request when that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from msgspec.structs import replace

from tidelog.broker.cluster import envelopes
from tidelog.broker.cluster.controller_channel import IN_FLIGHT_MAX, WAITING_MAX, ControllerChannel
from tidelog.controller.controller import ControllerContext
from tidelog.controller.requests import refusal_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.model.timers import LoopTimers
from tidelog.net.connection import AnswerSlot, Connection
from tidelog.net.node_connection import ConnectionOptions, ConnectionParts, Event, NodeConnection
from tidelog.net.socket_server import SocketServer
from tidelog.raft.voter_set import Node
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.simulation.network import SimulatedNetwork
from tidelog.wire.frames import read_request, read_request_header
from tidelog.wire.messages.broker_lifecycle import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.wire.messages.headers import RequestHeader
from tidelog.wire.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
)
from tidelog.wire.schema import Request, Response

PORT = 9093
HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=3, broker_epoch=7, current_metadata_offset=9, want_fence=False, want_shut_down=False, offline_log_dirs=[]
)
HEARD = BrokerHeartbeatResponse(
    throttle_time_ms=0, error_code=0, is_caught_up=True, is_fenced=False, should_shut_down=False
)
CREATE = CreateTopicsRequest(topics=[])
CREATED = CreateTopicsResponse(throttle_time_ms=0, topics=[])
ALICE = ControllerContext(Principal("User", "alice", token_authenticated=True), "her client", "10.0.0.7", api_version=5)


class Local:
    """This node's controller."""

    def __init__(self) -> None:
        self.is_active = False
        self.asked: list[tuple[Request, ControllerContext | None]] = []

    def handle(self, request: Request, context: ControllerContext | None) -> Pending[Response]:
        self.asked.append((request, context))
        pending: Pending[Response] = Pending()
        pending.complete(HEARD)
        return pending


class Leaders:
    """What this node knows of the leader."""

    def __init__(self) -> None:
        self.leader_node: Node | None = None
        self._watchers: list[Callable[[], None]] = []

    def watch_leader(self, watcher: Callable[[], None]) -> None:
        self._watchers.append(watcher)

    def change(self, number: int | None) -> None:
        self.leader_node = None if number is None else Node(NodeId(number), f"node-{number}", PORT)
        for watcher in self._watchers:
            watcher()


class Remote:
    """A controller on another machine, which answers what it is told to, or nothing."""

    def __init__(self, world: World, number: int, *, is_controller: bool = True, is_silent: bool = False) -> None:
        self.received: list[Request] = []
        self.opened = self.closed = 0
        # What becomes of envelopes, where it is something else.
        self.on_envelope: Callable[[AnswerSlot, RequestHeader], None] | None = None
        self._is_controller = is_controller
        self._is_silent = is_silent
        self._server = SocketServer(world.loop, world.network.host(f"node-{number}"), clock=VirtualClock(world.loop))
        self._number = number

    async def listen(self) -> Remote:
        await self._server.listen("CONTROLLER", f"node-{self._number}", PORT, self)
        return self

    def connection_opened(self, connection: Connection) -> None:
        self.opened += 1

    def connection_closed(self, connection: Connection) -> None:
        self.closed += 1

    def frames_done(self, connection: Connection) -> None: ...

    def frame(self, connection: Connection, frame: memoryview) -> None:
        header, position = read_request_header(frame)
        request = read_request(frame, header, position)
        self.received.append(request)
        slot = connection.expect_answer()
        if isinstance(request, EnvelopeRequest) and self.on_envelope is not None:
            self.on_envelope(slot, header)
        elif not self._is_silent:
            slot.send([envelopes.answer_bytes(self._answer(request), header)])

    def _answer(self, request: Request) -> Response:
        if not isinstance(request, EnvelopeRequest):
            answer: Response = CREATED if isinstance(request, CreateTopicsRequest) else HEARD
            return answer if self._is_controller else refusal_of(request, ErrorCode.NOT_CONTROLLER)
        if not self._is_controller:
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        header = envelopes.unwrap(request).header
        return EnvelopeResponse(response_data=envelopes.answer_bytes(CREATED, header), error_code=0)


class World:
    def __init__(self) -> None:
        self.loop = VirtualTimeLoop()
        self.random = Random(1)
        self.network = SimulatedNetwork(self.loop, self.random)
        self.local = Local()
        self.leaders = Leaders()
        self.channel = ControllerChannel(
            self.local,
            self.leaders,
            self._dial,
            LoopTimers(self.loop),
            VirtualClock(self.loop),
            client_id="3",
        )

    def _dial(self, host: str, port: int, on_event: Callable[[Event], None]) -> NodeConnection:
        parts = ConnectionParts(self.loop, self.network.host("node-3"), self.random)
        return NodeConnection(parts, host, port, on_event=on_event, options=ConnectionOptions(reconnect_backoff_ms=10))

    def run(self, story: Callable[[World], Awaitable[None]]) -> None:
        async def told() -> None:
            await story(self)
            self.channel.close()

        try:
            self.loop.run_until_complete(told())
        finally:
            self.loop.close()

    async def answer(self, pending: Pending[Response]) -> Response:
        for _ in range(100_000):
            if pending.is_complete:
                return pending.value
            await asyncio.sleep(0.001)
        raise AssertionError("no answer came")


def test_the_own_controller_decides_while_it_is_the_active_one() -> None:
    async def story(world: World) -> None:
        world.local.is_active = True
        assert world.channel.ask(CREATE, ALICE).value == HEARD
        assert world.local.asked == [(CREATE, ALICE)]

    World().run(story)


def test_what_nodes_ask_goes_as_it_is_and_what_clients_ask_in_an_envelope() -> None:
    async def story(world: World) -> None:
        remote = await Remote(world, 1).listen()
        world.leaders.change(1)
        assert await world.answer(world.channel.ask(HEARTBEAT)) == HEARD
        assert await world.answer(world.channel.ask(CREATE, ALICE)) == CREATED
        # Nothing was asked for, so a refusal would look the same: it is an answer all the same.
        assert world.loop.time() < 1
        assert remote.received[0] == HEARTBEAT
        assert isinstance(remote.received[1], EnvelopeRequest)
        opened = envelopes.unwrap(remote.received[1])
        assert (opened.request, opened.context, opened.header.client_id) == (CREATE, ALICE, ALICE.client_id)
        assert opened.header.request_api_version == ALICE.api_version

    World().run(story)


def test_what_a_node_asks_for_itself_needs_no_envelope_whatever_it_is() -> None:
    async def story(world: World) -> None:
        remote = await Remote(world, 1).listen()
        world.leaders.change(1)
        assert await world.answer(world.channel.ask(CREATE)) == CREATED
        assert remote.received == [CREATE]

    World().run(story)


def test_an_old_clients_request_arrives_with_the_fields_that_newer_versions_lack() -> None:
    delete = DeleteTopicsRequest(topics=[], topic_names=["orders"], timeout_ms=1000)
    opened = envelopes.unwrap(envelopes.wrap(delete, replace(ALICE, api_version=1)))
    assert (opened.header.request_api_version, opened.request) == (1, delete)


@pytest.mark.parametrize("request_", [HEARTBEAT, CREATE])
def test_a_request_goes_on_to_the_next_leader_when_the_first_one_is_none(request_: Request) -> None:
    async def story(world: World) -> None:
        await Remote(world, 1, is_controller=False).listen()
        await Remote(world, 2).listen()
        world.leaders.change(1)
        asked = world.channel.ask(request_, ALICE)
        await asyncio.sleep(0.5)
        assert not asked.is_complete
        world.leaders.change(2)
        assert await world.answer(asked) in (HEARD, CREATED)

    World().run(story)


def test_a_leader_that_hangs_is_left_when_another_one_is_known() -> None:
    async def story(world: World) -> None:
        hanging = await Remote(world, 1, is_silent=True).listen()
        await Remote(world, 2).listen()
        world.leaders.change(1)
        asked = world.channel.ask(HEARTBEAT)
        await asyncio.sleep(1)
        assert hanging.received == [HEARTBEAT]
        began_s = world.loop.time()
        world.leaders.change(2)
        assert await world.answer(asked) == HEARD
        assert world.loop.time() - began_s < 0.1

    World().run(story)


def test_a_request_waits_for_a_leader_and_for_one_that_is_not_up_yet() -> None:
    async def story(world: World) -> None:
        asked = world.channel.ask(HEARTBEAT)
        await asyncio.sleep(1)
        world.leaders.change(1)
        await asyncio.sleep(1)
        assert not asked.is_complete
        await Remote(world, 1).listen()
        assert await world.answer(asked) == HEARD

    World().run(story)


def test_without_a_controller_the_time_runs_out() -> None:
    async def story(world: World) -> None:
        answer = await world.answer(world.channel.ask(HEARTBEAT, timeout_ms=2000))
        assert isinstance(answer, BrokerHeartbeatResponse)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert 2.0 <= world.loop.time() < 2.2

    World().run(story)


def test_without_a_controller_so_many_requests_of_clients_wait_and_no_more() -> None:
    async def story(world: World) -> None:
        waiting = [world.channel.ask(CREATE, ALICE) for _ in range(WAITING_MAX)]
        orders = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        one_more = world.channel.ask(CreateTopicsRequest(topics=[orders]), ALICE)
        heartbeat = world.channel.ask(HEARTBEAT)

        assert one_more.is_complete
        refused = one_more.value
        assert isinstance(refused, CreateTopicsResponse)
        assert [topic.error_code for topic in refused.topics] == [ErrorCode.REQUEST_TIMED_OUT]
        assert not any(each.is_complete for each in waiting)

        await Remote(world, 1).listen()
        world.leaders.change(1)
        assert await world.answer(heartbeat) == HEARD
        assert await world.answer(waiting[0]) == CREATED

    World().run(story)


WHOLE = envelopes.wrap(CREATE, ALICE)


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (replace(WHOLE, request_data=b""), ErrorCode.UNSUPPORTED_VERSION),
        (replace(WHOLE, request_data=WHOLE.request_data[:-1]), ErrorCode.UNSUPPORTED_VERSION),
        (replace(WHOLE, request_data=b"\0\x13\0\x63" + WHOLE.request_data[4:]), ErrorCode.UNSUPPORTED_VERSION),
        # A heartbeat of a broker, and a Produce: neither of them is forwarded.
        (replace(WHOLE, request_data=envelopes.request_bytes(HEARTBEAT, 1, 0, None)), ErrorCode.INVALID_REQUEST),
        (replace(WHOLE, request_data=b"\0\0\0\x0d" + WHOLE.request_data[4:]), ErrorCode.INVALID_REQUEST),
        (replace(WHOLE, request_principal=None), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (replace(WHOLE, request_principal=b""), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (replace(WHOLE, request_principal=b"\0"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (replace(WHOLE, request_principal=b"\0\1\2a\2b\0\0"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (replace(WHOLE, request_principal=b"\0\0\x40garbage"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (replace(WHOLE, client_host_address=b"\x7f"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_envelope_that_is_not_what_it_should_be_is_refused(broken: EnvelopeRequest, error: ErrorCode) -> None:
    with pytest.raises(envelopes.EnvelopeError) as refused:
        envelopes.unwrap(broken)
    assert refused.value.error is error


def test_an_address_travels_as_bytes_and_comes_out_in_javas_form() -> None:
    for host, bytes_length in (("10.0.0.7", 4), ("2001:db8:0:0:0:0:0:10", 16)):
        envelope = envelopes.wrap(CREATE, replace(ALICE, host=host))
        assert len(envelope.client_host_address) == bytes_length
        assert envelopes.unwrap(envelope).context.host == host


def test_a_flood_of_clients_requests_without_an_answer_holds_up_no_heartbeat() -> None:
    async def story(world: World) -> None:
        remote = await Remote(world, 1).listen()
        held: list[tuple[AnswerSlot, RequestHeader]] = []
        remote.on_envelope = lambda slot, header: held.append((slot, header))
        world.leaders.change(1)
        asked = [world.channel.ask(CREATE, ALICE) for _ in range(10 * IN_FLIGHT_MAX)]
        await asyncio.sleep(1)
        assert len(held) == IN_FLIGHT_MAX

        began_s = world.loop.time()
        assert await world.answer(world.channel.ask(HEARTBEAT)) == HEARD
        assert world.loop.time() - began_s < 0.1
        assert not any(each.is_complete for each in asked)

        remote.on_envelope = None
        for slot, header in held:
            answer = EnvelopeResponse(response_data=envelopes.answer_bytes(CREATED, _inner()), error_code=0)
            slot.send([envelopes.answer_bytes(answer, header)])
        for each in asked:
            assert await world.answer(each) == CREATED
        # Each once: what waited has not been sent again and again meanwhile.
        assert sum(isinstance(each, EnvelopeRequest) for each in remote.received) == len(asked)

    World().run(story)


def test_a_request_that_breaks_its_connection_breaks_no_heartbeats_and_is_sent_ever_less_often() -> None:
    async def story(world: World) -> None:
        remote = await Remote(world, 1).listen()
        remote.on_envelope = lambda slot, _header: slot.close_connection()
        world.leaders.change(1)
        assert await world.answer(world.channel.ask(HEARTBEAT)) == HEARD
        asked = world.channel.ask(CREATE, ALICE, timeout_ms=30_000)
        while not asked.is_complete:
            assert await world.answer(world.channel.ask(HEARTBEAT)) == HEARD
            await asyncio.sleep(0.5)

        tries = sum(isinstance(each, EnvelopeRequest) for each in remote.received)
        assert 5 <= tries <= 40
        # All of them on connections of their own.
        assert remote.opened == remote.closed + 1
        assert remote.closed == tries

    World().run(story)


def test_a_request_that_broke_its_connection_is_asked_of_the_next_leader_at_once() -> None:
    async def story(world: World) -> None:
        remote = await Remote(world, 1).listen()
        remote.on_envelope = lambda slot, _header: slot.close_connection()
        await Remote(world, 2).listen()
        world.leaders.change(1)
        asked = world.channel.ask(CREATE, ALICE)
        await asyncio.sleep(10)
        began_s = world.loop.time()
        world.leaders.change(2)
        assert await world.answer(asked) == CREATED
        assert world.loop.time() - began_s < 0.1

    World().run(story)


def test_an_answer_that_cannot_be_read_is_an_error_of_that_request() -> None:
    async def story(world: World) -> None:
        remote = await Remote(world, 1).listen()

        def nonsense(slot: AnswerSlot, header: RequestHeader) -> None:
            answer = EnvelopeResponse(response_data=b"\0", error_code=0)
            slot.send([envelopes.answer_bytes(answer, header)])

        remote.on_envelope = nonsense
        world.leaders.change(1)
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1, assignments=[], configs=[])]
        )
        answer = await world.answer(world.channel.ask(request, ALICE))
        assert isinstance(answer, CreateTopicsResponse)
        assert [each.error_code for each in answer.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert len(remote.received) == 1

    World().run(story)


def _inner() -> RequestHeader:
    """That of the request in an envelope of Alice's."""
    return envelopes.unwrap(WHOLE).header
