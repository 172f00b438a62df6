from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import cast

import pytest

from tidelog.net.address import Address
from tidelog.net.errors import ListenError
from tidelog.net.limits import SocketOptions
from tidelog.simulation.loop import VirtualTimeLoop
from tidelog.simulation.network import RETRANSMISSION_TIMEOUT_S, WINDOW_BYTES, Endpoint, SimulatedHost, SimulatedNetwork


class Peer(asyncio.BufferedProtocol):
    """Records everything that happens to one end."""

    def __init__(self, *, keep_open: bool = False) -> None:
        self.received = bytearray()
        self.reads: list[int] = []
        self.read_at_s: list[float] = []
        self.events: list[str] = []
        self.lost: BaseException | None = None
        self.transport: Endpoint
        self._buffer = bytearray(1000)
        self._keep_open = keep_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("Endpoint", transport)
        self.events.append("made")

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]
        self.reads.append(nbytes)
        self.read_at_s.append(asyncio.get_running_loop().time())

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self._keep_open

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost = exc


class World:
    """Two hosts, one of them listening."""

    def __init__(self, seed: int = 0) -> None:
        self.loop = VirtualTimeLoop()
        self.network = SimulatedNetwork(self.loop, Random(seed))
        self.one = self.network.host("one")
        self.two = self.network.host("two")
        self.accepted: list[Peer] = []
        self.keep_open = False

    def admit(self, peer: Address) -> Peer:
        self.accepted.append(Peer(keep_open=self.keep_open))
        return self.accepted[-1]

    async def connect(self) -> tuple[Peer, Peer]:
        await self.two.listen("two", 9092, self.admit, SocketOptions())
        client = await self.one.connect("two", 9092, Peer)
        await asyncio.sleep(0.1)
        return client, self.accepted[0]

    def run(self, main: Callable[[World], object]) -> None:
        async def whole() -> None:
            await cast("asyncio.Future[None]", main(self))

        self.loop.run_until_complete(whole())


def test_bytes_arrive_in_order_in_other_pieces_and_later() -> None:
    async def main(world: World) -> None:
        client, server = await world.connect()
        before_s = world.loop.time()
        sent = b""
        for number in range(200):
            sent += (piece := bytes([number]) * (number % 30))
            client.transport.write(piece)
        assert server.received == b""
        await asyncio.sleep(1)
        assert server.received == sent
        assert world.loop.time() > before_s
        assert server.reads != [number % 30 for number in range(200) if number % 30]
        server.transport.write(b"and back")
        await asyncio.sleep(1)
        assert client.received == b"and back"
        assert server.transport.get_extra_info("peername") == client.transport.get_extra_info("sockname")
        assert client.transport.get_extra_info("socket") is None

    World().run(main)


def test_the_same_seed_gives_the_same_run_and_another_gives_another() -> None:
    def trace(seed: int) -> tuple[float, list[int]]:
        async def main(world: World) -> None:
            client, server = await world.connect()
            for _ in range(50):
                client.transport.write(b"0123456789")
            await asyncio.sleep(1)
            outcome.append((server.read_at_s[-1], server.reads))

        outcome: list[tuple[float, list[int]]] = []
        World(seed).run(main)
        return outcome[0]

    assert trace(1) == trace(1)
    assert trace(1) != trace(2)


def test_a_reader_that_pauses_makes_the_writer_wait() -> None:
    async def main(world: World) -> None:
        client, server = await world.connect()
        server.transport.pause_reading()
        client.transport.write(bytes(WINDOW_BYTES))
        assert "pause" not in client.events
        client.transport.write(b"x")
        await asyncio.sleep(1)
        assert client.events[-1] == "pause"
        assert server.received == b""

        server.transport.resume_reading()
        await asyncio.sleep(1)

        assert len(server.received) == WINDOW_BYTES + 1
        assert client.events[-1] == "resume"

    World().run(main)


def test_close_sends_what_was_written_then_the_end() -> None:
    async def main(world: World) -> None:
        client, server = await world.connect()
        client.transport.write(b"last words")
        client.transport.close()
        client.transport.write(b"ignored")
        await asyncio.sleep(1)
        assert server.received == b"last words"
        assert server.events == ["made", "eof", "lost"]
        assert (client.events, client.lost, server.lost) == (["made", "lost"], None, None)
        assert world.one.endpoints() == world.two.endpoints() == []

    World().run(main)


def test_half_a_close_leaves_the_other_way_open() -> None:
    async def main(world: World) -> None:
        world.keep_open = True
        client, server = await world.connect()
        client.transport.write_eof()
        await asyncio.sleep(1)
        assert server.events == ["made", "eof"]
        server.transport.write(b"still here")
        await asyncio.sleep(1)
        assert client.received == b"still here"
        server.transport.close()
        await asyncio.sleep(1)
        assert client.events == ["made", "eof", "lost"]

    World().run(main)


def test_an_abort_is_a_reset_for_the_peer() -> None:
    async def main(world: World) -> None:
        client, server = await world.connect()
        client.transport.abort()
        await asyncio.sleep(1)
        assert isinstance(server.lost, ConnectionResetError)
        assert client.lost is None

    World().run(main)


def test_nobody_listening_refuses_and_no_answer_times_out() -> None:
    async def main(world: World) -> None:
        with pytest.raises(ConnectionRefusedError):
            await world.one.connect("two", 1, Peer)
        assert world.loop.time() < 0.01
        world.network.partition({"one"}, {"two"})
        with pytest.raises(TimeoutError):
            await world.one.connect("two", 9092, Peer)
        assert world.loop.time() > 100
        assert world.one.endpoints() == world.two.endpoints() == []

    World().run(main)


def test_a_partition_holds_bytes_until_it_heals() -> None:
    async def main(world: World) -> None:
        client, server = await world.connect()
        world.network.partition({"one"}, {"two"})
        client.transport.write(b"held")
        server.transport.write(b"held too")
        await asyncio.sleep(10)
        assert client.received == server.received == b""
        world.network.heal()
        client.transport.write(b" and more")
        await asyncio.sleep(1)
        assert client.received == b"held too"
        assert server.received == b"held and more"

    World().run(main)


def test_one_way_can_be_cut_alone() -> None:
    async def main(world: World) -> None:
        client, server = await world.connect()
        world.network.cut("one", "two")
        client.transport.write(b"lost")
        server.transport.write(b"heard")
        await asyncio.sleep(1)
        assert client.received == b"heard"
        assert server.received == b""

    World().run(main)


def test_a_partition_that_lasts_breaks_the_connection_of_who_sends() -> None:
    async def main(world: World) -> None:
        client, server = await world.connect()
        world.network.partition({"one"}, {"two"})
        client.transport.write(b"into the void")
        await asyncio.sleep(RETRANSMISSION_TIMEOUT_S + 1)
        assert isinstance(client.lost, TimeoutError)
        assert server.events == ["made"]

    World().run(main)


def test_a_killed_process_resets_and_refuses() -> None:
    async def main(world: World) -> None:
        client, server = await world.connect()
        world.two.kill()
        await asyncio.sleep(1)
        assert isinstance(client.lost, ConnectionResetError)
        # A dead process hears nothing.
        assert server.events == ["made"]
        with pytest.raises(ConnectionRefusedError):
            await world.one.connect("two", 9092, Peer)

    World().run(main)


def test_a_machine_without_power_is_silent_and_back_it_knows_nothing() -> None:
    async def main(world: World) -> None:
        client, _ = await world.connect()
        world.two.lose_power()
        client.transport.write(b"anyone?")
        await asyncio.sleep(5)
        assert client.lost is None
        world.two.restore_power()
        await asyncio.sleep(1)
        assert isinstance(client.lost, ConnectionResetError)

    World().run(main)


def test_a_paused_listener_leaves_connections_in_a_bounded_backlog() -> None:
    async def main(world: World) -> None:
        acceptor = await world.two.listen("", 0, world.admit, SocketOptions(backlog=2))
        acceptor.pause()
        port = acceptor.addresses[0].port
        clients = [await world.one.connect("two", port, Peer) for _ in range(2)]
        third = asyncio.ensure_future(world.one.connect("two", port, Peer))
        clients[0].transport.write(b"early")
        await asyncio.sleep(1)
        assert world.accepted == []
        assert not third.done()
        third.cancel()

        acceptor.resume()
        await asyncio.sleep(1)

        assert [peer.received for peer in world.accepted] == [b"early", b""]

    World().run(main)


def test_what_is_not_admitted_is_closed() -> None:
    async def main(world: World) -> None:
        await world.two.listen("two", 9092, lambda _: None, SocketOptions())
        client = await world.one.connect("two", 9092, Peer)
        await asyncio.sleep(1)
        assert client.events == ["made", "eof", "lost"]

    World().run(main)


def test_a_port_is_listened_on_once_and_only_on_its_own_host() -> None:
    async def main(world: World) -> None:
        host: SimulatedHost = world.two
        acceptor = await host.listen("two", 9092, world.admit, SocketOptions())
        with pytest.raises(ListenError, match="in use"):
            await host.listen("", 9092, world.admit, SocketOptions())
        with pytest.raises(ListenError, match="not an address of two"):
            await host.listen("one", 9093, world.admit, SocketOptions())
        acceptor.close()
        await host.listen("", 9092, world.admit, SocketOptions())

    World().run(main)


def test_resetting_a_link_breaks_both_ends() -> None:
    async def main(world: World) -> None:
        client, server = await world.connect()
        world.network.reset("two", "one")
        await asyncio.sleep(1)
        assert isinstance(client.lost, ConnectionResetError)
        assert isinstance(server.lost, ConnectionResetError)

    World().run(main)


def test_a_stalled_process_is_connected_to_and_written_to_and_hears_of_it_later() -> None:
    async def main(world: World) -> None:
        await world.two.listen("two", 9092, world.admit, SocketOptions())
        world.loop.stall("two")
        client = await world.one.connect("two", 9092, Peer)
        client.transport.write(b"hello")
        await asyncio.sleep(10)
        assert world.accepted == []
        world.loop.resume("two")
        await asyncio.sleep(0.1)
        assert world.accepted[0].received == b"hello"

    World().run(main)


def test_a_slow_link_lets_one_connection_overtake_another_and_none_itself() -> None:
    async def main(world: World) -> None:
        first, one = await world.connect()
        second = await world.one.connect("two", 9092, Peer)
        await asyncio.sleep(0.1)
        world.network.slow("one", "two", 500)
        for number in range(20):
            first.transport.write(b"%02d" % number)
            second.transport.write(b"%02d" % number)
        await asyncio.sleep(20)
        other = world.accepted[1]
        assert one.received == other.received == b"".join(b"%02d" % number for number in range(20))
        assert one.read_at_s[-1] - one.read_at_s[0] > 0.1
        # Written after the other's, and here before it.
        assert other.read_at_s[0] < one.read_at_s[0] or one.read_at_s[1] < other.read_at_s[0]

    World().run(main)


def test_a_connection_request_that_is_lost_is_sent_again() -> None:
    async def main(world: World) -> None:
        await world.two.listen("two", 9092, world.admit, SocketOptions())
        world.network.cut("one", "two")
        world.loop.call_later(2, world.network.heal)
        await world.one.connect("two", 9092, Peer)
        assert 2 < world.loop.time() < 4

    World().run(main)


def test_connections_to_one_port_can_be_cut_alone() -> None:
    async def main(world: World) -> None:
        client, server = await world.connect()
        await world.two.listen("two", 9093, world.admit, SocketOptions())
        other = await world.one.connect("two", 9093, Peer)
        world.network.cut("one", "two", 9092)
        client.transport.write(b"held")
        other.transport.write(b"through")
        server.transport.write(b"back")
        await asyncio.sleep(1)
        assert bytes(server.received) == b""
        assert world.accepted[1].received == b"through"
        assert client.received == b"back"
        world.network.mend("one", "two", 9092)
        await asyncio.sleep(1)
        assert server.received == b"held"

    World().run(main)
