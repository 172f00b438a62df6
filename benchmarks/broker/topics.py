"""Topics for a load: made through librdkafka's admin client, ready when every partition answers for its offsets, and deleted.

A leader's name in the metadata is not enough: Apache Kafka names it a moment before that broker knows that it leads.
"""

from __future__ import annotations

import time

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # exported, but not by a list
from confluent_kafka.cimpl import NewTopic

# Making thousands of partitions takes a node up to a minute where the disk has other work.
TIMEOUT_S = 180.0
ASK_TIMEOUT_S = 30.0
READY_POLL_S = 0.05


class TopicError(Exception):
    """A broker refused to make or delete a topic, or did not come to lead it."""


def create_topic(bootstrap: str, name: str, partitions: int, replicas: int = 1) -> None:
    admin = _admin(bootstrap)
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=replicas)
    try:
        admin.create_topics([wanted], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
    except KafkaException as error:
        raise TopicError(f"{name} was not made on {bootstrap}: {error}") from None
    deadline_s = time.monotonic() + TIMEOUT_S
    while (refusal := _refusal(admin, name, partitions)) is not None:
        if time.monotonic() > deadline_s:
            raise TopicError(f"{name} on {bootstrap} is not led after {TIMEOUT_S:.0f} s: {refusal}")
        time.sleep(READY_POLL_S)


def delete_topic(bootstrap: str, name: str) -> None:
    admin = _admin(bootstrap)
    try:
        admin.delete_topics([name], request_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
    except KafkaException as error:
        raise TopicError(f"{name} was not deleted on {bootstrap}: {error}") from None


def _admin(bootstrap: str) -> AdminClient:
    # Errors are raised; what it logs besides is that a broker was stopped, which we did ourselves.
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def _refusal(admin: AdminClient, name: str, partitions: int) -> KafkaException | None:
    """Why a partition does not tell its offsets; None when all do."""
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(name, number): latest for number in range(partitions)}
    for answer in admin.list_offsets(asked, request_timeout=ASK_TIMEOUT_S).values():
        try:
            answer.result(ASK_TIMEOUT_S)
        except KafkaException as error:
            return error
    return None
