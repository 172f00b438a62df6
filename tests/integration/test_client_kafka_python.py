"""kafka-python against a real node over real sockets."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.running_node import DEADLINE_S, RunningNode

with warnings.catch_warnings():
    # It reads its schemas with a function of importlib that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource
    from kafka.errors import (
        InvalidPartitionsError,
        InvalidReplicationFactorError,
        InvalidTopicError,
        MessageSizeTooLargeError,
        OffsetOutOfRangeError,
        TopicAlreadyExistsError,
        UnknownTopicOrPartitionError,
    )

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

CODECS = (None, "gzip", "snappy", "lz4", "zstd")

MakeTopic = Callable[..., str]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = {"auto.create.topics.enable": "false", "message.max.bytes": "200000"}
    with RunningNode(tmp_path_factory.mktemp("node"), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def admin(node: RunningNode) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=node.bootstrap)
    yield client
    client.close()


@pytest.fixture(scope="module")
def make_topic(admin: KafkaAdminClient) -> MakeTopic:
    numbers = itertools.count()

    def make(partitions: int = 1, **config: str) -> str:
        name = f"topic-{next(numbers)}"
        named = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1, "configs": named}})
        return name

    return make


@pytest.fixture
def make_producer(node: RunningNode) -> Iterator[Callable[..., KafkaProducer]]:
    made: list[KafkaProducer] = []

    def make(**settings: Any) -> KafkaProducer:
        made.append(KafkaProducer(bootstrap_servers=node.bootstrap, **settings))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


@pytest.fixture
def consumer(node: RunningNode) -> Iterator[KafkaConsumer]:
    client = KafkaConsumer(bootstrap_servers=node.bootstrap, group_id=None, auto_offset_reset="none")
    yield client
    client.close()


def read(consumer: KafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        for records in consumer.poll(timeout_ms=1_000).values():
            found += records
    return found


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_records_come_back_as_they_were_sent(
    make_producer: Callable[..., KafkaProducer], make_topic: MakeTopic, consumer: KafkaConsumer, codec: str | None
) -> None:
    topic = make_topic(partitions=2)
    producer = make_producer(compression_type=codec, enable_idempotence=True, acks="all")
    headers = [("trace", b"\x00\xff"), ("empty", b"")]
    sent = [(str(number).encode(), f"value {number} ".encode() * 20) for number in range(100)]
    futures = [
        producer.send(
            topic, value, key=key, headers=headers, partition=number % 2, timestamp_ms=1_700_000_000_000 + number
        )
        for number, (key, value) in enumerate(sent)
    ]
    assert sorted(future.get(DEADLINE_S).offset for future in futures) == sorted([*range(50), *range(50)])
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    consumer.seek_to_beginning()
    records = read(consumer, 100)
    for partition in (0, 1):
        mine = [record for record in records if record.partition == partition]
        assert [record.offset for record in mine] == list(range(50))
        assert [(record.key, record.value) for record in mine] == sent[partition::2]
        assert [record.timestamp for record in mine] == [
            1_700_000_000_000 + number for number in range(partition, 100, 2)
        ]
        assert all(list(record.headers) == headers and record.timestamp_type == 0 for record in mine)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(
    make_producer: Callable[..., KafkaProducer], make_topic: MakeTopic, consumer: KafkaConsumer, acks: Any
) -> None:
    topic = make_topic()
    producer = make_producer(acks=acks, enable_idempotence=False)
    producer.send(topic, b"one")
    producer.send(topic, None, key=b"")
    producer.flush(DEADLINE_S)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    assert [(record.key, record.value) for record in read(consumer, 2)] == [(None, b"one"), (b"", None)]


def test_log_append_time_is_the_nodes(
    make_producer: Callable[..., KafkaProducer], make_topic: MakeTopic, consumer: KafkaConsumer
) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    answered = make_producer().send(topic, b"x", timestamp_ms=1_600_000_000_000).get(DEADLINE_S)
    assert before <= answered.timestamp <= int(time.time() * 1000)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    (record,) = read(consumer, 1)
    assert (record.timestamp, record.timestamp_type) == (answered.timestamp, 1)


def test_offsets_by_end_by_number_and_by_time(
    make_producer: Callable[..., KafkaProducer], make_topic: MakeTopic, consumer: KafkaConsumer
) -> None:
    topic = make_topic()
    partition = TopicPartition(topic, 0)
    producer = make_producer(compression_type="gzip", linger_ms=20)
    base = 1_700_000_000_000
    for number in range(30):
        producer.send(topic, str(number).encode(), timestamp_ms=base + 1_000 * number)
    producer.flush(DEADLINE_S)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 30}
    found = consumer.offsets_for_times({partition: base + 12_500})[partition]
    assert (found.offset, found.timestamp) == (13, base + 13_000)
    assert consumer.offsets_for_times({partition: base + 60_000})[partition] is None
    consumer.assign([partition])
    consumer.seek(partition, 17)
    assert read(consumer, 1)[0].value == b"17"
    consumer.seek_to_end(partition)
    assert consumer.position(partition) == 30


def test_an_offset_out_of_range_is_an_error(make_topic: MakeTopic, consumer: KafkaConsumer) -> None:
    partition = TopicPartition(make_topic(), 0)
    consumer.assign([partition])
    consumer.seek(partition, 99)
    with pytest.raises(OffsetOutOfRangeError):
        read(consumer, 1)


def test_deleted_records_are_gone(
    admin: KafkaAdminClient, make_producer: Callable[..., KafkaProducer], make_topic: MakeTopic, consumer: KafkaConsumer
) -> None:
    topic = make_topic()
    partition = TopicPartition(topic, 0)
    producer = make_producer()
    for _ in range(5):
        producer.send(topic, b"x")
    producer.flush(DEADLINE_S)
    admin.delete_records({partition: 3})
    assert consumer.beginning_offsets([partition]) == {partition: 3}


def test_too_large_is_refused_by_the_node(make_producer: Callable[..., KafkaProducer], make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = make_producer(max_request_size=1_000_000, enable_idempotence=False)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * 300_000).get(DEADLINE_S)
    assert producer.send(topic, b"x").get(DEADLINE_S).offset == 0


def test_the_cluster_and_its_topics_describe_themselves(
    node: RunningNode, admin: KafkaAdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    cluster = admin.describe_cluster()
    assert cluster["cluster_id"] == node.node.cluster_id
    assert [broker["broker_id"] for broker in cluster["brokers"]] == [1]
    assert topic in admin.list_topics()
    (found,) = admin.describe_topics([topic])
    assert (found["name"], len(found["partitions"]), found["error_code"]) == (topic, 2, 0)
    (by_partition,) = admin.describe_topic_partitions([topic])["topics"]
    assert [each["leader_id"] for each in by_partition["partitions"]] == [1, 1]
    assert topic in str(admin.describe_log_dirs())
    assert admin.describe_features()["metadata.version"]["finalized"] == (30, 30)
    quorum = admin.describe_metadata_quorum()
    assert quorum["topics"][0]["partitions"][0]["leader_id"] == 1


def test_topics_grow_and_go(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    admin.create_partitions({topic: 3})
    (found,) = admin.describe_topics([topic])
    assert len(found["partitions"]) == 3
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 2})
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_configuration_is_described_and_changed(admin: KafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="1000")

    def described() -> Any:
        found = admin.describe_configs([ConfigResource("TOPIC", topic)], config_filter="all", include_synonyms=True)
        return found["topic"][topic]

    assert described()["retention.ms"]["value"] == "1000"
    admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "2000"})], incremental=True)
    assert described()["retention.ms"]["value"] == "2000"
    # The older call states the whole configuration; this client adds what was set before.
    admin.alter_configs([ConfigResource("TOPIC", topic, {"max.message.bytes": "999"})], incremental=False)
    assert described()["max.message.bytes"]["value"] == "999"
    assert described()["retention.ms"]["value"] == "2000"
    assert topic in admin.list_config_resources(["TOPIC"]).get("topic", [])


@pytest.mark.parametrize(
    ("name", "replicas", "error"),
    [
        ("taken", 1, TopicAlreadyExistsError),
        ("no/slashes", 1, InvalidTopicError),
        ("many-replicas", 3, InvalidReplicationFactorError),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    admin: KafkaAdminClient, name: str, replicas: int, error: type[Exception]
) -> None:
    if name == "taken":
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}})
    with pytest.raises(error):
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": replicas}})
