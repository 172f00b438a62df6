"""A node as a process of its own: killed while clients write, stopped and started again on the same directory."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
)

from tests.support.node_process import NodeProcess
from tests.support.running_node import DEADLINE_S

PARTITIONS = 3

# Enough for several requests under way, few enough to be soon done.
OUTSTANDING_MAX = 1_000


class Stream:
    """Numbered orders, written as fast as the node takes them; remembers which were acknowledged."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 1,
                # Small batches, many requests: the kill falls between, into and after them.
                "batch.num.messages": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                **settings,
            }
        )
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.failed: list[KafkaError] = []

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        key = message.key()
        assert key is not None
        self.acknowledged.add(int(key))

    def write(self, *, until_acknowledged: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while len(self.acknowledged) < until_acknowledged:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} acknowledged"
            while len(self._producer) < OUTSTANDING_MAX:
                self._producer.produce(
                    self._topic,
                    b"order" * 20,
                    key=str(self.sent),
                    partition=self.sent % PARTITIONS,
                    on_delivery=self._delivered,
                )
                self.sent += 1
            self._producer.poll(0.001)

    def finish(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0

    def give_up(self) -> None:
        """Take back what was not acknowledged. A producer that waits for reports is not let go of, and goes on trying."""
        self._producer.purge()
        self.finish()


def read_all(bootstrap: str, topic: str) -> list[tuple[int, int, int]]:
    """(partition, offset, number) of everything that is there."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        found: list[tuple[int, int, int]] = []
        ends = {}
        for index in range(PARTITIONS):
            ends[index] = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=DEADLINE_S)[1]
        consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < sum(ends.values()):
            assert time.monotonic() < deadline, f"{len(found)} of {ends}"
            for message in consumer.consume(1_000, timeout=0.1):
                assert message.error() is None, message.error()
                key, partition, offset = message.key(), message.partition(), message.offset()
                assert key is not None
                assert partition is not None
                assert offset is not None
                found.append((partition, offset, int(key)))
        return found
    finally:
        consumer.close()


def create(bootstrap: str, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    named = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=named)])[topic].result(DEADLINE_S)


def topic_id(bootstrap: str, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return str(admin.describe_topics(TopicCollection([topic]))[topic].result(DEADLINE_S).topic_id)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "node"
    path.mkdir()
    return path


def test_an_idempotent_producer_outlives_a_kill_with_nothing_lost_and_nothing_doubled(directory: Path) -> None:
    with NodeProcess(directory) as node:
        # Small segments: several were rolled when the kill comes.
        create(node.bootstrap, "orders", segment_bytes="1048576")
        stream = Stream(node.bootstrap, "orders", **{"enable.idempotence": True})
        stream.write(until_acknowledged=5_000)
        node.kill()
        port = node.port
    with NodeProcess(directory, port=port) as node:
        stream.write(until_acknowledged=len(stream.acknowledged) + 3_000)
        node.kill()
    with NodeProcess(directory, port=port) as node:
        stream.write(until_acknowledged=len(stream.acknowledged) + 3_000)
        stream.finish()
        found = read_all(node.bootstrap, "orders")
    assert stream.failed == []
    assert len(stream.acknowledged) == stream.sent
    times = Counter(number for _, _, number in found)
    assert set(times) == set(range(stream.sent))
    assert {number: count for number, count in times.items() if count != 1} == {}
    for index in range(PARTITIONS):
        mine = [(offset, number) for partition, offset, number in found if partition == index]
        assert [offset for offset, _ in mine] == list(range(len(mine)))
        assert [number for _, number in mine] == list(range(index, stream.sent, PARTITIONS)), "out of order"


def test_what_was_acknowledged_before_a_kill_is_there_after_it(directory: Path) -> None:
    with NodeProcess(directory) as node:
        create(node.bootstrap, "orders")
        identity = topic_id(node.bootstrap, "orders")
        stream = Stream(node.bootstrap, "orders", **{"retries": 0, "message.timeout.ms": 1_000})
        stream.write(until_acknowledged=3_000)
        node.kill()
    stream.give_up()
    with NodeProcess(directory) as node:
        assert topic_id(node.bootstrap, "orders") == identity
        found = [number for _, _, number in read_all(node.bootstrap, "orders")]
        assert stream.acknowledged - set(found) == set()
        # Without retries nothing is sent twice.
        assert len(found) == len(set(found))


def test_everything_survives_a_clean_stop(directory: Path) -> None:
    with NodeProcess(directory) as node:
        create(node.bootstrap, "orders", retention_ms="123456789", min_insync_replicas="1")
        identity = topic_id(node.bootstrap, "orders")
        stream = Stream(node.bootstrap, "orders", **{"enable.idempotence": True})
        stream.write(until_acknowledged=500)
        stream.finish()
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        cluster = admin.describe_cluster().result(DEADLINE_S).cluster_id
        port = node.port
        assert node.stop() == 0
    with NodeProcess(directory, port=port) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        assert admin.describe_cluster().result(DEADLINE_S).cluster_id == cluster
        assert topic_id(node.bootstrap, "orders") == identity
        resource = ConfigResource(ConfigResource.Type.TOPIC, "orders")
        configs = admin.describe_configs([resource])[resource].result(DEADLINE_S)
        assert configs["retention.ms"].value == "123456789"
        # The same producer goes on where it was: its id and its sequences are known.
        stream.write(until_acknowledged=len(stream.acknowledged) + 500)
        stream.finish()
        assert stream.failed == []
        found = [number for _, _, number in read_all(node.bootstrap, "orders")]
        assert sorted(found) == list(range(stream.sent))


def test_a_deleted_topic_stays_deleted_and_made_again_is_another(directory: Path) -> None:
    with NodeProcess(directory) as node:
        create(node.bootstrap, "orders")
        create(node.bootstrap, "gone")
        first = topic_id(node.bootstrap, "orders")
        stream = Stream(node.bootstrap, "orders")
        stream.write(until_acknowledged=100)
        stream.finish()
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for deleted in admin.delete_topics(["orders", "gone"]).values():
            deleted.result(DEADLINE_S)
        create(node.bootstrap, "orders")
        second = topic_id(node.bootstrap, "orders")
        node.kill()
    assert second != first
    with NodeProcess(directory) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        assert set(admin.list_topics(timeout=DEADLINE_S).topics) == {"orders"}
        assert topic_id(node.bootstrap, "orders") == second
        assert read_all(node.bootstrap, "orders") == []


def test_a_second_node_on_the_same_directory_is_refused(directory: Path) -> None:
    with NodeProcess(directory) as node:
        with pytest.raises(RuntimeError, match="did not start"), NodeProcess(directory):
            pass
        assert AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=DEADLINE_S).brokers
