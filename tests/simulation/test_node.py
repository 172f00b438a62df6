"""A whole node on virtual time, a simulated disk and a simulated network: the same composition root as the real one."""

from __future__ import annotations

import errno
import logging
import struct
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

import pytest

from tidelog.broker.node import BrokerNode
from tidelog.model.broker_config import BROKER_KEYS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.model.slow_work import InlineSlowWork
from tidelog.net.errors import RequestFailedError
from tidelog.net.node_connection import NodeConnection
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.simulation.network import SimulatedNetwork
from tidelog.storage.errors import StorageError
from tidelog.storage.seams import Seams
from tidelog.wire.codec import decode, decode_from, encode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.records import Record, build_batch, decode_rows
from tidelog.wire.schema import Request, Response

A = TypeVar("A", bound=Response)
T = TypeVar("T")

PORT = 9092
TIMEOUT_MS = 60_000
QUIET_S = 600
PRODUCE_VERSION = 9
FETCH_VERSION = 12


class World:
    """One machine with a disk, a network, and another machine to ask from. The same seed gives the same run."""

    def __init__(self, seed: int, *directories: str) -> None:
        self.random = Random(seed)
        self.loop = VirtualTimeLoop()
        self.clock = VirtualClock(self.loop)
        self.disk = SimulatedDisk(self.clock)
        self.disk.make_directory("/")
        self.network = SimulatedNetwork(self.loop, self.random)
        self.config = BROKER_KEYS.parse(
            {
                "node.id": "1",
                "listeners": f"PLAINTEXT://node:{PORT},CONTROLLER://node:9093",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "log.dirs": ",".join(directories or ("/logs",)),
            }
        )

    async def start(self) -> BrokerNode:
        seams = Seams(self.disk, self.clock, InlineSlowWork(), self.random)
        return await BrokerNode.start(self.config, seams, self.loop, self.network.host("node"))

    def run(self, story: Callable[[World], Awaitable[T]]) -> T:
        async def told() -> T:
            return await story(self)

        try:
            return self.loop.run_until_complete(told())
        finally:
            self.loop.close()


class Asker:
    """A client on the other machine."""

    def __init__(self, world: World) -> None:
        self._connection = NodeConnection(world.loop, world.network.host("client"), "node", PORT, world.random)

    async def call(self, request: Request, answer: type[A], version: int) -> A:
        is_flexible = version in type(request).flexible
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=self._connection.next_correlation_id(),
            client_id="asker",
        )
        parts = [encode(header, 2 if is_flexible else 1), encode(request, version)]
        received = await self._connection.request([b"".join(parts)], timeout_ms=TIMEOUT_MS)
        _, position = decode_from(ResponseHeader, 1 if is_flexible else 0, received)
        return decode(answer, version, received[position:])

    async def create(self, topic: str, partitions: int = 1) -> int:
        asked = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        answer = await self.call(CreateTopicsRequest(topics=[asked]), CreateTopicsResponse, 7)
        return answer.topics[0].error_code

    async def produce(self, topic: str, value: bytes, partition: int = 0) -> int:
        batch = build_batch([Record(0, 1_704_067_200_000, None, value, ())])
        data = TopicProduceData(
            name=topic, topic_id=ZERO_UUID, partition_data=[PartitionProduceData(index=partition, records=batch)]
        )
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[data])
        answer = await self.call(request, ProduceResponse, PRODUCE_VERSION)
        return answer.responses[0].partition_responses[0].error_code

    async def fetch(self, topic: str, offset: int, *, max_wait_ms: int = 0) -> list[bytes | None]:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, topic_id=ZERO_UUID, partitions=[partition])],
            forgotten_topics_data=[],
            rack_id="",
        )
        answer = await self.call(request, FetchResponse, FETCH_VERSION)
        found = answer.responses[0].partitions[0]
        assert found.error_code == ErrorCode.NONE
        assert isinstance(found.records, bytes | memoryview)
        return [record.value for record in _rows(bytes(found.records))]

    def close(self) -> None:
        self._connection.close()


def _rows(batches: bytes) -> list[Record]:
    found: list[Record] = []
    position = 0
    while position < len(batches):
        found += decode_rows(batches, position)
        position += 12 + struct.unpack_from(">i", batches, position + 8)[0]
    return found


def test_a_node_serves_stops_and_starts_again_in_no_time_at_all() -> None:
    async def story(world: World) -> None:
        node = await world.start()
        asker = Asker(world)
        assert await asker.create("orders") == ErrorCode.NONE
        for number in range(20):
            assert await asker.produce("orders", b"%d" % number) == ErrorCode.NONE
        asker.close()
        await node.stop()
        node = await world.start()
        asker = Asker(world)
        assert await asker.fetch("orders", 0) == [b"%d" % number for number in range(20)]
        asker.close()
        await node.stop()

    World(1).run(story)


def test_a_fetch_that_waits_is_woken_by_a_record_and_not_before_its_time_without_one() -> None:
    async def story(world: World) -> None:
        node = await world.start()
        asker, writer = Asker(world), Asker(world)
        await asker.create("orders")
        began_ms = world.clock.monotonic_ms()
        assert await asker.fetch("orders", 0, max_wait_ms=20_000) == []
        assert 20_000 <= world.clock.monotonic_ms() - began_ms < 20_100
        waiting = world.loop.create_task(asker.fetch("orders", 0, max_wait_ms=20_000))
        began_ms = world.clock.monotonic_ms()
        await writer.produce("orders", b"now")
        assert await waiting == [b"now"]
        assert world.clock.monotonic_ms() - began_ms < 100
        asker.close()
        writer.close()
        await node.stop()

    World(2).run(story)


def test_time_passes_and_the_node_is_as_it_was() -> None:
    async def story(world: World) -> int:
        node = await world.start()
        asker = Asker(world)
        await asker.create("orders")
        await asker.produce("orders", b"one")
        passed = world.loop.create_future()
        world.loop.call_later(QUIET_S, passed.set_result, None)
        await passed
        assert await asker.fetch("orders", 0) == [b"one"]
        asker.close()
        offset = int(node.image.offset)
        await node.stop()
        return offset

    # Two records a second tell standbys that the leader lives; nothing else may pile up.
    assert World(3).run(story) < 2 * QUIET_S + 100


def _trace(seed: int) -> tuple[int, int, str]:
    async def story(world: World) -> tuple[int, int, str]:
        node = await world.start()
        asker = Asker(world)
        for number in range(5):
            await asker.create(f"topic-{number}", partitions=3)
        asker.close()
        await node.stop()
        return world.clock.monotonic_ms(), int(node.image.offset), node.cluster_id

    return World(seed).run(story)


def test_the_same_seed_gives_the_same_run() -> None:
    assert _trace(7) == _trace(7)
    assert _trace(7) != _trace(8)


def test_a_failed_directory_takes_only_its_partitions() -> None:
    async def story(world: World) -> None:
        node = await world.start()
        asker = Asker(world)
        await asker.create("orders", partitions=2)
        codes = [await asker.produce("orders", b"x", partition) for partition in (0, 1)]
        assert codes == [ErrorCode.NONE, ErrorCode.NONE]
        world.disk.fail("pwritev", "/second/*", errno.EIO)
        codes = [await asker.produce("orders", b"x", partition) for partition in (0, 1)]
        assert sorted(codes) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
        assert node.fault is None
        asker.close()
        await node.stop()

    World(4, "/first", "/second").run(story)


@pytest.mark.parametrize("failing", ["/first/orders-*", "/first/__cluster_metadata-0/*"])
def test_a_node_without_the_directory_of_its_metadata_stops(failing: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        node = await world.start()
        asker = Asker(world)
        await asker.create("orders", partitions=2)
        world.disk.fail("pwritev", failing, errno.ENOSPC)
        try:
            for partition in (0, 1):
                await asker.produce("orders", b"x", partition)
            await asker.create("another")
        except RequestFailedError:
            pass
        asker.close()
        with pytest.raises(StorageError, match="No space left"):
            await node.stopped
        with pytest.raises(StorageError, match="No space left"):
            await node.stop()
        # Nothing is held: the next start can have it all.
        world.disk.heal()
        again = await world.start()
        await again.stop()

    with caplog.at_level(logging.CRITICAL):
        World(5, "/first", "/second").run(story)
    assert any("the node stops" in record.message for record in caplog.records)


def test_a_metadata_log_that_cannot_be_closed_does_not_keep_the_other_directories_from_it() -> None:
    async def story(world: World) -> None:
        node = await world.start()
        # Nothing but the end of it needs these: an index gets its room, and gives it back.
        for operation in ("allocate", "truncate"):
            world.disk.fail(operation, "/first/__cluster_metadata-0/*", errno.ENOSPC)
        with pytest.raises(StorageError):
            await node.stop()
        assert world.disk.exists("/second/.kafka_cleanshutdown")
        world.disk.heal()
        again = await world.start()
        await again.stop()

    World(6, "/first", "/second").run(story)
