"""One member of a consumer group that reads orders, commits what it has read, and tells what happens to it.

    python examples/order_reader.py {confluent|tidelog} {classic|consumer} BOOTSTRAP GROUP TOPIC

The same member with two client libraries, librdkafka's and Tidelog's own, for both group protocols. Each thing that happens is a
line of JSON: the partitions that the member has now (`owns`), the records of a poll (`read`), and, once the group has them, the
offsets that were committed after it (`committed`). A record is told before its offset is committed, so whoever listens has
heard of all that is committed. SIGTERM has the member leave its group; SIGKILL is a crash.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Protocol

import confluent_kafka
from confluent_kafka import KafkaException

import tidelog
from tidelog.client.errors import ClientError

# A crash is noticed after so long. Kafka's default of 45 s suits a data centre, not a demonstration.
SESSION_TIMEOUT_MS = 2_000
HEARTBEAT_INTERVAL_MS = 200
POLL_MS = 100

Told = tuple[int, int, str, str]
"""Partition, offset, order and state."""


class Placed(Protocol):
    """What both libraries call a TopicPartition."""

    @property
    def partition(self) -> int: ...


class Member:
    """What both libraries' members have in common: the partitions that they own, and the end."""

    def __init__(self) -> None:
        self.is_asked_to_leave = False
        self._owned: set[int] = set()
        signal.signal(signal.SIGTERM, self._leave)

    def _leave(self, _number: int, _frame: object) -> None:
        self.is_asked_to_leave = True

    def gained(self, partitions: Iterable[Placed]) -> None:
        self._owned |= {each.partition for each in partitions}
        tell(owns=sorted(self._owned))

    def gave_up(self, partitions: Iterable[Placed]) -> None:
        self._owned -= {each.partition for each in partitions}
        tell(owns=sorted(self._owned))


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def tell_committed(read: list[Told]) -> None:
    # The records of a partition come in order: the last one counts.
    tell(committed={partition: offset + 1 for partition, offset, _order, _state in read})


def read_with_confluent(protocol: str, bootstrap: str, group: str, topic: str) -> None:
    member = Member()
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "client.id": "confluent",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 500,
        # It would tell of every attempt to reach a node that is down.
        "log_level": 0,
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS}
        settings |= {"partition.assignment.strategy": "range"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: member.gained(partitions),
        on_revoke=lambda _, partitions: member.gave_up(partitions),
        on_lost=lambda _, partitions: member.gave_up(partitions),
    )
    while not member.is_asked_to_leave:
        read: list[Told] = []
        for message in consumer.consume(500, POLL_MS / 1000):
            partition, offset, key, value = message.partition(), message.offset(), message.key(), message.value()
            if message.error() is None and partition is not None and offset is not None and key and value:
                read.append((partition, offset, key.decode(), value.decode()))
        if read:
            tell(read=read)
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                # The group rebalances, or its coordinator is down. Either the next commit covers this one, or another member
                # reads these records again.
                continue
            tell_committed(read)
    consumer.close()


def read_with_tidelog(protocol: str, bootstrap: str, group: str, topic: str) -> None:
    member = Member()
    with tidelog.Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_protocol=protocol,
        client_id="tidelog",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
    ) as consumer:
        consumer.subscribe([topic], on_assigned=member.gained, on_revoked=member.gave_up, on_lost=member.gave_up)
        while not member.is_asked_to_leave:
            read = [
                (record.partition, record.offset, record.key.decode(), record.value.decode())
                for record in consumer.poll(timeout_ms=POLL_MS)
            ]
            if read:
                tell(read=read)
                try:
                    consumer.commit()
                except ClientError:
                    continue
                tell_committed(read)


READERS: dict[str, Callable[[str, str, str, str], None]] = {
    "confluent": read_with_confluent,
    "tidelog": read_with_tidelog,
}

if __name__ == "__main__":
    if len(sys.argv) != 6 or sys.argv[1] not in READERS or sys.argv[2] not in {"classic", "consumer"}:
        sys.exit("usage: order_reader.py {confluent|tidelog} {classic|consumer} BOOTSTRAP GROUP TOPIC")
    READERS[sys.argv[1]](*sys.argv[2:])
