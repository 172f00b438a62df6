"""A Kafka cluster of a few lines on virtual time, for clients: it answers as told, and keeps logs as an honest broker would.

    world = ScriptedCluster(seed=1, topics={"orders": 2})
    world.run(main)                                        # main(world) is a coroutine
    world.brokers[1].script = lambda key, request: ...     # an answer, or Silence, or None for the usual one

Partitions have one replica, which all brokers share: a change of the leader loses nothing. Sequences are checked as Kafka does.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any

from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.net.address import Address
from tidelog.net.limits import SocketOptions
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.simulation.network import SimulatedNetwork
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.frames import read_request, read_request_header, response_frame
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.messages.producers import InitProducerIdResponse
from tidelog.wire.record_batch import BatchHeader, check_batch, read_header
from tidelog.wire.records import decode_rows
from tidelog.wire.schema import Request, Response

PORT = 9092
REMEMBERED_BATCHES = 5


class Fault(Enum):
    """What a script can do beside answering."""

    SILENCE = "the request is acted upon, and never answered"
    IGNORE = "the request is neither acted upon nor answered"
    BREAK = "the request is acted upon, and the connection broken"


Script = Callable[[Request], "Response | Fault | None"]


@dataclass
class ProducerEntry:
    """What a partition remembers of one producer."""

    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """First and last sequence and base offset of the last few."""


@dataclass
class Partition:
    leader: int
    epoch: int = 0
    values: list[bytes | None] = field(default_factory=list)
    producers: dict[int, ProducerEntry] = field(default_factory=dict)
    batch_bytes_max: int = 1_048_588

    def append(self, records: bytes) -> tuple[ErrorCode, int]:
        header = read_header(records)
        check_batch(records, header)
        if len(records) > self.batch_bytes_max:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if header.producer_id >= 0:
            error, offset = self._check(header)
            if error or offset >= 0:
                return error, offset
        base_offset = len(self.values)
        self.values += [row.value for row in decode_rows(records)]
        if header.producer_id >= 0:
            entry = self.producers[header.producer_id]
            last = (header.base_sequence + header.record_count - 1) & 0x7FFFFFFF
            entry.batches = [*entry.batches, (header.base_sequence, last, base_offset)][-REMEMBERED_BATCHES:]
        return ErrorCode.NONE, base_offset

    def _check(self, header: BatchHeader) -> tuple[ErrorCode, int]:
        entry = self.producers.get(header.producer_id)
        last = (header.base_sequence + header.record_count - 1) & 0x7FFFFFFF
        if entry is None or header.producer_epoch > entry.epoch:
            if header.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.producers[header.producer_id] = ProducerEntry(header.producer_epoch)
            return ErrorCode.NONE, -1
        if header.producer_epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        for first, end, offset in entry.batches:
            if (first, end) == (header.base_sequence, last):
                return ErrorCode.NONE, offset
        expected = (entry.batches[-1][1] + 1) & 0x7FFFFFFF if entry.batches else 0
        if header.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return ErrorCode.NONE, -1


class _Served(asyncio.Protocol):
    """One connection to a broker. Requests are answered in order, one after the other."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        # Answers come in order: behind one that never comes there are no others.
        self._stuck: Fault | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size or self._transport is None:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._serve(frame)

    def _serve(self, frame: bytes) -> None:
        if self._stuck is Fault.IGNORE:
            return
        header, position = read_request_header(frame)
        request = read_request(frame, header, position)
        self._broker.versions.append((type(request), header.request_api_version))
        answer = self._broker.answer(request)
        if isinstance(answer, Fault):
            self._stuck = answer
            if answer is Fault.BREAK and self._transport is not None:
                self._transport.abort()
            return
        if self._transport is None or self._stuck is not None:
            return
        if isinstance(request, ProduceRequest) and request.acks == 0:
            return
        self._transport.write(response_frame(answer, header.request_api_version, header.correlation_id))


class ScriptedBroker:
    def __init__(self, world: ScriptedCluster, node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.host = world.network.host(f"broker-{node_id}")
        self.requests: list[Request] = []
        self.versions: list[tuple[type[Request], int]] = []
        """In which version each request came."""
        self.script: Script = lambda _request: None
        self.is_up = False

    async def start(self) -> None:
        await self.host.listen("", PORT, lambda _peer: _Served(self), SocketOptions())
        self.is_up = True

    def kill(self) -> None:
        self.is_up = False
        self.host.kill()

    def asked(self, kind: type[Request]) -> int:
        return sum(isinstance(each, kind) for each in self.requests)

    def answer(self, request: Request) -> Response | Fault:
        self.requests.append(request)
        scripted = self.script(request)
        if isinstance(scripted, Response) or scripted is Fault.IGNORE:
            return scripted
        answer = self.world.answer(self, request)
        return answer if scripted is None else scripted


class ScriptedCluster:
    """The brokers 1 to `brokers`, their topics, and a client's seams into the same network."""

    def __init__(self, *, seed: int = 1, brokers: int = 1, topics: Mapping[str, int] | None = None) -> None:
        self.loop = VirtualTimeLoop()
        self.random = Random(seed)
        self.network = SimulatedNetwork(self.loop, self.random)
        self.brokers = {node_id: ScriptedBroker(self, node_id) for node_id in range(1, brokers + 1)}
        self.topics: dict[str, list[Partition]] = {}
        self.next_producer_id = 1000
        self.versions: dict[int, tuple[int, int]] = {}
        for name, count in (topics or {}).items():
            self.create(name, count)
        self.seams = ClientSeams(self.loop, self.network.host("client"), VirtualClock(self.loop), Random(seed + 1))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"broker-{node_id}:{PORT}" for node_id in self.brokers)

    def create(self, name: str, partitions: int = 1) -> None:
        ids = list(self.brokers)
        self.topics[name] = [Partition(ids[index % len(ids)]) for index in range(partitions)]

    def topic_id(self, name: str) -> bytes:
        return name.encode()[:16].ljust(16, b"\1")

    def move(self, topic: str, partition: int, leader: int) -> None:
        moved = self.topics[topic][partition]
        moved.leader, moved.epoch = leader, moved.epoch + 1

    def run(self, main: Callable[[ScriptedCluster], Coroutine[Any, Any, None]]) -> None:
        async def played() -> None:
            for broker in self.brokers.values():
                await broker.start()
            await main(self)

        self.loop.run_until_complete(played())

    def answer(self, broker: ScriptedBroker, request: Request) -> Response:
        match request:
            case MetadataRequest():
                return self.metadata(request)
            case ProduceRequest():
                return self._produce(broker, request)
            case FindCoordinatorRequest():
                node_id = min(each for each, other in self.brokers.items() if other.is_up)
                found = [
                    Coordinator(
                        key=key, node_id=node_id, host=f"broker-{node_id}", port=PORT, error_code=0, error_message=None
                    )
                    for key in request.coordinator_keys
                ]
                return FindCoordinatorResponse(throttle_time_ms=0, coordinators=found)
        match request.api_key:
            case ApiKey.API_VERSIONS:
                keys = (
                    ApiKey.PRODUCE,
                    ApiKey.METADATA,
                    ApiKey.API_VERSIONS,
                    ApiKey.INIT_PRODUCER_ID,
                    ApiKey.FIND_COORDINATOR,
                )
                spoken = [
                    ApiVersion(api_key=key, min_version=lowest, max_version=highest)
                    for key in keys
                    for lowest, highest in [self.versions.get(key, tuple(api(key).announced_versions))]
                ]
                return ApiVersionsResponse(error_code=0, api_keys=spoken, throttle_time_ms=0)
            case ApiKey.INIT_PRODUCER_ID:
                self.next_producer_id += 1
                return InitProducerIdResponse(
                    throttle_time_ms=0, error_code=0, producer_id=self.next_producer_id, producer_epoch=0
                )
        raise NotImplementedError(type(request).__name__)

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = list(self.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[
                MetadataResponseBroker(node_id=each, host=f"broker-{each}", port=PORT)
                for each, broker in self.brokers.items()
                if broker.is_up
            ],
            cluster_id="scripted",
            controller_id=1,
            topics=[self._topic(name) for name in names],
            error_code=0,
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        partitions = self.topics.get(name)
        if partitions is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, topic_id=bytes(16), partitions=[]
            )
        return MetadataResponseTopic(
            error_code=0,
            name=name,
            topic_id=self.topic_id(name),
            partitions=[
                MetadataResponsePartition(
                    error_code=0,
                    partition_index=index,
                    leader_id=each.leader,
                    leader_epoch=each.epoch,
                    replica_nodes=[each.leader],
                    isr_nodes=[each.leader],
                    offline_replicas=[],
                )
                for index, each in enumerate(partitions)
            ],
        )

    def _produce(self, broker: ScriptedBroker, request: ProduceRequest) -> ProduceResponse:
        responses = []
        for topic in request.topic_data:
            name = topic.name or next((each for each in self.topics if self.topic_id(each) == topic.topic_id), "")
            outcomes = []
            for data in topic.partition_data:
                partition = self.topics[name][data.index]
                if partition.leader != broker.node_id:
                    hint = LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.epoch)
                    outcomes.append(
                        PartitionProduceResponse(
                            index=data.index,
                            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                            base_offset=-1,
                            record_errors=[],
                            current_leader=hint,
                        )
                    )
                    continue
                assert data.records is not None
                error, offset = partition.append(bytes(data.records))  # type: ignore[arg-type]
                outcomes.append(
                    PartitionProduceResponse(index=data.index, error_code=error, base_offset=offset, record_errors=[])
                )
            responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=outcomes)
            )
        return ProduceResponse(responses=responses)


def refuse_produce(code: ErrorCode) -> Callable[[ProduceRequest], ProduceResponse]:
    """An answer that refuses every batch of a request, none of which is written."""

    def refuse(request: ProduceRequest) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1, record_errors=[])
                        for data in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    return refuse


__all__ = ["PORT", "Address", "Fault", "Partition", "ScriptedBroker", "ScriptedCluster", "refuse_produce"]
