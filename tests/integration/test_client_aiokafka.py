"""aiokafka against a real node over real sockets."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidReplicationFactorError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from tests.support.running_node import DEADLINE_S, RunningNode

CODECS = (None, "gzip", "snappy", "lz4", "zstd")

_numbers = itertools.count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = {"auto.create.topics.enable": "false", "message.max.bytes": "200000"}
    with RunningNode(tmp_path_factory.mktemp("node"), settings=settings) as running:
        yield running


class Clients:
    """What a test uses, each started here and stopped with the test."""

    def __init__(self, node: RunningNode) -> None:
        self.node = node
        self._started: list[Any] = []

    async def _start(self, client: Any) -> Any:
        await client.start()
        self._started.append(client)
        return client

    async def producer(self, **settings: Any) -> AIOKafkaProducer:
        return await self._start(AIOKafkaProducer(bootstrap_servers=self.node.bootstrap, **settings))

    async def consumer(self, *partitions: TopicPartition) -> AIOKafkaConsumer:
        made = AIOKafkaConsumer(bootstrap_servers=self.node.bootstrap, group_id=None, auto_offset_reset="none")
        await self._start(made)
        made.assign(list(partitions))
        return made

    async def admin(self) -> AIOKafkaAdminClient:
        made = AIOKafkaAdminClient(bootstrap_servers=self.node.bootstrap)
        await made.start()
        self._started.append(_Closing(made))
        return made

    async def topic(self, partitions: int = 1, **config: str) -> str:
        name = f"topic-{next(_numbers)}"
        named = {key.replace("_", "."): value for key, value in config.items()}
        admin = await self.admin()
        raise_for(await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=named)]))
        return name

    async def stop(self) -> None:
        for client in reversed(self._started):
            await client.stop()


class _Closing:
    def __init__(self, admin: AIOKafkaAdminClient) -> None:
        self._admin = admin

    async def stop(self) -> None:
        await self._admin.close()


def raise_for(answer: Any) -> None:
    """The first error of an answer about topics, as the exception of its name."""
    topics = getattr(answer, "topic_errors", None) or answer.topic_error_codes
    for _topic, code, *_message in topics:
        if code:
            raise for_code(code)


Story = Callable[[Clients], Coroutine[Any, Any, None]]


def tell(node: RunningNode, story: Story) -> None:
    """Runs one test on an event loop of its own, within the deadline."""

    @asynccontextmanager
    async def clients() -> AsyncIterator[Clients]:
        made = Clients(node)
        try:
            yield made
        finally:
            await made.stop()

    async def run() -> None:
        async with asyncio.timeout(DEADLINE_S), clients() as made:
            await story(made)

    asyncio.run(run())


async def read(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_records_come_back_as_they_were_sent(node: RunningNode, codec: str | None) -> None:
    async def story(clients: Clients) -> None:
        topic = await clients.topic(partitions=2)
        producer = await clients.producer(compression_type=codec, enable_idempotence=True, linger_ms=5)
        headers = [("trace", b"\x00\xff"), ("empty", b"")]
        sent = [(str(number).encode(), f"value {number} ".encode() * 20) for number in range(100)]
        base = 1_700_000_000_000
        futures = [
            await producer.send(
                topic, value, key=key, headers=headers, partition=number % 2, timestamp_ms=base + number
            )
            for number, (key, value) in enumerate(sent)
        ]
        answers = await asyncio.gather(*futures)
        assert [(each.partition, each.offset) for each in answers] == [divmod(n, 2)[::-1] for n in range(100)]
        partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        consumer = await clients.consumer(*partitions)
        await consumer.seek_to_beginning()
        records = await read(consumer, 100)
        for index in (0, 1):
            mine = [record for record in records if record.partition == index]
            assert [record.offset for record in mine] == list(range(50))
            assert [(record.key, record.value) for record in mine] == sent[index::2]
            assert [record.timestamp for record in mine] == [base + number for number in range(index, 100, 2)]
            assert all(list(record.headers) == headers and record.timestamp_type == 0 for record in mine)

    tell(node, story)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_kind_of_acknowledgement(node: RunningNode, acks: Any) -> None:
    async def story(clients: Clients) -> None:
        topic = await clients.topic()
        producer = await clients.producer(acks=acks)
        await producer.send_and_wait(topic, b"one")
        await producer.send_and_wait(topic, None, key=b"")
        consumer = await clients.consumer(TopicPartition(topic, 0))
        await consumer.seek_to_beginning()
        assert [(each.key, each.value) for each in await read(consumer, 2)] == [(None, b"one"), (b"", None)]

    tell(node, story)


def test_log_append_time_is_the_nodes(node: RunningNode) -> None:
    async def story(clients: Clients) -> None:
        topic = await clients.topic(message_timestamp_type="LogAppendTime")
        before = int(time.time() * 1000)
        producer = await clients.producer()
        answered = await producer.send_and_wait(topic, b"x", timestamp_ms=1_600_000_000_000)
        assert before <= answered.timestamp <= int(time.time() * 1000)
        consumer = await clients.consumer(TopicPartition(topic, 0))
        await consumer.seek_to_beginning()
        (record,) = await read(consumer, 1)
        assert (record.timestamp, record.timestamp_type) == (answered.timestamp, 1)

    tell(node, story)


def test_offsets_by_end_by_number_and_by_time(node: RunningNode) -> None:
    async def story(clients: Clients) -> None:
        topic = await clients.topic()
        partition = TopicPartition(topic, 0)
        producer = await clients.producer(compression_type="lz4", linger_ms=20)
        base = 1_700_000_000_000
        for number in range(30):
            await producer.send(topic, str(number).encode(), timestamp_ms=base + 1_000 * number)
        await producer.flush()
        consumer = await clients.consumer(partition)
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 30}
        found = (await consumer.offsets_for_times({partition: base + 12_500}))[partition]
        assert (found.offset, found.timestamp) == (13, base + 13_000)
        assert (await consumer.offsets_for_times({partition: base + 60_000}))[partition] is None
        consumer.seek(partition, 17)
        assert (await consumer.getone()).value == b"17"
        await consumer.seek_to_end(partition)
        assert await consumer.position(partition) == 30

    tell(node, story)


def test_a_consumer_that_waits_is_woken_by_a_record(node: RunningNode) -> None:
    async def story(clients: Clients) -> None:
        topic = await clients.topic()
        consumer = await clients.consumer(TopicPartition(topic, 0))
        await consumer.seek_to_end()
        waiting = asyncio.create_task(consumer.getone())
        producer = await clients.producer()
        await producer.send_and_wait(topic, b"now")
        assert (await waiting).value == b"now"

    tell(node, story)


def test_an_offset_out_of_range_is_an_error(node: RunningNode) -> None:
    async def story(clients: Clients) -> None:
        partition = TopicPartition(await clients.topic(), 0)
        consumer = await clients.consumer(partition)
        consumer.seek(partition, 99)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.getone()

    tell(node, story)


def test_too_large_is_refused_by_the_node(node: RunningNode) -> None:
    async def story(clients: Clients) -> None:
        topic = await clients.topic()
        producer = await clients.producer(max_request_size=1_000_000)
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, b"x" * 300_000)
        assert (await producer.send_and_wait(topic, b"x")).offset == 0

    tell(node, story)


def test_administration(node: RunningNode) -> None:
    async def story(clients: Clients) -> None:
        admin = await clients.admin()
        topic = await clients.topic(partitions=1, retention_ms="1000")
        cluster = await admin.describe_cluster()
        assert cluster["cluster_id"] == node.node.cluster_id
        assert [broker["node_id"] for broker in cluster["brokers"]] == [1]
        await admin.create_partitions({topic: NewPartitions(3)})
        (found,) = await admin.describe_topics([topic])
        assert (found["topic"], len(found["partitions"])) == (topic, 3)

        async def value(key: str) -> str:
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            ((_code, _message, _type, _name, entries),) = answer.resources
            return str({entry[0]: entry[1] for entry in entries}[key])

        assert await value("retention.ms") == "1000"
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.bytes": "2097152"})])
        assert await value("segment.bytes") == "2097152"
        # The call states the whole configuration: what it does not name has its default again.
        assert await value("retention.ms") == "604800000"
        producer = await clients.producer()
        for _ in range(5):
            await producer.send_and_wait(topic, b"x", partition=0)
        partition = TopicPartition(topic, 0)
        assert await admin.delete_records({partition: RecordsToDelete(before_offset=3)}) == {partition: 3}
        raise_for(await admin.delete_topics([topic]))
        assert topic not in await admin.list_topics()
        with pytest.raises(UnknownTopicOrPartitionError):
            raise_for(await admin.delete_topics([topic]))

    tell(node, story)


@pytest.mark.parametrize(
    ("name", "replicas", "error"),
    [
        ("taken", 1, TopicAlreadyExistsError),
        ("no/slashes", 1, InvalidTopicError),
        ("many-replicas", 3, InvalidReplicationFactorError),
    ],
)
def test_a_topic_that_cannot_be_is_refused(node: RunningNode, name: str, replicas: int, error: type[Exception]) -> None:
    async def story(clients: Clients) -> None:
        admin = await clients.admin()
        if name == "taken":
            raise_for(await admin.create_topics([NewTopic(name, 1, 1)]))
        with pytest.raises(error):
            raise_for(await admin.create_topics([NewTopic(name, 1, replicas)]))

    tell(node, story)
