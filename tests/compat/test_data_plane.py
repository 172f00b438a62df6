"""The same requests to Apache Kafka and to Tidelog get the same codes and offsets: the edges of the data plane's APIs.

Each conversation is held with both brokers over a raw socket. What it returns, codes, offsets and who was blamed, must be equal;
words for people may differ. Left out is what differs on purpose: each handler says so in its header.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.apache_kafka import ApacheKafka, Node, wait_until
from tests.support.raw_client import RawClient
from tidelog.model.errors import ErrorCode
from tidelog.testing.embedded_cluster import EmbeddedCluster
from tidelog.wire.compression import Compression
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.record_batch import TimestampType, each_batch, stamp_crc
from tidelog.wire.records import Record, build_batch

pytestmark = pytest.mark.compat

HOUR_MS = 60 * 60 * 1000
PRODUCE_VERSION = 12

Outcome = object


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(*values: str, times: Sequence[int] | None = None, key: bytes | None = b"k", **options: Any) -> bytearray:
    stamps = times or [now_ms()] * len(values)
    rows = [
        Record(number, stamp, key, value.encode())
        for number, (value, stamp) in enumerate(zip(values, stamps, strict=True))
    ]
    return bytearray(build_batch(rows, **options))


def with_field(records: bytearray, position: int, content: bytes) -> bytearray:
    """The batch with other bytes in its header, and a checksum that fits them."""
    records[position : position + len(content)] = content
    stamp_crc(records)
    return records


def with_length(records: bytearray, length: int) -> bytearray:
    records[8:12] = length.to_bytes(4, "big", signed=True)
    return records


class Talk:
    """A conversation with one broker."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.ids: dict[str, bytes] = {}

    def create(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)
        (created,) = self.client.call(request, CreateTopicsResponse, 7).topics
        assert created.error_code == 0, created
        self.ids[name] = created.topic_id
        # Metadata reaches a broker a little later than the answer reaches the client.
        wait_until(
            lambda: all(self.list_offset(name, -1, index=index)[0] == 0 for index in range(partitions)),
            f"{name} to have its leaders",
        )

    def produce(
        self,
        topic: str,
        records: bytes | bytearray | None,
        *,
        index: int = 0,
        acks: int = -1,
        version: int = PRODUCE_VERSION,
        transactional_id: str | None = None,
    ) -> tuple[str, int, bool, list[int]]:
        """Error, base offset, whether there is an append time, and which records are to blame."""
        data = TopicProduceData(
            name=topic,
            topic_id=self.ids.get(topic, bytes([7]) * 16),
            partition_data=[PartitionProduceData(index=index, records=None if records is None else bytes(records))],
        )
        request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=5000, topic_data=[data])
        answer = self.client.call(request, ProduceResponse, version).responses[0].partition_responses[0]
        blamed = [each.batch_index for each in answer.record_errors]
        return ErrorCode.of(answer.error_code).name, answer.base_offset, answer.log_append_time_ms >= 0, blamed

    def list_offset(
        self, topic: str, timestamp: int, *, index: int = 0, version: int = 10, epoch: int = -1, level: int = 0
    ) -> tuple[int, int, int]:
        asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=level,
            timeout_ms=1000,
            topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
        )
        answer = self.client.call(request, ListOffsetsResponse, version).topics[0].partitions[0]
        return answer.error_code, answer.offset, answer.leader_epoch

    def delete(self, topic: str, offset: int, index: int = 0) -> Outcome:
        wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=5000)
        answer = self.client.call(request, DeleteRecordsResponse, 2).topics[0].partitions[0]
        return ErrorCode.of(answer.error_code).name, answer.low_watermark

    def epoch_end(self, topic: str, epoch: int, *, current: int = -1, index: int = 0) -> Outcome:
        asked = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
        answer = self.client.call(request, OffsetForLeaderEpochResponse, 4).topics[0].partitions[0]
        return ErrorCode.of(answer.error_code).name, answer.leader_epoch, answer.end_offset

    def init_producer(self, transactional_id: str | None = None, *, producer_id: int = -1, epoch: int = -1) -> Any:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=1000,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return self.client.call(request, InitProducerIdResponse, 5)

    def new_producer_id(self) -> int:
        """Of a broker that may have to get some from its controller first."""
        found: list[int] = []

        def tried() -> bool:
            answer = self.init_producer()
            found.append(answer.producer_id)
            return bool(answer.error_code == 0)

        wait_until(tried, "a producer id")
        return found[-1]

    def fetch(
        self,
        *wanted: tuple[str, FetchPartition],
        version: int = 17,
        session: tuple[int, int] = (0, -1),
        forget: Sequence[tuple[str, int]] = (),
        **options: Any,
    ) -> FetchResponse:
        options = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **options}
        request = FetchRequest(
            **options,
            session_id=session[0],
            session_epoch=session[1],
            topics=[
                FetchTopic(topic=name, topic_id=self.ids.get(name, bytes([7]) * 16), partitions=[partition])
                for name, partition in wanted
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic=name, topic_id=self.ids[name], partitions=[index]) for name, index in forget
            ],
        )
        return self.client.call(request, FetchResponse, version)

    def fetched(self, *wanted: tuple[str, FetchPartition], **options: Any) -> tuple[str, list[tuple[object, ...]]]:
        return told(self.fetch(*wanted, **options))


def told(response: FetchResponse) -> tuple[str, list[tuple[object, ...]]]:
    """What an answer says of each partition: error, ends, how many bytes and batches, epochs."""
    return ErrorCode.of(response.error_code).name, [
        (
            data.partition_index,
            ErrorCode.of(data.error_code).name,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            len(bytes(data.records or b"")),  # type: ignore[arg-type]
            [header.base_offset for _, header in each_batch(bytes(data.records or b""))],  # type: ignore[arg-type]
            data.aborted_transactions,
            (data.diverging_epoch.epoch, data.diverging_epoch.end_offset),
        )
        for topic in response.responses
        for data in topic.partitions
    ]


def part(index: int = 0, offset: int = 0, limit: int = 1 << 20, **fields: Any) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=limit, **fields)


# The conversations


def produce_plain(talk: Talk) -> Outcome:
    talk.create("plain")
    return [
        talk.produce("plain", batch("a", "b")),
        talk.produce("plain", batch("c"), acks=1),
        talk.produce("plain", batch("d"), acks=2),
        talk.produce("plain", batch("d"), index=1),
        talk.produce("nowhere", batch("d")),
        talk.produce("nowhere", batch("d"), version=13),
        talk.produce("plain", batch("e"), version=13),
        talk.produce("plain", batch("z", codec=Compression.ZSTD), version=6),
        talk.produce("plain", batch("z", codec=Compression.ZSTD), version=7),
    ]


def produce_malformed(talk: Talk) -> Outcome:
    talk.create("malformed")
    wrong_crc = batch("a")
    wrong_crc[-1] ^= 1
    return [
        talk.produce("malformed", b""),
        talk.produce("malformed", batch("a") + batch("b")),
        talk.produce("malformed", batch("a")[:-1]),
        talk.produce("malformed", batch("a")[:30]),
        talk.produce("malformed", wrong_crc),
        *[talk.produce("malformed", batch("a") + bytes(length)) for length in (1, 11, 12, 16, 17, 60, 70)],
        talk.produce("malformed", batch("a") + batch("b")[:40]),
        *[talk.produce("malformed", with_length(batch("a"), length)) for length in (-1, 0, 20, 48)],
        *[talk.produce("malformed", with_field(batch("a"), 16, magic)) for magic in (b"\0", b"\1", b"\3", b"\xff")],
        *[talk.produce("malformed", with_field(batch("a"), position, b"\xff" * 4)) for position in (23, 57)],
        talk.produce("malformed", with_field(batch("a"), 0, (5).to_bytes(8, "big"))),
        talk.produce("malformed", with_field(batch("a"), 23, (3).to_bytes(4, "big"))),
        talk.produce("malformed", with_field(batch("a"), 57, (0).to_bytes(4, "big"))),
        talk.produce("malformed", with_field(batch("a"), 21, b"\0\x20")),
        talk.produce("malformed", batch("a", producer_id=5, producer_epoch=0, base_sequence=-1)),
        talk.list_offset("malformed", -1),
    ]


def produce_limits(talk: Talk) -> Outcome:
    talk.create("limited", configs={"max.message.bytes": "1000"})
    talk.create("packed", configs={"max.message.bytes": "1000", "compression.type": "uncompressed"})
    talk.create("zipped", configs={"compression.type": "zstd"})
    return [
        talk.produce("limited", batch("a" * 900)),
        talk.produce("limited", batch("a" * 1000)),
        talk.produce("packed", batch("a" * 5000, codec=Compression.GZIP)),
        talk.produce("packed", batch("a" * 100, codec=Compression.GZIP)),
        talk.fetched(("packed", part())),
        talk.produce("zipped", with_field(batch("a"), 62, b"\xff\xff\xff")),
        talk.produce("zipped", batch("a"), version=6),
        [partition[1:5] for partition in talk.fetched(("zipped", part()), version=9)[1]],
    ]


def produce_times(talk: Talk) -> Outcome:
    talk.create("times", configs={"message.timestamp.before.max.ms": "1000000"})
    talk.create("appended", configs={"message.timestamp.type": "LogAppendTime"})
    now = now_ms()
    return [
        talk.produce("times", batch("a", "b", "c", times=[now, now + 2 * HOUR_MS, now + 2 * HOUR_MS])),
        talk.produce("times", batch("a", "b", times=[now - 2 * HOUR_MS, now])),
        talk.produce("times", batch("a", times=[-1])),
        talk.produce("appended", batch("a", times=[now + 2 * HOUR_MS])),
        talk.produce("appended", batch("a", "b", timestamp_type=TimestampType.LOG_APPEND_TIME)),
        talk.produce("times", batch("a", "b", timestamp_type=TimestampType.LOG_APPEND_TIME)),
        talk.fetched(("times", part())),
    ]


def produce_keys(talk: Talk) -> Outcome:
    talk.create("compacted", configs={"cleanup.policy": "compact"})
    mixed = [Record(0, now_ms(), b"k", b"v"), Record(1, now_ms(), None, b"v"), Record(2, now_ms(), b"", b"v")]
    return [
        talk.produce("compacted", build_batch(mixed)),
        talk.produce("compacted", build_batch(mixed, codec=Compression.LZ4)),
        talk.produce("compacted", batch("a", "b")),
    ]


def produce_idempotent(talk: Talk) -> Outcome:
    talk.create("idempotent")
    producer = talk.new_producer_id()

    def send(sequence: int, epoch: int = 0, count: int = 2) -> Outcome:
        return talk.produce(
            "idempotent",
            batch(*["x"] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence),
        )[:2]

    return [send(0), send(0), send(2), send(2), send(5), send(4), send(0), send(1, 1), send(0, 1), send(6, 0)]


def produce_transactional(talk: Talk) -> Outcome:
    talk.create("transactional")
    records = batch("a", producer_id=4000, producer_epoch=0, base_sequence=0, is_transactional=True)
    return [talk.produce("transactional", records)]


def fetch_plain(talk: Talk) -> Outcome:
    talk.create("fetched", partitions=3)
    for index, count in ((0, 3), (1, 2)):
        for _ in range(count):
            talk.produce("fetched", batch("a" * 100), index=index)
    everything = [("fetched", part(index)) for index in range(3)]
    return [
        talk.fetched(*everything),
        talk.fetched(*everything, max_bytes=1),
        talk.fetched(*everything, max_bytes=400),
        talk.fetched(*[("fetched", part(index, limit=200)) for index in range(3)]),
        talk.fetched(("fetched", part(0, 2)), ("fetched", part(0, 1))),
        talk.fetched(("fetched", part(0, 3)), isolation_level=1),
        talk.fetched(("fetched", part(0, 4))),
        talk.fetched(("fetched", part(0, -1))),
        talk.fetched(("fetched", part(7)), ("nowhere", part())),
        talk.fetched(("fetched", part(7)), ("nowhere", part()), version=12),
        talk.fetched(("fetched", part(0, current_leader_epoch=9))),
        talk.fetched(("fetched", part(0, 2, last_fetched_epoch=0))),
        talk.fetched(("fetched", part(0, 2, last_fetched_epoch=9))),
        talk.fetched(("fetched", part(2)), max_wait_ms=50),
        talk.fetched(*everything, max_wait_ms=50, min_bytes=1 << 19),
        talk.fetched(*everything, max_bytes=0),
        talk.fetched(*everything, max_wait_ms=-5),
        talk.fetched(("fetched", part()), version=14, replica_id=9),
        talk.fetched(("fetched", part(current_leader_epoch=0)), version=14, replica_id=9),
        talk.fetched(("fetched", part()), version=14, replica_id=-2),
        talk.fetched(("fetched", part()), version=4, isolation_level=1),
    ]


def fetch_sessions(talk: Talk) -> Outcome:
    talk.create("session", partitions=3)
    first = talk.fetch(*[("session", part(index)) for index in range(3)], session=(0, 0))
    number = first.session_id
    outcomes = [told(first), number > 0]
    talk.produce("session", batch("a"), index=1)
    outcomes += [
        talk.fetched(session=(number, 1)),
        talk.fetched(("session", part(1, 1)), session=(number, 2)),
        talk.fetched(session=(number, 2)),
        talk.fetched(session=(number, 3), version=12),
        talk.fetched(("session", part(0, 9)), session=(number, 3)),
        talk.fetched(session=(number, 4)),
        talk.fetched(("session", part(0)), session=(number, 5), forget=[("session", 1)]),
        talk.fetched(session=(number, 6)),
        talk.fetched(session=(number + 1, 1)),
        talk.fetched(session=(number, 7), forget=[("session", 0), ("session", 2)]),
        talk.fetched(session=(number, 8)),
    ]
    return outcomes


def list_offsets(talk: Talk) -> Outcome:
    talk.create("listed")
    empty = [talk.list_offset("listed", stamp) for stamp in (-1, -2, -3, -4, -5, 1000)]
    now = now_ms()
    talk.produce("listed", batch("a", "b", "c", times=[now - 2000, now, now - 1000]))
    return [
        empty,
        [talk.list_offset("listed", stamp) for stamp in (-1, -2, -3, -4, -5)],
        [talk.list_offset("listed", stamp) for stamp in (0, now - 2000, now - 1999, now, now + 1)],
        [talk.list_offset("listed", -3, version=version)[0] for version in (6, 7)],
        [talk.list_offset("listed", -4, version=version)[0] for version in (7, 8)],
        [talk.list_offset("listed", -5, version=version)[0] for version in (8, 9)],
        [talk.list_offset("listed", stamp, version=10)[0] for stamp in (-6, -7)],
        [talk.list_offset("listed", -1, epoch=epoch)[0] for epoch in (0, 5)],
        talk.list_offset("listed", -1, level=1),
        talk.list_offset("nowhere", -1),
    ]


def delete_records(talk: Talk) -> Outcome:
    talk.create("deleted")
    talk.create("kept", configs={"cleanup.policy": "compact"})
    talk.produce("deleted", batch("a", "b", "c"))
    return [
        *[talk.delete("deleted", offset) for offset in (1, 0, 4, -2, -1)],
        talk.delete("deleted", 0, index=3),
        talk.delete("nowhere", 0),
        talk.delete("kept", 0),
        talk.fetched(("deleted", part(0, 0))),
        talk.fetched(("deleted", part(0, 3))),
        talk.list_offset("deleted", -2),
    ]


def epoch_ends(talk: Talk) -> Outcome:
    talk.create("epochs")
    talk.produce("epochs", batch("a", "b"))
    return [
        *[talk.epoch_end("epochs", epoch) for epoch in (0, 1, -1)],
        *[talk.epoch_end("epochs", 0, current=current) for current in (0, 1)],
        talk.epoch_end("epochs", 0, index=5),
        talk.epoch_end("nowhere", 0),
    ]


def producer_ids(talk: Talk) -> Outcome:
    talk.new_producer_id()
    first, second = talk.init_producer(), talk.init_producer()
    odd = [talk.init_producer(producer_id=5), talk.init_producer(epoch=5), talk.init_producer("")]
    return [
        (first.error_code, first.producer_epoch),
        second.producer_id == first.producer_id + 1,
        [(each.error_code, each.producer_id, each.producer_epoch) for each in odd],
    ]


CONVERSATIONS: list[Callable[[Talk], Outcome]] = [
    produce_plain,
    produce_malformed,
    produce_limits,
    produce_times,
    produce_keys,
    produce_idempotent,
    produce_transactional,
    fetch_plain,
    fetch_sessions,
    list_offsets,
    delete_records,
    epoch_ends,
    producer_ids,
]


@pytest.fixture(scope="module")
def apache(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root: Path = tmp_path_factory.mktemp("apache")
    with Node(kafka, root) as node:
        yield node.bootstrap


@pytest.fixture(scope="module")
def tidelog() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda each: each.__name__)
def test_both_answer_alike(conversation: Callable[[Talk], Outcome], apache: str, tidelog: str) -> None:
    with RawClient(apache) as theirs, RawClient(tidelog) as ours:
        expected = conversation(Talk(theirs))
        answered = conversation(Talk(ours))

    assert isinstance(answered, list)
    assert isinstance(expected, list)
    differences = [
        (place, ours, theirs)
        for place, (ours, theirs) in enumerate(zip(answered, expected, strict=True))
        if ours != theirs
    ]
    assert differences == []
