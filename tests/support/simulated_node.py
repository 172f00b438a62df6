"""A whole node on virtual time, a simulated disk and a simulated network, and a client on another machine."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Protocol, TypeVar

from tidelog.broker.node.node import BrokerNode
from tidelog.model.broker_config import BROKER_KEYS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.model.slow_work import InlineSlowWork
from tidelog.net.connection_security import ConnectionSecurity
from tidelog.net.node_connection import NO_SECURITY, ConnectionParts, NodeConnection
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.simulation.network import SimulatedNetwork
from tidelog.storage.seams import Seams
from tidelog.wire.apis import api
from tidelog.wire.codec import decode, decode_from, encode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.records import Record, build_batch, decode_rows
from tidelog.wire.schema import Request, Response

A = TypeVar("A", bound=Response)
T = TypeVar("T")

PORT = 9092
TIMEOUT_MS = 60_000
PRODUCE_VERSION = 9
FETCH_VERSION = 12


class World:
    """One machine with a disk, a network, and another machine to ask from. The same seed gives the same run."""

    def __init__(self, seed: int, *directories: str, disk: SimulatedDisk | None = None) -> None:
        self.random = Random(seed)
        self.loop = VirtualTimeLoop()
        self.clock = VirtualClock(self.loop)
        self.disk = disk or SimulatedDisk(self.clock)
        if disk is None:
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


class Surroundings(Protocol):
    """Where a client is: one machine with a node, or many."""

    @property
    def loop(self) -> VirtualTimeLoop: ...

    @property
    def network(self) -> SimulatedNetwork: ...

    @property
    def random(self) -> Random: ...


class Asker:
    """A client on the other machine."""

    def __init__(self, world: Surroundings, host: str = "node", *, security: ConnectionSecurity = NO_SECURITY) -> None:
        self._connection = NodeConnection(
            ConnectionParts(world.loop, world.network.host("client"), world.random), host, PORT, security=security
        )

    async def call(self, request: Request, answer: type[A], version: int) -> A:
        received = await self._connection.request([self._frame(request, version)], timeout_ms=TIMEOUT_MS)
        header_version = api(request.api_key).response_header_version(version)
        _, position = decode_from(ResponseHeader, header_version, received)
        return decode(answer, version, received[position:])

    def send_unanswered(self, request: Request, version: int) -> None:
        """A request that gets no answer, on a connection that is there."""
        assert self._connection.send_unanswered([self._frame(request, version)])

    def _frame(self, request: Request, version: int) -> bytes:
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=self._connection.next_correlation_id(),
            client_id="asker",
        )
        return encode(header, 2 if version in type(request).flexible else 1) + encode(request, version)

    async def create(
        self, topic: str, partitions: int = 1, *, replicas: int = 1, configs: Mapping[str, str] | None = None
    ) -> int:
        asked = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        answer = await self.call(CreateTopicsRequest(topics=[asked]), CreateTopicsResponse, 7)
        return answer.topics[0].error_code

    async def produce(self, topic: str, value: bytes, partition: int = 0, *, more: Sequence[bytes] = ()) -> int:
        """One batch: `value`, and `more` after it."""
        batch = build_batch([Record(at, 1_704_067_200_000, None, each, ()) for at, each in enumerate((value, *more))])
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
