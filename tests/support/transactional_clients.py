"""What tests of transactions do with librdkafka: write in transactions, and read what each isolation level shows."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.running_node import DEADLINE_S

# A node with transactions: one replica of everything, and abandoned ones are looked for often.
TRANSACTION_SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.two.phase.commit.enable": "true",
}

_numbers = itertools.count()


def new_name(kind: str) -> str:
    """A name that no other test has."""
    return f"{kind}-{next(_numbers)}"


def make_topic(bootstrap: str, partitions: int = 1) -> str:
    name = new_name("topic")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1)
    admin.create_topics([topic])[name].result(DEADLINE_S)
    return name


def transactional_producer(bootstrap: str, transactional_id: str, **settings: Any) -> Producer:
    """One whose transactions are initialised."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            # What the library says about connections that a test cuts.
            "log_level": 0,
            **given,
        }
    )
    producer.init_transactions(DEADLINE_S)
    return producer


def write(producer: Producer, topic: str, values: Sequence[str], partition: int = 0) -> None:
    """Have the node take these records."""
    failed = []
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(DEADLINE_S) == 0
    assert not failed, failed


def read_all(bootstrap: str, topic: str, *, committed: bool = True, partitions: int = 1) -> list[str]:
    """What a reader at this level sees, from the start to the end as that level knows it, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: dict[int, list[str]] = {index: [] for index in range(partitions)}
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        left, deadline = set(range(partitions)), time.monotonic() + DEADLINE_S
        while left:
            assert time.monotonic() < deadline, f"partitions {left} have no end"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            index = message.partition()
            assert index is not None
            if error is None:
                value = message.value()
                assert value is not None
                found[index].append(value.decode())
            else:
                assert error.name() == "_PARTITION_EOF", error
                left.discard(index)
    finally:
        consumer.close()
    return [value for index in range(partitions) for value in found[index]]


def wait_until(bootstrap: str, topic: str, values: list[str]) -> None:
    """Until a reader of committed records sees exactly these."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := read_all(bootstrap, topic)) != values:
        assert time.monotonic() < deadline, found
