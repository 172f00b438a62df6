"""The server's end in memory and on virtual time: the same code as over sockets, with exact times."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast

import pytest

from tests.support.net import Recorder, framed
from tests.support.tls_files import material, new_authority, trusted
from tidelog.model.bugs import BugError
from tidelog.model.listener_config import LISTENER_CONFIG_KEYS
from tidelog.net.address import Address
from tidelog.net.connection import LOGIN_PENDING, Connection
from tidelog.net.limits import ConnectionLimits, NodeLimits
from tidelog.net.socket_server import LINGER_MS_MAX, SocketServer
from tidelog.net.tls import ServerTls
from tidelog.security.listener_settings import ListenerSettings
from tidelog.security.tls_contexts import client_context, server_context
from tidelog.security.tls_settings import TlsSettings
from tidelog.security.tls_stores import TlsStores
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.simulation.network import Endpoint, SimulatedNetwork


class Client(asyncio.Protocol):
    """Raw bytes, with the time at which it was closed."""

    def __init__(self) -> None:
        self.received = b""
        self.ended_s: float | None = None
        self.endpoint: Endpoint

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.endpoint = cast("Endpoint", transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended_s = asyncio.get_running_loop().time()

    @property
    def port(self) -> int:
        return int(self.endpoint.get_extra_info("sockname")[1])

    def send(self, *frames: bytes) -> None:
        self.endpoint.write(b"".join(framed(frame) for frame in frames))


class World:
    def __init__(self, limits: NodeLimits | None = None, *, hold: bool = False) -> None:
        self.loop = VirtualTimeLoop()
        self.network = SimulatedNetwork(self.loop, Random(8))
        self.handler = Recorder(hold=hold)
        self.server = SocketServer(self.loop, self.network.host("server"), limits, clock=VirtualClock(self.loop))

    async def serve(self, name: str = "CLIENTS", port: int = 9092, **options: Any) -> None:
        await self.server.listen(name, "", port, self.handler, **options)

    async def client(self, host: str = "client", port: int = 9092) -> Client:
        made = await self.network.host(host).connect("server", port, Client)
        await asyncio.sleep(0.01)
        return made

    def play(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop.run_until_complete(main())


def test_an_idle_connection_ends_in_time_and_traffic_postpones_it() -> None:
    world = World(NodeLimits(connection=ConnectionLimits(idle_ms_max=8000)))

    async def main() -> None:
        await world.serve()
        idle, busy = await world.client(), await world.client()
        for _ in range(30):
            busy.send(b"x")
            await asyncio.sleep(1)
        assert idle.ended_s is not None
        assert 8 <= idle.ended_s <= 8 * 1.3
        assert [each.peer_address.port for each in world.server.connections.values()] == [busy.port]
        await asyncio.sleep(20)
        assert world.server.connections == {}
        world.server.abort()

    world.play(main)


def test_a_peer_that_stops_reading_is_idle() -> None:
    world = World(NodeLimits(connection=ConnectionLimits(idle_ms_max=8000)))
    world.handler.respond = lambda _: [bytes(2_000_000)]

    async def main() -> None:
        await world.serve()
        client = await world.client()
        client.endpoint.pause_reading()
        client.send(b"much")
        await asyncio.sleep(20)
        assert world.server.connections == {}

    world.play(main)


def test_idle_connections_may_stay_for_ever() -> None:
    world = World(NodeLimits(connection=ConnectionLimits(idle_ms_max=-1)))

    async def main() -> None:
        await world.serve()
        await world.client()
        await asyncio.sleep(1_000_000)
        assert len(world.server.connections) == 1

    world.play(main)


def test_the_clusters_traffic_takes_the_place_of_the_longest_idle_client() -> None:
    world = World(NodeLimits(connections_max=2))

    async def main() -> None:
        await world.serve()
        await world.serve("REPLICATION", 9093, protected=True)
        first, second = await world.client(), await world.client()
        await asyncio.sleep(100)
        first.send(b"not idle")
        await asyncio.sleep(100)
        first.send(b"not idle")
        await asyncio.sleep(1)
        follower = await world.client("follower", 9093)
        await asyncio.sleep(1)
        assert first.ended_s is None
        assert second.ended_s is not None
        follower.send(b"fetch")
        await asyncio.sleep(1)
        assert follower.received == framed(b"fetch")

    world.play(main)


def test_limits_change_at_run_time() -> None:
    world = World(NodeLimits(connections_max=1))

    async def main() -> None:
        await world.serve()
        await world.client()
        waiting = await world.client()
        waiting.send(b"let me in")
        await asyncio.sleep(10)
        assert waiting.received == b""
        await world.server.set_quota(10, 2, {"guest": 0}, {})
        await asyncio.sleep(1)
        assert waiting.received == framed(b"let me in")
        assert (await world.client()).ended_s is not None
        assert (await world.client("guest")).ended_s is not None
        assert (await world.client("other")).ended_s is None

    world.play(main)


def test_a_connection_that_is_muted_for_two_reasons_waits_for_both() -> None:
    world = World()

    async def main() -> None:
        await world.serve()
        client = await world.client()
        (connection,) = world.server.connections.values()
        connection.mute(LOGIN_PENDING)
        connection.mute()
        client.send(b"one", b"two")

        connection.unmute()
        await asyncio.sleep(1)
        assert client.received == b""
        connection.unmute(LOGIN_PENDING)
        await asyncio.sleep(1)
        assert client.received == framed(b"one") + framed(b"two")

    world.play(main)


def test_whoever_is_too_many_after_a_change_goes_and_the_clusters_own_stay() -> None:
    world = World(NodeLimits(connections_max=10))

    async def main() -> None:
        await world.serve()
        await world.serve("REPLICATION", 9093, protected=True)
        follower, silent, busy = await world.client("a", 9093), await world.client("b"), await world.client("c")
        await asyncio.sleep(100)
        busy.send(b"not silent")
        await asyncio.sleep(1)

        await world.server.set_quota(2, 10, {}, {"CLIENTS": 1})

        await asyncio.sleep(1)
        assert [each.ended_s is None for each in (follower, silent, busy)] == [True, False, True]
        waiting = await world.client("d")
        waiting.send(b"let me in")
        await world.server.set_quota(10, 10, {}, {})
        await asyncio.sleep(1)
        assert waiting.received == b""
        await world.server.set_quota(10, 10, {}, {"CLIENTS": 2})
        await asyncio.sleep(1)
        assert waiting.received == framed(b"let me in")

    world.play(main)


def test_answers_of_one_turn_leave_in_one_write() -> None:
    world = World(hold=True)

    async def main() -> None:
        await world.serve()
        client, other = await world.client(), await world.client()
        client.send(*(b"%d" % number for number in range(10)))
        other.send(b"a", b"b")
        await world.handler.until(lambda: len(world.handler.slots) == 12)
        writes: list[tuple[Connection, int]] = []
        for connection in world.handler.connections:
            count_writes(connection, writes)

        with world.server.turn:
            for slot in world.handler.slots:
                slot.send([b"answer"])
            assert writes == []

        assert [written for _, written in writes] == [100, 20]
        assert len({connection for connection, _ in writes}) == 2

    world.play(main)


def count_writes(connection: Connection, writes: list[tuple[Connection, int]]) -> None:
    transport = connection._transport
    assert transport is not None
    write = transport.write

    def counting(data: Any) -> None:
        writes.append((connection, len(data)))
        write(data)

    transport.write = counting  # type: ignore[method-assign]


def test_a_request_is_answered_once() -> None:
    world = World(hold=True)

    async def main() -> None:
        await world.serve()
        client = await world.client()
        client.send(b"x")
        await world.handler.until(lambda: len(world.handler.slots) == 1)
        world.handler.slots[0].send([b"answer"])
        with pytest.raises(BugError, match="answered twice"):
            world.handler.slots[0].send([b"again"])
        await asyncio.sleep(1)
        assert client.received == framed(b"answer")

    world.play(main)


def test_answers_that_wait_for_an_earlier_one_count_as_output() -> None:
    world = World(NodeLimits(connection=ConnectionLimits(output_bytes_max=1000)), hold=True)

    async def main() -> None:
        await world.serve()
        client = await world.client()
        client.send(b"0", b"1")
        await world.handler.until(lambda: len(world.handler.slots) == 2)
        world.handler.slots[1].send([bytes(2000)])
        client.send(b"2")
        await asyncio.sleep(10)
        assert len(world.handler.slots) == 2
        world.handler.slots[0].send([b"first"])
        await asyncio.sleep(10)
        assert len(world.handler.slots) == 3

    world.play(main)


def test_a_drained_peer_that_does_not_close_is_cut_off_soon() -> None:
    world = World()

    async def main() -> None:
        await world.serve()
        client = await world.client()
        client.endpoint.pause_reading()
        started_s = world.loop.time()
        await world.server.drain(timeout_ms=60_000)
        assert world.loop.time() - started_s <= LINGER_MS_MAX / 1000 + 0.01

    world.play(main)


def test_draining_nobody_is_done_at_once() -> None:
    world = World()

    async def main() -> None:
        await world.serve()
        await world.server.drain(timeout_ms=60_000)
        assert world.loop.time() == 0

    world.play(main)


def test_one_listener_is_drained_while_others_go_on() -> None:
    world = World()

    async def main() -> None:
        await world.serve()
        await world.serve("CONTROLLER", 9093)
        client, voter = await world.client(), await world.client(port=9093)
        await world.server.drain(60_000, ["CLIENTS"])
        with pytest.raises(ConnectionRefusedError):
            await world.client()
        later = await world.client(port=9093)
        for each in (voter, later):
            each.send(b"still there")
        await asyncio.sleep(1)
        assert client.ended_s is not None
        assert [each.received for each in (client, voter, later)] == [b"", *[framed(b"still there")] * 2]
        await world.server.drain(60_000)
        assert world.server.connections == {}

    world.play(main)


def test_many_connections_in_a_chaotic_network_get_exactly_their_answers() -> None:
    world = World(NodeLimits(connection=ConnectionLimits(unanswered_requests_max=7, output_bytes_max=5000)), hold=True)

    async def main() -> None:
        await world.serve()
        chance = Random(9)
        clients = [await world.client(f"client-{number}") for number in range(20)]
        expected = [b""] * 20
        for _ in range(300):
            number = chance.randrange(20)
            body = b"%d:" % number + chance.randbytes(chance.choice([0, 10, 3000]))
            expected[number] += framed(body)
            clients[number].send(body)
            if chance.random() < 0.1:
                world.network.partition({"server"}, {f"client-{chance.randrange(20)}"})
            if chance.random() < 0.2:
                world.network.heal()
            await asyncio.sleep(chance.choice([0, 0.001, 0.01]))
            answer_some(world.handler, chance)
        world.network.heal()
        for _ in range(2000):
            await asyncio.sleep(0.001)
            answer_some(world.handler, chance)
        await asyncio.sleep(1)
        assert [client.received for client in clients] == expected

    world.play(main)


def answer_some(handler: Recorder, chance: Random) -> None:
    """Completes slots in any order; each echoes its request."""
    echoes = handler.__dict__.setdefault("echoes", {})
    for slot, request in zip(handler.slots, handler.frames, strict=True):
        if slot not in echoes and chance.random() < 0.3:
            echoes[slot] = True
            slot.send([request])


def test_limits_come_from_the_configuration() -> None:
    values = LISTENER_CONFIG_KEYS.parse(
        {
            "max.connections": "11",
            "max.connections.per.ip": "12",
            "max.connections.per.ip.overrides": "127.0.0.1:13, [::1]:14",
            "socket.request.max.bytes": "15",
            "queued.max.requests": "16",
            "connections.max.idle.ms": "17",
            "socket.listen.backlog.size": "18",
            "socket.send.buffer.bytes": "19",
            "socket.receive.buffer.bytes": "-1",
        }
    )

    limits = NodeLimits.from_config(values)

    assert (limits.connections_max, limits.connections_per_ip_max) == (11, 12)
    assert limits.connections_per_ip_overrides == {"127.0.0.1": 13, "::1": 14}
    assert limits.connection == ConnectionLimits(15, 16, limits.connection.output_bytes_max, 17)
    assert (limits.socket.backlog, limits.socket.send_buffer_bytes, limits.socket.receive_buffer_bytes) == (18, 19, -1)


def test_addresses_print_as_people_write_them() -> None:
    assert str(Address("127.0.0.1", 9092)) == "127.0.0.1:9092"
    assert str(Address("::1", 9092)) == "[::1]:9092"


class TlsClient:
    """The client's end of TLS over a `Client`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        trusting = client_context(TLS, TlsStores(None, trusted(AUTHORITY), (None, None)))
        self.end = trusting.wrap_bio(self.incoming, self.outgoing, server_hostname="server")

    async def shake(self) -> None:
        for _ in range(2):
            with contextlib.suppress(ssl.SSLWantReadError):
                self.end.do_handshake()
            self.client.endpoint.write(self.outgoing.read())
            await asyncio.sleep(0.01)
            self.incoming.write(self.client.received)
            self.client.received = b""

    async def ask(self, frame: bytes) -> bytes:
        self.end.write(framed(frame))
        self.client.endpoint.write(self.outgoing.read())
        await asyncio.sleep(0.05)
        self.incoming.write(self.client.received)
        return self.end.read(100_000)


AUTHORITY = new_authority()
TLS = TlsSettings.of(ListenerSettings({}, "CLIENTS"))


def server_tls() -> ServerTls:
    key = material(AUTHORITY.node_certificate(["server"]))
    return ServerTls(server_context(TLS, TlsStores(key, None, (None, None))))


def test_tls_goes_over_a_network_in_memory_too() -> None:
    world = World()

    async def main() -> None:
        await world.serve(tls=server_tls())
        client = TlsClient(await world.client())
        await client.shake()
        assert len(world.handler.connections) == 1
        assert await client.ask(b"hello") == framed(b"hello")

    world.play(main)


def test_a_handshake_that_is_not_ended_is_cut_off_after_its_time_and_the_delay() -> None:
    world = World()

    async def main() -> None:
        await world.serve(tls=server_tls())
        client = await world.client()
        opened_s = world.loop.time()
        client.endpoint.write(b"\x16\x03\x01")
        await asyncio.sleep(11)
        assert client.ended_s is not None
        assert 10.0 <= client.ended_s - opened_s + 0.02 <= 10.2
        assert not world.server.connections

    world.play(main)


def test_a_handshake_under_way_does_not_hold_up_draining() -> None:
    world = World()

    async def main() -> None:
        await world.serve(tls=server_tls())
        client = await world.client()
        client.endpoint.write(b"\x16\x03\x01")
        await asyncio.sleep(0.01)
        begun_s = world.loop.time()
        await world.server.drain(60_000)
        assert world.loop.time() - begun_s <= LINGER_MS_MAX / 1000 + 0.01

    world.play(main)
