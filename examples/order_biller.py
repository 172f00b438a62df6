"""One of several processes that write one invoice for each order that was delivered: exactly one, whatever happens to them.

    python examples/order_biller.py {confluent|tidelog} BOOTSTRAP NAME ORDERS INVOICES [CRASH_AFTER]

The same process with two client libraries, librdkafka's and Tidelog's own. It reads orders as a member of a group, and writes
invoices; these, and how far it has read, are one transaction. Killed in the middle, it leaves a transaction that nobody sees;
another one with its name ends that at once, reads the same orders again, and writes their invoices. With CRASH_AFTER, Tidelog's
kills itself after so many invoices, between two invoices and their commit. SIGTERM has it finish what it is at and leave.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import confluent_kafka
from confluent_kafka import KafkaException

import tidelog
from tidelog.client.errors import TransactionAbortableError

GROUP = "invoicing"
SESSION_TIMEOUT_MS = 2_000
HEARTBEAT_INTERVAL_MS = 200
POLL_MS = 100
ORDERS_A_TRANSACTION = 200


class Ending:
    """Whether the process was asked to end."""

    def __init__(self) -> None:
        self.is_asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _number: int, _frame: object) -> None:
        self.is_asked = True


def invoice(order: bytes) -> bytes:
    return b"invoice of " + order


def bill_with_tidelog(bootstrap: str, name: str, orders: str, invoices: str, crash_after: int | None = None) -> None:
    ending = Ending()
    written = 0
    with (
        tidelog.Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer,
        tidelog.Consumer(
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        ) as consumer,
    ):
        producer.init_transactions()
        consumer.subscribe([orders])
        while not ending.is_asked:
            records = consumer.poll(timeout_ms=POLL_MS, max_records=ORDERS_A_TRANSACTION)
            if not records:
                continue
            try:
                with producer.transaction():
                    for record in records:
                        if record.value == b"delivered":
                            producer.send(invoices, invoice(record.key), record.key)
                            written += 1
                    if crash_after is not None and written >= crash_after:
                        producer.flush()
                        os.kill(os.getpid(), signal.SIGKILL)
                    producer.send_offsets_to_transaction(
                        {(record.topic, record.partition): record.offset + 1 for record in records},
                        consumer.group_metadata(),
                    )
            except TransactionAbortableError:
                # The partitions went to others, or the node was away for too long. What is not committed is read again.
                for partition, committed in consumer.committed().items():
                    consumer.seek(partition, committed.offset if committed else 0)


def bill_with_confluent(bootstrap: str, name: str, orders: str, invoices: str) -> None:
    ending = Ending()
    common: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.max.ms": 500,
        # Otherwise librdkafka, once it has lost its only node, begins anew, and its transaction waits for ever for the group's
        # coordinator of before (with Apache Kafka as well).
        "metadata.recovery.strategy": "none",
        # It would tell of every attempt to reach a node that is down.
        "log_level": 0,
    }
    producer = confluent_kafka.Producer(common | {"transactional.id": name})
    consumer = confluent_kafka.Consumer(
        common
        | {
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        }
    )
    until_done(producer.init_transactions)
    consumer.subscribe([orders])
    while not ending.is_asked:
        records = [each for each in consumer.consume(ORDERS_A_TRANSACTION, POLL_MS / 1000) if each.error() is None]
        if not records:
            continue
        producer.begin_transaction()
        try:
            ends: dict[int, int] = {}
            for record in records:
                key, partition, offset = record.key(), record.partition(), record.offset()
                assert key is not None
                assert partition is not None
                assert offset is not None
                if record.value() == b"delivered":
                    producer.produce(invoices, key=key, value=invoice(key))
                ends[partition] = offset + 1
            offsets = [confluent_kafka.TopicPartition(orders, partition, end) for partition, end in ends.items()]
            metadata = consumer.consumer_group_metadata()
            until_done(lambda: producer.send_offsets_to_transaction(offsets, metadata))  # noqa: B023 - called at once
            until_done(producer.commit_transaction)
        except KafkaException as failed:
            if failed.args[0].fatal():
                raise
            until_done(producer.abort_transaction)
            for each in consumer.committed(consumer.assignment()):
                consumer.seek(confluent_kafka.TopicPartition(orders, each.partition, max(each.offset, 0)))
    consumer.close()


def until_done(step: Callable[[], object]) -> None:
    """What may be tried again is."""
    while True:
        try:
            step()
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise
        else:
            return


def main(arguments: list[str]) -> None:
    match arguments:
        case ["confluent", bootstrap, name, orders, invoices]:
            bill_with_confluent(bootstrap, name, orders, invoices)
        case ["tidelog", bootstrap, name, orders, invoices]:
            bill_with_tidelog(bootstrap, name, orders, invoices)
        case ["tidelog", bootstrap, name, orders, invoices, crash_after] if crash_after.isdecimal():
            bill_with_tidelog(bootstrap, name, orders, invoices, int(crash_after))
        case _:
            sys.exit("usage: order_biller.py {confluent|tidelog} BOOTSTRAP NAME ORDERS INVOICES [CRASH_AFTER]")


if __name__ == "__main__":
    main(sys.argv[1:])
