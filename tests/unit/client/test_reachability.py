"""What clients say of nodes that are down, on virtual time: one line for each change, whatever they try in the meantime."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.support.scripted_cluster import PORT, Fault, ScriptedCluster
from tidelog.client.admin import AsyncAdmin
from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.connections import Channel, Connections
from tidelog.client.consumer.async_consumer import AsyncConsumer
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.coordinators import CoordinatorKind, Coordinators
from tidelog.client.errors import TimedOutError
from tidelog.client.options import ClientOptions, parse_options
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.reachability import Reachability
from tidelog.net.address import Address
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse

DOWN = "cannot connect to broker-1:9092: connection refused; trying again"
UP = "broker-1:9092 is reached again"
A_LONG_TIME_S = 600


class Client:
    """The parts that all clients share."""

    def __init__(self, world: ScriptedCluster, **options: Any) -> None:
        parsed = parse_options(ClientOptions, {"bootstrap_servers": world.bootstrap_servers, **options})
        self.connections = Connections(world.seams, parsed)
        self.metadata = ClusterMetadata(world.seams, self.connections, parsed)

    async def ask(self, node_id: int, channel: Channel = Channel.DATA) -> None:
        request = MetadataRequest(topics=None, include_topic_authorized_operations=False)
        await self.connections.ask(node_id, request, MetadataResponse, channel=channel)

    def close(self) -> None:
        self.metadata.close()
        self.connections.close()


@pytest.fixture(autouse=True)
def _quiet_loop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tidelog.client")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_node_that_dies_and_comes_back_is_two_lines_for_all_connections_of_all_idle_clients(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        clients = [Client(world) for _ in range(3)]
        for client in clients:
            await client.metadata.topic("orders", 1000)
            await client.ask(1)
            await client.ask(1, Channel.COORDINATOR)
        world.brokers[1].kill()
        await asyncio.sleep(2)
        assert lines(caplog) == [DOWN]
        await asyncio.sleep(A_LONG_TIME_S)
        assert lines(caplog) == [DOWN]
        await world.brokers[1].start()
        await asyncio.sleep(2)
        assert lines(caplog) == [DOWN, UP]
        world.brokers[1].kill()
        await asyncio.sleep(2)
        assert lines(caplog) == [DOWN, UP, DOWN]
        for client in clients:
            client.close()

    world.run(main)


def test_one_node_of_several_is_said_to_be_down_and_to_be_back_though_nobody_needs_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ScriptedCluster(brokers=3, topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        client = Client(world)
        await client.metadata.topic("orders", 1000)
        await client.ask(2)
        world.brokers[2].kill()
        await asyncio.sleep(A_LONG_TIME_S)
        await world.brokers[2].start()
        # The metadata has left it out for long, and is asked for every five minutes.
        await asyncio.sleep(A_LONG_TIME_S)
        client.close()

    world.run(main)
    assert lines(caplog) == [DOWN.replace("-1", "-2"), UP.replace("-1", "-2")]


def test_a_connection_that_the_node_closes_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        client = Client(world)
        await client.metadata.topic("orders", 1000)
        world.brokers[1].script = lambda request: Fault.BREAK if isinstance(request, MetadataRequest) else None
        client.metadata.request_update()
        await asyncio.sleep(30)
        client.close()

    world.run(main)
    assert lines(caplog) == []


def test_a_node_that_takes_connections_and_is_silent_is_down_after_two_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        world.brokers[1].script = lambda _request: Fault.IGNORE
        client = Client(world)
        client.metadata.request_update()
        await asyncio.sleep(2.1)
        assert lines(caplog) == ["broker-1:9092 has not answered for 2 s; trying again"]
        await asyncio.sleep(A_LONG_TIME_S)
        world.brokers[1].script = lambda _request: None
        await asyncio.sleep(60)
        client.close()

    world.run(main)
    assert lines(caplog)[1:] == [UP]


def test_a_client_that_is_closed_takes_back_what_it_said(caplog: pytest.LogCaptureFixture) -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        world.brokers[1].kill()
        for _ in range(2):
            client = Client(world)
            client.metadata.request_update()
            await asyncio.sleep(10)
            client.close()

    world.run(main)
    assert lines(caplog) == [DOWN, DOWN]


def test_two_names_of_one_node_are_one_node(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    client = Reachability(loop, [Address("localhost", PORT)])
    named, numbered = Address("localhost", PORT), Address("127.0.0.1", PORT)
    for address in (named, numbered):
        client.connected(address, numbered)
        client.answered(address)

    client.failed(numbered, "127.0.0.1 is down")
    client.failed(named, "localhost is down")
    client.answered(named)

    loop.close()
    assert lines(caplog) == ["127.0.0.1 is down; trying again", "localhost:9092 is reached again"]


def test_what_is_remembered_of_nodes_that_are_gone_for_good_is_bounded() -> None:
    loop = asyncio.new_event_loop()
    client = Reachability(loop, [])
    for port in range(1, 2001):
        client.failed(Address("gone", port), "down")
    there = [port for port in range(1, 2001) if client.is_down(Address("gone", port))]
    loop.close()

    assert there == list(range(2001 - len(there), 2001))
    assert len(there) < 1000


TWO_SERVERS = "broker-1:9092,broker-7:9092"
NEVER = (
    "no bootstrap server was reached: cannot connect to broker-1:9092: connection refused; "
    "cannot connect to broker-7:9092: connection refused"
)


async def _send(world: ScriptedCluster) -> None:
    async with AsyncProducer.on(world.seams, bootstrap_servers=TWO_SERVERS, max_block_ms=3000) as producer:
        await producer.send("orders", b"x")


async def _init_transactions(world: ScriptedCluster) -> None:
    async with AsyncProducer.on(world.seams, bootstrap_servers=TWO_SERVERS, transactional_id="x") as producer:
        await producer.init_transactions(timeout_ms=3000)


async def _list_topics(world: ScriptedCluster) -> None:
    async with AsyncAdmin.on(world.seams, bootstrap_servers=TWO_SERVERS, default_api_timeout_ms=3000) as admin:
        await admin.list_topics()


async def _describe_group(world: ScriptedCluster) -> None:
    async with AsyncAdmin.on(world.seams, bootstrap_servers=TWO_SERVERS, default_api_timeout_ms=3000) as admin:
        await admin.describe_group("billing")


async def _find_coordinator(world: ScriptedCluster) -> None:
    options = parse_options(ClientOptions, {"bootstrap_servers": TWO_SERVERS})
    client = Client(world, bootstrap_servers=TWO_SERVERS)
    coordinators = Coordinators(world.seams, client.connections, client.metadata, options)
    try:
        await coordinators.find(CoordinatorKind.GROUP, "billing", timeout_ms=3000)
    finally:
        client.close()


def _consumer(world: ScriptedCluster, **options: Any) -> AsyncConsumer:
    given = {"bootstrap_servers": TWO_SERVERS, "default_api_timeout_ms": 3000, **options}
    return AsyncConsumer._on(world.seams, parse_options(ConsumerOptions, given))


async def _poll(world: ScriptedCluster) -> None:
    async with _consumer(world) as consumer:
        consumer.assign([("orders", 0)])
        await consumer.poll(timeout_ms=1_000_000)


async def _poll_in_group(world: ScriptedCluster) -> None:
    async with _consumer(world, group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        while not await consumer.poll(timeout_ms=100):
            pass


async def _position(world: ScriptedCluster) -> None:
    async with _consumer(world) as consumer:
        consumer.assign([("orders", 0)])
        await consumer.position(("orders", 0))


async def _end_offsets(world: ScriptedCluster) -> None:
    async with _consumer(world) as consumer:
        await consumer.end_offsets([("orders", 0)])


async def _committed(world: ScriptedCluster) -> None:
    async with _consumer(world, group_id="billing") as consumer:
        await consumer.committed([("orders", 0)])


@pytest.mark.parametrize(
    "call",
    [
        _send,
        _init_transactions,
        _list_topics,
        _describe_group,
        _find_coordinator,
        _poll,
        _poll_in_group,
        _position,
        _end_offsets,
        _committed,
    ],
    ids=lambda call: call.__name__.strip("_"),
)
def test_a_client_that_never_reached_a_bootstrap_server_says_so_in_its_error(
    call: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        world.brokers[1].kill()
        with pytest.raises(TimedOutError) as raised:
            await call(world)
        assert NEVER in str(raised.value)
        assert 2 < world.loop.time() < 3.2

    world.run(main)
    assert len(lines(caplog)) == 2


def test_polls_raise_again_only_after_as_long_and_not_once_a_node_was_reached() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        world.brokers[1].kill()
        async with _consumer(world) as consumer:
            consumer.assign([("orders", 0)])
            for _ in range(2):
                assert await consumer.poll(timeout_ms=2900) == []
                with pytest.raises(TimedOutError):
                    await consumer.poll(timeout_ms=200)
            await world.brokers[1].start()
            await consumer.partitions_for("orders")
            world.brokers[1].kill()
            for _ in range(10):
                assert await consumer.poll(timeout_ms=10_000) == []

    world.run(main)


def test_a_flush_and_a_delivery_that_time_out_name_the_node_that_is_down() -> None:
    world = ScriptedCluster(topics={"orders": 1})

    async def main(world: ScriptedCluster) -> None:
        async with AsyncProducer.on(
            world.seams, bootstrap_servers=world.bootstrap_servers, delivery_timeout_ms=31_000
        ) as producer:
            await (await producer.send("orders", b"x"))
            world.brokers[1].kill()
            delivery = await producer.send("orders", b"y")
            with pytest.raises(TimedOutError, match=r"within 1000 ms: cannot connect to broker-1:9092: connection ref"):
                await producer.flush(timeout_ms=1000)
            with pytest.raises(Exception, match=r"not delivered within 31000 ms: .*broker-1:9092: connection refused"):
                await delivery

    world.run(main)
