"""What is counted: each operation prepares itself over plain connections, and is then done again and again.

Requests are those that clients send: librdkafka's Fetch has no session and its Produce names topics; the Java client's
Fetch has one, and both name topics by id. Records are one of 1,000 bytes to a batch.
"""

from __future__ import annotations

import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from benchmarks.instructions.counted_node import CountedNode
from tidelog.controller.metadata_service import supported_features
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.frames import read_response, request_frame
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from tidelog.wire.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.groups_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

TIME_MS = 1_700_000_000_000
VALUE = b"v" * 1_000
# What clients ask for by default: less than one batch would not be answered from memory, however new it is.
CLIENTS_MAX_BYTES = 1_048_576
TIMEOUT_S = 120.0
CLIENT_ID = "counted"
# librdkafka 2.x and the Java client of Kafka 4.
LIBRDKAFKA_PRODUCE, JAVA_PRODUCE = 10, 13
LIBRDKAFKA_FETCH, JAVA_FETCH, FOLLOWER_FETCH = 16, 18, 18
TOPIC_BYTES_MAX = 1 << 20
GROUP, TRANSACTION = 0, 1
MEMBER_ID_REQUIRED = 79


class Client:
    """One blocking connection. Errors end the run: what is not done cannot be counted."""

    def __init__(self, port: int) -> None:
        self._socket: socket.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._socket.getsockname()[1]
        self._correlation_id = 0

    def frame(self, request: Request, version: int) -> bytes:
        self._correlation_id += 1
        return request_frame(request, version, self._correlation_id, CLIENT_ID)

    def send(self, frames: bytes) -> None:
        self._socket.sendall(frames)

    def receive(self) -> bytes:
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def _exactly(self, count: int) -> bytes:
        pieces = []
        while count:
            piece = self._socket.recv(count)
            if not piece:
                raise ConnectionError("the node closed the connection")
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def ask(self, request: Request, version: int, answer: type[R]) -> R:
        self.send(self.frame(request, version))
        return self.answer(answer, version)

    def answer(self, answer: type[R], version: int) -> R:
        found = read_response(self.receive(), answer.api_key, version)[1]
        assert isinstance(found, answer)
        return found

    def close(self) -> None:
        self._socket.close()


class Setting:
    """A node, and what several operations need of it."""

    def __init__(self, node: CountedNode) -> None:
        self.node = node
        self.client = Client(node.port)
        self._controller: Client | None = None
        self._broker_epoch = -1
        self.topics: list[str] = []

    def connect(self) -> Client:
        return Client(self.node.port)

    def topic(self, partitions: int = 1, replicas: Sequence[int] | None = None) -> tuple[str, bytes]:
        """A new one: its name and its id."""
        name = f"topic-{len(self.topics) + 1}"
        self.topics.append(name)
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if replicas else partitions,
            replication_factor=-1 if replicas else 1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))] if replicas else [],
            configs=[],
        )
        created = self.client.ask(CreateTopicsRequest(topics=[topic]), 4, CreateTopicsResponse)
        check(created.topics[0].error_code)
        asked = [MetadataRequestTopic(topic_id=ZERO_UUID, name=name)]
        request = MetadataRequest(topics=asked, include_topic_authorized_operations=False)
        return name, self.client.ask(request, 12, MetadataResponse).topics[0].topic_id

    def fill(self, name: str, batches: int) -> None:
        """So many batches in partition 0, as the leader has them; not all replicas need."""
        for first in range(0, batches, 20):
            frames = [
                self.client.frame(produce(name, b"", a_batch(), version=LIBRDKAFKA_PRODUCE, acks=1), LIBRDKAFKA_PRODUCE)
                for _ in range(min(20, batches - first))
            ]
            self.client.send(b"".join(frames))
            for _ in frames:
                check_produced(self.client.answer(ProduceResponse, LIBRDKAFKA_PRODUCE))

    def coordinate(self, kind: int, key: str) -> None:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        while self.client.ask(request, 4, FindCoordinatorResponse).coordinators[0].error_code:
            pass

    def follower_epoch(self) -> int:
        """That of broker 2, which is registered for this and does nothing."""
        if self._controller is None:
            self._controller = Client(self.node.controller_port)
            request = MetadataRequest(topics=[], include_topic_authorized_operations=False)
            registration = BrokerRegistrationRequest(
                broker_id=2,
                cluster_id=self.client.ask(request, 12, MetadataResponse).cluster_id or "",
                incarnation_id=bytes([2]) * 16,
                listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=1, security_protocol=0)],
                features=supported_features(),
                rack=None,
                log_dirs=[bytes([0x52]) * 16],
            )
            registered = self._controller.ask(registration, 4, BrokerRegistrationResponse)
            check(registered.error_code)
            self._broker_epoch = registered.broker_epoch
            heartbeat = BrokerHeartbeatRequest(
                broker_id=2,
                broker_epoch=self._broker_epoch,
                current_metadata_offset=self._broker_epoch,
                want_fence=False,
                want_shut_down=False,
            )
            check(self._controller.ask(heartbeat, 1, BrokerHeartbeatResponse).error_code)
        return self._broker_epoch


def check(error_code: int) -> None:
    if error_code:
        raise RuntimeError(f"the node answered with the error {error_code}")


def check_produced(answer: ProduceResponse) -> None:
    for topic in answer.responses:
        for partition in topic.partition_responses:
            check(partition.error_code)


def a_batch(producer_id: int = -1, epoch: int = -1, sequence: int = -1, *, is_transactional: bool = False) -> bytes:
    return build_batch(
        [Record(0, TIME_MS, None, VALUE, ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


def produce(
    name: str, topic_id: bytes, records: bytes, *, version: int, acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    by_id = version >= 13
    data = [PartitionProduceData(index=0, records=records)]
    topic = TopicProduceData(name="" if by_id else name, topic_id=topic_id if by_id else ZERO_UUID, partition_data=data)
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=30_000, topic_data=[topic])


def fetch(
    topic_id: bytes,
    offsets: Mapping[int, int],
    *,
    session: tuple[int, int] = (0, -1),
    replica: ReplicaState | None = None,
    max_wait_ms: int = 0,
    partition_max_bytes: int = 1,
) -> FetchRequest:
    """One batch of each partition, where no other bound is given."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        replica_state=replica or ReplicaState(),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=52_428_800,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic_id=topic_id, partitions=partitions)] if partitions else [],
        forgotten_topics_data=[],
    )


def check_fetched(answer: FetchResponse) -> None:
    check(answer.error_code)
    (topic,) = answer.responses
    (partition,) = topic.partitions
    check(partition.error_code)
    if not partition.records:
        raise RuntimeError("a fetch found nothing")


class Operation(ABC):
    """Something that is done `times` times. `prepare` is not counted, nor is its first part, which warms up."""

    name: ClassVar[str]
    # What one turn consists of, where that is more than one request.
    requests: ClassVar[int] = 1
    times: ClassVar[int] = 100
    # What its node has besides.
    settings: ClassVar[Mapping[str, str]] = {}
    listeners: ClassVar[tuple[str, ...]] = ()
    # Whether its node has a port for watchers.
    is_watched: ClassVar[bool] = False
    # The row that it is held against: the same without what it has besides.
    without: ClassVar[str | None] = None

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.client = setting.client

    @classmethod
    def node_settings(cls, directory: Path) -> Mapping[str, str]:
        """What its node is configured with; files for it are written below the directory."""
        del directory
        return cls.settings

    @abstractmethod
    def prepare(self, times: int) -> None: ...

    @abstractmethod
    def turn(self, number: int) -> None: ...


class Produce(Operation):
    """One batch of one record, acknowledged by one replica."""

    name = "produce"
    version = LIBRDKAFKA_PRODUCE
    pipelined = 1
    is_idempotent = False
    acks = -1

    def prepare(self, times: int) -> None:
        self._topic = self.setting.topic()
        self.client = self.setting.connect()
        producer_id = -1
        if self.is_idempotent:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            producer_id = self.client.ask(request, 4, InitProducerIdResponse).producer_id
        self._sends = [
            b"".join(
                self.client.frame(self._request(producer_id, number * self.pipelined + each), self.version)
                for each in range(self.pipelined)
            )
            for number in range(times)
        ]

    def _request(self, producer_id: int, sequence: int) -> ProduceRequest:
        records = a_batch(producer_id, 0, sequence) if self.is_idempotent else a_batch()
        return produce(*self._topic, records, version=self.version, acks=self.acks)

    def turn(self, number: int) -> None:
        self.client.send(self._sends[number])
        for _ in range(self.pipelined):
            check_produced(self.client.answer(ProduceResponse, self.version))


class ProduceIdempotent(Produce):
    name = "produce, idempotent"
    is_idempotent = True


class ProduceJava(Produce):
    name = "produce, idempotent, topic by id"
    is_idempotent = True
    version = JAVA_PRODUCE


class ProducePipelined(Produce):
    name = "produce, 5 of one read"
    pipelined = 5
    requests = 5


class ProduceIdempotentPipelined(ProducePipelined):
    name = "produce, idempotent, 5 of one read"
    is_idempotent = True


class Fetch(Operation):
    """One batch of 1 KB from the file, without a session."""

    name = "fetch without a session"
    version = LIBRDKAFKA_FETCH

    def prepare(self, times: int) -> None:
        name, topic_id = self.setting.topic()
        self.setting.fill(name, times)
        self.client = self.setting.connect()
        self._frames = [self.client.frame(fetch(topic_id, {0: number}), self.version) for number in range(times)]

    def turn(self, number: int) -> None:
        self.client.send(self._frames[number])
        check_fetched(self.client.answer(FetchResponse, self.version))


class SessionFetch(Operation):
    """The same in a session, whose partition has news every time."""

    name = "fetch in a session of 1 partition"
    partitions = 1
    version = JAVA_FETCH

    def prepare(self, times: int) -> None:
        name, topic_id = self.setting.topic(self.partitions)
        self.setting.fill(name, times + 1)
        self.client = self.setting.connect()
        # Opening sends the first batch.
        opening = fetch(topic_id, dict.fromkeys(range(self.partitions), 0), session=(0, 0))
        opened = self.client.ask(opening, self.version, FetchResponse)
        check(opened.error_code)
        self._frames = [
            self.client.frame(fetch(topic_id, {0: number + 1}, session=(opened.session_id, number + 1)), self.version)
            for number in range(times)
        ]

    def turn(self, number: int) -> None:
        self.client.send(self._frames[number])
        check_fetched(self.client.answer(FetchResponse, self.version))


class WideSessionFetch(SessionFetch):
    name = "fetch in a session of 500 partitions, 1 with news"
    partitions = 500


class EmptySessionFetch(Operation):
    """Nothing named and nothing new, and no time to wait."""

    name = "fetch in a session of 500 partitions, none with news"

    def prepare(self, times: int) -> None:
        _, topic_id = self.setting.topic(500)
        self.client = self.setting.connect()
        opened = self.client.ask(
            fetch(topic_id, dict.fromkeys(range(500), 0), session=(0, 0)), JAVA_FETCH, FetchResponse
        )
        check(opened.error_code)
        self._frames = [
            self.client.frame(fetch(topic_id, {}, session=(opened.session_id, number + 1)), JAVA_FETCH)
            for number in range(times)
        ]

    def turn(self, number: int) -> None:
        self.client.send(self._frames[number])
        check(self.client.answer(FetchResponse, JAVA_FETCH).error_code)


class FollowerFetch(Operation):
    """A follower that has what it was sent last, and gets the next batch."""

    name = "follower's fetch"

    def prepare(self, times: int) -> None:
        replica = ReplicaState(replica_id=2, replica_epoch=self.setting.follower_epoch())
        name, topic_id = self.setting.topic(replicas=[1, 2])
        self.setting.fill(name, times + 1)
        self.client = self.setting.connect()
        opened = self.client.ask(
            fetch(topic_id, {0: 0}, session=(0, 0), replica=replica), FOLLOWER_FETCH, FetchResponse
        )
        check(opened.error_code)
        self._frames = [
            self.client.frame(
                fetch(topic_id, {0: number + 1}, session=(opened.session_id, number + 1), replica=replica),
                FOLLOWER_FETCH,
            )
            for number in range(times)
        ]

    def turn(self, number: int) -> None:
        self.client.send(self._frames[number])
        check_fetched(self.client.answer(FetchResponse, FOLLOWER_FETCH))


class ReplicatedProduce(Operation):
    """A write with acks=all, and the fetch of its one follower that commits it; the answer of the next fetch is the write's."""

    name = "produce acks=all and its follower's fetches"
    requests = 2

    def prepare(self, times: int) -> None:
        replica = ReplicaState(replica_id=2, replica_epoch=self.setting.follower_epoch())
        self._topic = self.setting.topic(replicas=[1, 2])
        topic_id = self._topic[1]
        self.client, self._follower = self.setting.connect(), self.setting.connect()
        opened = self._follower.ask(
            fetch(topic_id, {0: 0}, session=(0, 0), replica=replica), FOLLOWER_FETCH, FetchResponse
        )
        check(opened.error_code)
        frame = self._follower.frame
        # Parked before each write; the next one says that the write has arrived.
        self._fetches = [
            frame(
                fetch(
                    topic_id, {0: number}, session=(opened.session_id, number + 1), replica=replica, max_wait_ms=60_000
                ),
                FOLLOWER_FETCH,
            )
            for number in range(times + 1)
        ]
        self._writes = [
            self.client.frame(produce(*self._topic, a_batch(), version=LIBRDKAFKA_PRODUCE), LIBRDKAFKA_PRODUCE)
            for _ in range(times)
        ]
        self._follower.send(self._fetches[0])

    def turn(self, number: int) -> None:
        self.client.send(self._writes[number])
        check_fetched(self._follower.answer(FetchResponse, FOLLOWER_FETCH))
        self._follower.send(self._fetches[number + 1])
        check_produced(self.client.answer(ProduceResponse, LIBRDKAFKA_PRODUCE))


class RoundTrip(Operation):
    """A fetch is parked; a write completes it: both together."""

    name = "round trip: produce, and a fetch that waits, without a session"
    requests = 2
    version = LIBRDKAFKA_FETCH

    def prepare(self, times: int) -> None:
        name, topic_id = self.setting.topic()
        self._reader, self._writer = self.setting.connect(), self.setting.connect()
        self._fetches = self._fetch_frames(topic_id, times)
        self._writes = [
            self._writer.frame(produce(name, topic_id, a_batch(), version=LIBRDKAFKA_PRODUCE), LIBRDKAFKA_PRODUCE)
            for _ in range(times)
        ]

    def _fetch_frames(self, topic_id: bytes, times: int) -> list[bytes]:
        return [
            self._reader.frame(
                fetch(topic_id, {0: number}, max_wait_ms=60_000, partition_max_bytes=CLIENTS_MAX_BYTES), self.version
            )
            for number in range(times)
        ]

    def turn(self, number: int) -> None:
        self._reader.send(self._fetches[number])
        # Else the write could be read first, and nobody would wait.
        self.setting.node.wait_until_read(self._reader.port)
        self._writer.send(self._writes[number])
        check_produced(self._writer.answer(ProduceResponse, LIBRDKAFKA_PRODUCE))
        check_fetched(self._reader.answer(FetchResponse, self.version))


class SessionRoundTrip(RoundTrip):
    name = "round trip: produce, and a fetch that waits, in a session"
    version = JAVA_FETCH

    def _fetch_frames(self, topic_id: bytes, times: int) -> list[bytes]:
        opening = fetch(topic_id, {0: 0}, session=(0, 0), partition_max_bytes=CLIENTS_MAX_BYTES)
        opened = self._reader.ask(opening, self.version, FetchResponse)
        check(opened.error_code)
        return [
            self._reader.frame(
                # As the client does: what has not moved is not named.
                fetch(
                    topic_id,
                    {0: number} if number else {},
                    session=(opened.session_id, number + 1),
                    max_wait_ms=60_000,
                    partition_max_bytes=CLIENTS_MAX_BYTES,
                ),
                self.version,
            )
            for number in range(times)
        ]


class Repeated(Operation):
    """The same request every time, in `of_one_read` frames at once."""

    of_one_read = 1

    @abstractmethod
    def request(self) -> tuple[Request, int, Callable[[Client], None]]: ...

    def prepare(self, times: int) -> None:
        del times
        request, version, self._check = self.request()
        self._send = b"".join(self.client.frame(request, version) for _ in range(self.of_one_read))

    def turn(self, number: int) -> None:
        del number
        self.client.send(self._send)
        for _ in range(self.of_one_read):
            self._check(self.client)


class Heartbeat(Repeated):
    """Of a member of a stable classic group."""

    name = "heartbeat, classic"

    def request(self) -> tuple[Request, int, Callable[[Client], None]]:
        self.setting.coordinate(GROUP, "classic")
        member_id, generation = join(self.client, f"classic-{self.of_one_read}")
        request = HeartbeatRequest(
            group_id=f"classic-{self.of_one_read}", generation_id=generation, member_id=member_id
        )
        return request, 4, lambda client: check(client.answer(HeartbeatResponse, 4).error_code)


class ConsumerHeartbeat(Repeated):
    """Of a member of a consumer group that has all it should."""

    name = "heartbeat, consumer group"

    def request(self) -> tuple[Request, int, Callable[[Client], None]]:
        self.setting.coordinate(GROUP, "consumers")
        name, _ = self.setting.topic()
        joined = self.client.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="consumers",
                member_id="member",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[name],
                topic_partitions=[],
            ),
            1,
            ConsumerGroupHeartbeatResponse,
        )
        check(joined.error_code)
        assert joined.assignment is not None
        settled = self.client.ask(
            ConsumerGroupHeartbeatRequest(
                group_id="consumers",
                member_id="member",
                member_epoch=joined.member_epoch,
                topic_partitions=joined.assignment.topic_partitions,
            ),
            1,
            ConsumerGroupHeartbeatResponse,
        )
        check(settled.error_code)
        request = ConsumerGroupHeartbeatRequest(
            group_id="consumers", member_id="member", member_epoch=settled.member_epoch
        )
        return request, 1, lambda client: check(client.answer(ConsumerGroupHeartbeatResponse, 1).error_code)


class OffsetCommit(Repeated):
    """One partition, by a member of a classic group. The coordinator's append."""

    name = "offset commit of a member"

    def request(self) -> tuple[Request, int, Callable[[Client], None]]:
        self.setting.coordinate(GROUP, "committing")
        name, _ = self.setting.topic()
        member_id, generation = join(self.client, "committing")
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
        request = OffsetCommitRequest(
            group_id="committing",
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=name, topic_id=ZERO_UUID, partitions=[partition])],
        )

        def checked(client: Client) -> None:
            check(client.answer(OffsetCommitResponse, 9).topics[0].partitions[0].error_code)

        return request, 9, checked


class Transaction(Operation):
    """As librdkafka does it: a partition is added, nothing is written, and the transaction is committed."""

    name = "AddPartitionsToTxn and EndTxn"
    requests = 2

    def prepare(self, times: int) -> None:
        del times
        self._name = "added"
        self.setting.coordinate(TRANSACTION, self._name)
        topic, _ = self.setting.topic()
        begun = initialised(self.client, self._name)
        self._add = self.client.frame(
            AddPartitionsToTxnRequest(
                transactions=[],
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=begun.producer_id,
                v3_and_below_producer_epoch=begun.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
            ),
            3,
        )
        self._end = self.client.frame(
            EndTxnRequest(
                transactional_id=self._name,
                producer_id=begun.producer_id,
                producer_epoch=begun.producer_epoch,
                committed=True,
            ),
            3,
        )

    def turn(self, number: int) -> None:
        del number
        self.client.send(self._add)
        added = self.client.answer(AddPartitionsToTxnResponse, 3)
        check(added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
        self.client.send(self._end)
        check(self.client.answer(EndTxnResponse, 3).error_code)


class WrittenTransaction(Operation):
    """As our client and the Java client do it: a write that implies the partition, and the end (KIP-890)."""

    name = "transactional produce and EndTxn"
    requests = 2

    def prepare(self, times: int) -> None:
        del times
        self._name = "written"
        self.setting.coordinate(TRANSACTION, self._name)
        self._topic = self.setting.topic()
        begun = initialised(self.client, self._name)
        self._producer = begun.producer_id, begun.producer_epoch

    def turn(self, number: int) -> None:
        del number
        producer_id, epoch = self._producer
        # Each transaction has an epoch of its own, whose sequences begin with 0.
        batch = a_batch(producer_id, epoch, 0, is_transactional=True)
        request = produce(*self._topic, batch, version=12, transactional_id=self._name)
        check_produced(self.client.ask(request, 12, ProduceResponse))
        end = EndTxnRequest(transactional_id=self._name, producer_id=producer_id, producer_epoch=epoch, committed=True)
        ended = self.client.ask(end, 5, EndTxnResponse)
        check(ended.error_code)
        self._producer = ended.producer_id, ended.producer_epoch


class Marker(Repeated):
    """A marker for a producer who has nothing open: the append of markers, and little else."""

    name = "WriteTxnMarkers of 1 partition"

    def request(self) -> tuple[Request, int, Callable[[Client], None]]:
        name, _ = self.setting.topic()
        marker = WritableTxnMarker(
            producer_id=4_000,
            producer_epoch=0,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0])],
            coordinator_epoch=0,
        )

        def checked(client: Client) -> None:
            check(client.answer(WriteTxnMarkersResponse, 1).markers[0].topics[0].partitions[0].error_code)

        return WriteTxnMarkersRequest(markers=[marker]), 1, checked


class MetadataAppend(Repeated):
    """A record of the metadata log: appended, committed and applied."""

    name = "IncrementalAlterConfigs of 1 topic (metadata append)"
    times = 40

    def request(self) -> tuple[Request, int, Callable[[Client], None]]:
        name, _ = self.setting.topic()
        change = IncrementalAlterConfigsAlterableConfig(name="retention.ms", config_operation=0, value="1000000")
        resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=2, resource_name=name, configs=[change])

        def checked(client: Client) -> None:
            check(client.answer(IncrementalAlterConfigsResponse, 1).responses[0].error_code)

        return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1, checked


class FramesOfOneRead(Heartbeat):
    name = "5 heartbeats of one read"
    of_one_read = 5
    requests = 5


class ManyFramesOfOneRead(Heartbeat):
    name = "1,000 heartbeats of one read"
    of_one_read = 1_000
    requests = 1_000
    times = 5


class Versions(Repeated):
    """The least that a request can be."""

    name = "ApiVersions"

    def request(self) -> tuple[Request, int, Callable[[Client], None]]:
        request = ApiVersionsRequest(client_software_name="counted", client_software_version="1")
        return request, 3, lambda client: check(client.answer(ApiVersionsResponse, 3).error_code)


def join(client: Client, group_id: str) -> tuple[str, int]:
    """A stable group of one member."""

    def asked(member_id: str) -> JoinGroupResponse:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        return client.ask(request, 9, JoinGroupResponse)

    joined = asked("")
    if joined.error_code == MEMBER_ID_REQUIRED:
        joined = asked(joined.member_id)
    check(joined.error_code)
    synced = client.ask(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")],
        ),
        5,
        SyncGroupResponse,
    )
    check(synced.error_code)
    return joined.member_id, joined.generation_id


def initialised(client: Client, name: str) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=600_000)
    while (answer := client.ask(request, 4, InitProducerIdResponse)).error_code:
        pass
    return answer


OPERATIONS: dict[str, type[Operation]] = {
    "versions": Versions,
    "produce": Produce,
    "produce-idempotent": ProduceIdempotent,
    "produce-java": ProduceJava,
    "produce-5": ProducePipelined,
    "produce-idempotent-5": ProduceIdempotentPipelined,
    "produce-replicated": ReplicatedProduce,
    "fetch": Fetch,
    "fetch-session": SessionFetch,
    "fetch-session-500": WideSessionFetch,
    "fetch-session-idle": EmptySessionFetch,
    "fetch-follower": FollowerFetch,
    "round-trip": RoundTrip,
    "round-trip-session": SessionRoundTrip,
    "heartbeat": Heartbeat,
    "heartbeat-consumer": ConsumerHeartbeat,
    "heartbeats-5": FramesOfOneRead,
    "heartbeats-1000": ManyFramesOfOneRead,
    "offset-commit": OffsetCommit,
    "transaction": Transaction,
    "transaction-written": WrittenTransaction,
    "markers": Marker,
    "metadata": MetadataAppend,
}
