"""What others see of what Spark wrote: by librdkafka, committed records only, and what the coordinators have."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from tidelog import Admin
from tidelog.client.admin import TransactionState

DEADLINE_S = 30.0
Headers: TypeAlias = "list[tuple[str, bytes | None]]"


class WrittenRow(NamedTuple):
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers


def committed_rows(bootstrap: str, topic: str, *, isolation_level: str = "read_committed") -> list[WrittenRow]:
    """Everything that is there now, partition by partition in the order of offsets, up to the first open transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "never joined",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    rows: list[WrittenRow] = []
    try:
        partitions = list(consumer.list_topics(topic, DEADLINE_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in partitions])
        unfinished = set(partitions)
        while unfinished:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, f"partitions {unfinished} of {topic} came to no end"
            error, index = message.error(), message.partition()
            assert index is not None
            if error is None:
                rows.append(
                    WrittenRow(topic, index, message.key(), message.value(), message.timestamp()[1], _headers(message))
                )
            else:
                assert error.code() == KafkaError._PARTITION_EOF, str(error)
                unfinished.discard(index)
    finally:
        consumer.close()
    return sorted(rows, key=lambda row: row.partition)


def _headers(message: Message) -> Headers:
    return cast("Headers", message.headers() or [])


def committed_numbers(bootstrap: str, topic: str) -> list[int]:
    return sorted(int(row.value or b"") for row in committed_rows(bootstrap, topic))


def transactional_ids(bootstrap: str, name: str = "", *, is_open: bool = True) -> list[str]:
    """The transactional ids of a query, or of all: those with an open transaction, or all that were ever used."""
    states = [TransactionState.ONGOING] if is_open else []
    with Admin(bootstrap_servers=bootstrap) as admin:
        listed = admin.list_transactions(states=states, pattern=f"tidelog-spark\\.{re.escape(name)}.*")
    return [each.transactional_id for each in listed]
