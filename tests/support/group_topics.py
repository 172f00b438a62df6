"""What tests of groups need beside the members: topics with numbered records, and how far a group is."""

from __future__ import annotations

import itertools
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

TIMEOUT_S = 30.0
NOT_READY = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)

# Members may be quick to die, groups are quick to form, and there is little to load.
GROUP_SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "2000",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
}

_serial = itertools.count()


def new_name(kind: str) -> str:
    """A name that no other topic or group has."""
    return f"{kind}-{next(_serial)}"


class Topics:
    """Makes, fills and deletes the topics of a node."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._quiet: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            # Where all brokers were away, an admin of librdkafka 2.16 may ask one that its re-bootstrap has given up, and waits.
            "metadata.recovery.strategy": "none",
        }
        self.admin = AdminClient(self._quiet)
        self._producer = Producer(self._quiet | {"linger.ms": 1})

    def make(self, partitions: int, name: str | None = None) -> str:
        topic = name or new_name("topic")
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(TIMEOUT_S)
        return topic

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(TIMEOUT_S)

    def send(self, topic: str, partitions: int, values: list[str]) -> None:
        """Sends the values to the partitions in turn, and returns when they are acknowledged."""
        for number, value in enumerate(values):
            self._producer.produce(topic, value, partition=number % partitions)
        assert self._producer.flush(TIMEOUT_S) == 0

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        """How far a group is, as somebody is told who is no member of it; -1001 where nothing is committed."""
        consumer = Consumer(self._quiet | {"group.id": group})
        asked = [TopicPartition(topic, index) for index in range(partitions)]
        deadline = time.monotonic() + TIMEOUT_S
        try:
            while True:
                try:
                    return [each.offset for each in consumer.committed(asked, TIMEOUT_S)]
                except KafkaException as error:
                    # A coordinator that has just started may not be one yet.
                    if error.args[0].code() not in NOT_READY or time.monotonic() > deadline:
                        raise
        finally:
            consumer.close()


def numbers(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]
