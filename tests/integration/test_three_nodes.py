"""Three processes that are one cluster, under librdkafka: a killed leader, a stopped node, and nothing lost or doubled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.cluster_processes import ClusterProcesses

TOPIC = "orders"
DEADLINE_S = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path).running() as running:
        yield running


class Load:
    """An idempotent producer that is told of every record's fate."""

    def __init__(self, cluster: ClusterProcesses) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[KafkaError] = []
        self._number = 0
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
        )

    def write(self, count: int) -> None:
        """So many more records, all of them acknowledged."""
        for _ in range(count):
            self._producer.produce(TOPIC, b"%d" % self._number, partition=0, on_delivery=self._told)
            self._number += 1
            self._producer.poll(0)
        assert self._producer.flush(DEADLINE_S) == 0
        assert self.failed == []

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            value = message.value()
            assert isinstance(value, bytes)
            self.acknowledged.append(value)


def _read(cluster: ClusterProcesses, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []
    deadline_s = time.monotonic() + DEADLINE_S
    while len(values) < count and time.monotonic() < deadline_s:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            values.append(value)
    consumer.close()
    return values


def _leader_and_isr(admin: AdminClient) -> tuple[int, list[int]]:
    partition = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0]
    return partition.leader, sorted(partition.isrs)


def _until_in_sync(admin: AdminClient, nodes: list[int]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while _leader_and_isr(admin)[1] != nodes:
        assert time.monotonic() < deadline_s, f"in sync are {_leader_and_isr(admin)[1]}, and not {nodes}"


def test_a_killed_leader_and_rolling_stops_lose_and_double_nothing(cluster: ClusterProcesses) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(30)
    _until_in_sync(admin, [1, 2, 3])
    load = Load(cluster)
    load.write(200)

    leader, _ = _leader_and_isr(admin)
    cluster.nodes[leader].kill()
    load.write(200)
    others = sorted(set(cluster.nodes) - {leader})
    _until_in_sync(admin, others)
    cluster.start(leader)
    _until_in_sync(admin, [1, 2, 3])

    for number in cluster.nodes:
        assert cluster.nodes[number].stop() == 0
        load.write(50)
        cluster.start(number)
        _until_in_sync(admin, [1, 2, 3])

    assert len(load.acknowledged) == 550
    assert _read(cluster, 550) == load.acknowledged
