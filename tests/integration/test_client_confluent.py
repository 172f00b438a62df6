"""librdkafka, through confluent-kafka, against a real node over real sockets."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.support.running_node import DEADLINE_S, RunningNode

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Where a value comes from, as a description has it: a number, whatever its annotation says.
DYNAMIC_TOPIC: Any = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
DYNAMIC_BROKER: Any = ConfigSource.DYNAMIC_BROKER_CONFIG.value
STATIC_BROKER: Any = ConfigSource.STATIC_BROKER_CONFIG.value

MakeTopic = Callable[..., str]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = {"auto.create.topics.enable": "false", "message.max.bytes": "200000"}
    with RunningNode(tmp_path_factory.mktemp("node"), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def admin(node: RunningNode) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap})


@pytest.fixture(scope="module")
def make_topic(admin: AdminClient) -> MakeTopic:
    numbers = itertools.count()

    def make(partitions: int = 1, **config: str) -> str:
        name = f"topic-{next(numbers)}"
        named = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=named)])[name].result(DEADLINE_S)
        return name

    return make


@pytest.fixture
def consumer(node: RunningNode) -> Iterator[Consumer]:
    settings = {
        "bootstrap.servers": node.bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": False,
    }
    made = Consumer(settings)
    yield made
    made.close()


def producer(node: RunningNode, **settings: Any) -> Producer:
    named = {key if key.endswith("_cb") else key.replace("_", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 1, **named})


def send(sender: Producer, topic: str, values: list[bytes], **more: Any) -> list[Message]:
    """Sends every value, and returns what was delivered, in the order of delivery."""
    delivered: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    for value in values:
        sender.produce(topic, value, on_delivery=on_delivery, **more)
    assert sender.flush(DEADLINE_S) == 0
    return delivered


def refusal(sender: Producer, topic: str, **message: Any) -> KafkaError:
    """The error with which a message comes back."""
    errors: list[KafkaError | None] = []
    sender.produce(topic, on_delivery=lambda error, _message: errors.append(error), **message)
    assert sender.flush(DEADLINE_S) == 0
    (error,) = errors
    assert error is not None
    return error


def read(consumer: Consumer, count: int) -> list[Message]:
    """The next records of what is assigned."""
    messages: list[Message] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} records came"
        for message in consumer.consume(count - len(messages), timeout=1):
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


# --- records --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codec", "idempotent"), [*((codec, False) for codec in CODECS), ("none", True), ("zstd", True)]
)
def test_records_come_back_as_they_were_sent(
    node: RunningNode, make_topic: MakeTopic, consumer: Consumer, codec: str, *, idempotent: bool
) -> None:
    topic = make_topic(partitions=2)
    values = [f"value {number} ".encode() * 20 for number in range(300)]
    sender = producer(node, compression_type=codec, enable_idempotence=idempotent, acks="all")
    for number, value in enumerate(values):
        sender.produce(topic, value, key=str(number), partition=number % 2)
    assert sender.flush(DEADLINE_S) == 0
    consumer.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    messages = read(consumer, 300)
    for partition in (0, 1):
        mine = [message for message in messages if message.partition() == partition]
        assert [message.offset() for message in mine] == list(range(150))
        assert [(message.key(), message.value()) for message in mine] == [
            (str(number).encode(), values[number]) for number in range(partition, 300, 2)
        ]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(node: RunningNode, make_topic: MakeTopic, consumer: Consumer, acks: str) -> None:
    topic = make_topic()
    delivered = send(producer(node, acks=acks), topic, [b"one", b"two"])
    assert len(delivered) == 2
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in read(consumer, 2)] == [b"one", b"two"]


def test_nulls_empties_and_headers_keep_their_difference(
    node: RunningNode, make_topic: MakeTopic, consumer: Consumer
) -> None:
    topic = make_topic()
    sender = producer(node)
    headers: list[tuple[str, str | bytes | None]] = [
        ("trace", b"\x00\xff"),
        ("empty", b""),
        ("none", None),
        ("trace", b"again"),
    ]
    sender.produce(topic, value=None, key=None)
    sender.produce(topic, value=b"", key=b"")
    sender.produce(topic, value=b"v", key=b"k", headers=headers)
    assert sender.flush(DEADLINE_S) == 0
    consumer.assign([TopicPartition(topic, 0, 0)])
    nothing, empty, full = read(consumer, 3)
    assert (nothing.key(), nothing.value(), nothing.headers()) == (None, None, None)
    assert (empty.key(), empty.value()) == (b"", b"")
    assert full.headers() == headers


def test_create_time_is_the_producers(node: RunningNode, make_topic: MakeTopic, consumer: Consumer) -> None:
    topic = make_topic()
    send(producer(node), topic, [b"x"], timestamp=1_600_000_000_123)
    consumer.assign([TopicPartition(topic, 0, 0)])
    (message,) = read(consumer, 1)
    assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 1_600_000_000_123)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_log_append_time_is_the_nodes(node: RunningNode, make_topic: MakeTopic, consumer: Consumer, codec: str) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    delivered = send(producer(node, compression_type=codec), topic, [b"x" * 200] * 3, timestamp=1_600_000_000_123)
    after = int(time.time() * 1000)
    consumer.assign([TopicPartition(topic, 0, 0)])
    for message in [*read(consumer, 3), *delivered]:
        kind, stamp = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME or message in delivered
        assert before <= stamp <= after


def test_a_topics_own_codec_replaces_the_producers(
    node: RunningNode, make_topic: MakeTopic, consumer: Consumer
) -> None:
    topic = make_topic(compression_type="gzip")
    values = [f"value {number}".encode() * 30 for number in range(50)]
    send(producer(node, compression_type="lz4", enable_idempotence=True), topic, values)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [message.value() for message in read(consumer, 50)] == values


def test_a_consumer_that_waits_is_woken_by_a_record(node: RunningNode, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sender = producer(node)
    # The long poll is longer than the deadline: only the wake-up can bring the record in time.
    settings = {
        "bootstrap.servers": node.bootstrap,
        "group.id": "unused",
        "fetch.wait.max.ms": 60_000,
        "socket.timeout.ms": 120_000,
        "enable.auto.commit": False,
    }
    waiting = Consumer(settings)
    try:
        waiting.assign([TopicPartition(topic, 0, 0)])
        send(sender, topic, [b"first"])
        assert [message.value() for message in read(waiting, 1)] == [b"first"]
        send(sender, topic, [b"second"])
        assert [message.value() for message in read(waiting, 1)] == [b"second"]
    finally:
        waiting.close()


def test_a_record_larger_than_the_fetch_limits_still_comes(node: RunningNode, make_topic: MakeTopic) -> None:
    topic = make_topic()
    value = b"x" * 100_000
    send(producer(node), topic, [value, b"small"])
    settings = {
        "bootstrap.servers": node.bootstrap,
        "group.id": "unused",
        "fetch.message.max.bytes": 1_000,
        "enable.auto.commit": False,
    }
    small = Consumer(settings)
    try:
        small.assign([TopicPartition(topic, 0, 0)])
        assert [message.value() for message in read(small, 2)] == [value, b"small"]
    finally:
        small.close()


# --- offsets --------------------------------------------------------------------------------------------------------------


def test_seek_by_offset_from_the_middle_of_a_batch(
    node: RunningNode, make_topic: MakeTopic, consumer: Consumer
) -> None:
    topic = make_topic()
    send(producer(node, compression_type="gzip", linger_ms=50), topic, [str(number).encode() for number in range(100)])
    consumer.assign([TopicPartition(topic, 0, 37)])
    assert [message.value() for message in read(consumer, 2)] == [b"37", b"38"]
    consumer.seek(TopicPartition(topic, 0, 5))
    assert read(consumer, 1)[0].value() == b"5"


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_offsets_by_time(node: RunningNode, make_topic: MakeTopic, consumer: Consumer, codec: str) -> None:
    topic = make_topic()
    base = 1_700_000_000_000
    sender = producer(node, compression_type=codec, linger_ms=50)
    for number in range(50):
        sender.produce(topic, b"value" * 20, timestamp=base + 1_000 * number)
    assert sender.flush(DEADLINE_S) == 0

    def at(stamp: int) -> int:
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, stamp)], timeout=DEADLINE_S)
        return found.offset

    assert at(base) == 0
    assert at(base + 20_001) == 21
    assert at(base + 21_000) == 21
    # After the last one there is nothing: the client says so with the end of the log.
    assert at(base + 50_000) == -1


def test_watermarks_and_every_offset_specification(
    node: RunningNode, admin: AdminClient, make_topic: MakeTopic, consumer: Consumer
) -> None:
    topic = make_topic()
    sender = producer(node)
    for stamp in (1_700_000_000_000, 1_700_000_009_000, 1_700_000_001_000):
        send(sender, topic, [b"x"], timestamp=stamp)
    partition = TopicPartition(topic, 0)
    assert consumer.get_watermark_offsets(partition, timeout=DEADLINE_S) == (0, 3)

    def listed(name: str, *arguments: int) -> int:
        spec: OffsetSpec = getattr(OffsetSpec, name)(*arguments)
        return int(admin.list_offsets({partition: spec})[partition].result(DEADLINE_S).offset)

    assert listed("earliest") == 0
    assert listed("latest") == 3
    assert listed("max_timestamp") == 1
    assert listed("for_timestamp", 1_700_000_000_500) == 1


def test_deleted_records_are_gone(
    node: RunningNode, admin: AdminClient, make_topic: MakeTopic, consumer: Consumer
) -> None:
    topic = make_topic()
    send(producer(node), topic, [str(number).encode() for number in range(10)])
    partition = TopicPartition(topic, 0, 4)
    deleted = admin.delete_records([partition])[partition].result(DEADLINE_S)
    assert deleted.low_watermark == 4
    assert consumer.get_watermark_offsets(partition, timeout=DEADLINE_S) == (4, 10)
    consumer.assign([TopicPartition(topic, 0, 4)])
    assert read(consumer, 1)[0].value() == b"4"


def test_an_offset_out_of_range_is_an_error_of_the_partition(
    node: RunningNode, make_topic: MakeTopic, consumer: Consumer
) -> None:
    topic = make_topic()
    send(producer(node), topic, [b"x"])
    consumer.assign([TopicPartition(topic, 0, 99)])
    message = consumer.poll(DEADLINE_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    assert "out of range" in error.str().lower()


# --- administration -------------------------------------------------------------------------------------------------------


def test_the_cluster_describes_itself(node: RunningNode, admin: AdminClient) -> None:
    found = admin.describe_cluster(include_authorized_operations=True).result(DEADLINE_S)
    assert found.cluster_id == node.node.cluster_id
    assert [(each.id, f"{each.host}:{each.port}") for each in found.nodes] == [(1, node.bootstrap)]
    assert found.controller.id == 1
    assert found.authorized_operations


def test_topics_are_created_described_grown_and_deleted(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("grown", 1, 1)])["grown"].result(DEADLINE_S)
    admin.create_partitions([NewPartitions("grown", 3)])["grown"].result(DEADLINE_S)
    found = admin.list_topics("grown", timeout=DEADLINE_S).topics["grown"]
    assert sorted(found.partitions) == [0, 1, 2]
    assert all(each.leader == 1 and each.replicas == [1] and each.isrs == [1] for each in found.partitions.values())
    admin.delete_topics(["grown"])["grown"].result(DEADLINE_S)
    assert "grown" not in admin.list_topics(timeout=DEADLINE_S).topics


def test_a_topic_made_again_has_a_new_id_and_none_of_the_old_records(
    node: RunningNode, admin: AdminClient, consumer: Consumer
) -> None:
    def topic_id() -> str:
        found = admin.describe_topics(TopicCollection(["again"]))["again"].result(DEADLINE_S)
        return str(found.topic_id)

    admin.create_topics([NewTopic("again", 1, 1)])["again"].result(DEADLINE_S)
    send(producer(node), "again", [b"old"])
    first = topic_id()
    admin.delete_topics(["again"])["again"].result(DEADLINE_S)
    admin.create_topics([NewTopic("again", 1, 1)])["again"].result(DEADLINE_S)
    assert topic_id() != first
    assert consumer.get_watermark_offsets(TopicPartition("again", 0), timeout=DEADLINE_S) == (0, 0)
    (delivered,) = send(producer(node), "again", [b"new"])
    assert delivered.offset() == 0
    consumer.assign([TopicPartition("again", 0, 0)])
    assert read(consumer, 1)[0].value() == b"new"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (NewTopic("taken", 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("no/slashes", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("many-replicas", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("bad-config", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("unknown-config", 1, 1, config={"no.such.key": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("elsewhere", 1, replica_assignment=[[9]]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=lambda value: value.topic if isinstance(value, NewTopic) else "",
)
def test_a_topic_that_cannot_be_is_refused(admin: AdminClient, asked: NewTopic, code: int) -> None:
    if asked.topic == "taken":
        admin.create_topics([NewTopic("taken", 1, 1)])["taken"].result(DEADLINE_S)
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([asked])[asked.topic].result(DEADLINE_S)
    assert refused.value.args[0].code() == code


def test_validate_only_makes_nothing(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("imagined", 1, 1)], validate_only=True)["imagined"].result(DEADLINE_S)
    assert "imagined" not in admin.list_topics(timeout=DEADLINE_S).topics


def test_fewer_partitions_are_refused(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(DEADLINE_S)
    assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS


def test_a_topics_configuration_is_described_and_changed(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="1000")
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def described() -> dict[str, ConfigEntry]:
        return dict(admin.describe_configs([resource])[resource].result(DEADLINE_S))

    before = described()
    assert before["retention.ms"].value == "1000"
    assert before["retention.ms"].source == DYNAMIC_TOPIC
    assert before["cleanup.policy"].is_default
    # From the node's own configuration file.
    assert before["max.message.bytes"].value == "200000"
    assert before["max.message.bytes"].source == STATIC_BROKER
    change = ConfigResource(
        ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
            ConfigEntry("max.message.bytes", "500", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ],
    )
    admin.incremental_alter_configs([change])[change].result(DEADLINE_S)
    after = described()
    assert after["retention.ms"].value == "604800000"
    assert after["max.message.bytes"].value == "500"
    assert after["cleanup.policy"].value == "delete,compact"


def test_a_changed_configuration_is_effective_at_once(
    node: RunningNode, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    sender = producer(node)
    send(sender, topic, [b"x" * 5_000])
    change = ConfigResource(
        ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)],
    )
    admin.incremental_alter_configs([change])[change].result(DEADLINE_S)
    assert refusal(sender, topic, value=b"x" * 5_000).code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_brokers_configuration_is_described_and_changed(admin: AdminClient) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")

    def described() -> dict[str, ConfigEntry]:
        return dict(admin.describe_configs([resource])[resource].result(DEADLINE_S))

    assert described()["message.max.bytes"].source == STATIC_BROKER
    change = ConfigResource(
        ConfigResource.Type.BROKER,
        "1",
        incremental_configs=[ConfigEntry("log.retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)],
    )
    admin.incremental_alter_configs([change])[change].result(DEADLINE_S)
    changed = described()["log.retention.ms"]
    assert (changed.value, changed.source) == ("12345", DYNAMIC_BROKER)
    back = ConfigResource(
        ConfigResource.Type.BROKER,
        "1",
        incremental_configs=[ConfigEntry("log.retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)],
    )
    admin.incremental_alter_configs([back])[back].result(DEADLINE_S)


@pytest.fixture
def generous(tmp_path: Path) -> Iterator[RunningNode]:
    """A node as it comes: topics are made when they are asked for."""
    with RunningNode(tmp_path, settings={"num.partitions": "3"}) as running:
        yield running


def test_a_topic_is_made_when_a_producer_asks_for_it(generous: RunningNode) -> None:
    (delivered,) = send(producer(generous), "on-demand", [b"x"])
    assert delivered.offset() == 0
    admin = AdminClient({"bootstrap.servers": generous.bootstrap})
    found = admin.list_topics("on-demand", timeout=DEADLINE_S).topics["on-demand"]
    assert sorted(found.partitions) == [0, 1, 2]


def test_a_consumer_goes_on_when_its_node_starts_again(tmp_path: Path) -> None:
    with RunningNode(tmp_path) as first:
        port = int(first.bootstrap.rpartition(":")[2])
        sender = producer(first, reconnect_backoff_max_ms=100)
        waiting = Consumer(
            {
                "bootstrap.servers": first.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 100,
            }
        )
        send(sender, "orders", [b"before"])
        waiting.assign([TopicPartition("orders", 0, 0)])
        assert [message.value() for message in read(waiting, 1)] == [b"before"]
    with RunningNode(tmp_path, port=port):
        send(sender, "orders", [b"after"])
        assert [(message.offset(), message.value()) for message in read(waiting, 1)] == [(1, b"after")]
        waiting.close()


# --- errors ---------------------------------------------------------------------------------------------------------------


def test_an_unknown_topic_is_named_so(node: RunningNode, admin: AdminClient) -> None:
    found = admin.list_topics("nowhere", timeout=DEADLINE_S).topics["nowhere"]
    assert found.error is not None
    assert found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    error = refusal(producer(node, topic_metadata_propagation_max_ms=0), "nowhere", value=b"x")
    assert error.code() in {KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART}
    with pytest.raises(KafkaException) as refused:
        admin.delete_topics(["nowhere"])["nowhere"].result(DEADLINE_S)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_record_that_is_too_large_is_refused_and_the_next_is_not(node: RunningNode, make_topic: MakeTopic) -> None:
    topic = make_topic()
    sender = producer(node, message_max_bytes=1_000_000)
    assert refusal(sender, topic, value=b"x" * 300_000).code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert send(sender, topic, [b"x"])[0].offset() == 0


def test_a_compacted_topic_refuses_a_record_without_a_key(node: RunningNode, make_topic: MakeTopic) -> None:
    topic = make_topic(cleanup_policy="compact")
    sender = producer(node)
    assert refusal(sender, topic, value=b"x", key=None).code() == KafkaError.INVALID_RECORD
    assert send(sender, topic, [b"x"], key=b"k")[0].offset() == 0


def test_a_timestamp_far_from_now_is_refused_where_the_topic_says_so(node: RunningNode, make_topic: MakeTopic) -> None:
    topic = make_topic(message_timestamp_before_max_ms="60000")
    error = refusal(producer(node), topic, value=b"x", timestamp=1_600_000_000_000)
    assert error.code() == KafkaError.INVALID_TIMESTAMP


def test_no_more_replicas_are_required_in_sync_than_there_are(node: RunningNode, make_topic: MakeTopic) -> None:
    topic = make_topic(min_insync_replicas="2")
    assert send(producer(node, acks="all"), topic, [b"x"])[0].offset() == 0


def test_the_client_counts_no_error_while_it_works(node: RunningNode, make_topic: MakeTopic) -> None:
    """librdkafka counts what it had to do again: a healthy node gives it no reason."""
    topic = make_topic(partitions=3)
    counted: list[dict[str, Any]] = []
    on_statistics = {"stats_cb": lambda text: counted.append(json.loads(text))}
    sender = producer(node, statistics_interval_ms=10, enable_idempotence=True, **on_statistics)
    send(sender, topic, [b"x" * 100] * 500)
    deadline = time.monotonic() + DEADLINE_S
    while not counted or counted[-1]["txmsgs"] < 500:
        assert time.monotonic() < deadline
        sender.poll(0.05)
    brokers = [broker for broker in counted[-1]["brokers"].values() if broker["nodeid"] == 1]
    assert [(each["txerrs"], each["rxerrs"], each["txretries"], each["req_timeouts"]) for each in brokers] == [
        (0, 0, 0, 0)
    ]
