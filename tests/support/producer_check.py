"""What the tests of producers have in common: reading a topic back with a client that nobody here wrote."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition

DEADLINE_S = 30.0


def read_topic(bootstrap: str, topic: str, partitions: int, count: int) -> dict[int, list[Any]]:
    """The messages of each partition by offset, read by librdkafka, once there are `count` of them."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "check.crcs": True}
    )
    found: dict[int, list[Any]] = {index: [] for index in range(partitions)}
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        deadline = time.monotonic() + DEADLINE_S
        total = 0
        while total < count:
            assert time.monotonic() < deadline, f"{total} of {count} records were read"
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                found[message.partition() or 0].append(message)
                total += 1
    finally:
        consumer.close()
    return found
