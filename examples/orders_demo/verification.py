"""Whether every order was counted once and every customer told in order: topics and table beside the generator's file.

    python -m examples.orders_demo.verification BOOTSTRAP FILE DIRECTORY

Topics are read with confluent-kafka, `read_committed`, the Delta table with delta-rs and the database with SQLite: nobody who
wrote them has a part in it.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import confluent_kafka
from deltalake import DeltaTable

from examples.orders_demo.generator import Sent, read_file
from examples.orders_demo.shop import (
    DEAD_LETTERS,
    NOTIFICATIONS,
    ORDERS,
    PAID,
    PAYMENT_WITHIN_MS,
    REVENUE,
    window_of,
)
from tidelog.spark.pipelines.audit_log import read_audit
from tidelog.spark.pipelines.audit_verification import Outcome, Verified, verify_sink
from tidelog.spark.sink.audit_entry import AuditEntry

READ_TIMEOUT_S = 30.0

T = TypeVar("T")

Minute = tuple[int, str]
"""The beginning of a window, and a product."""


class CheckError(Exception):
    """What is not as it should be, in one sentence."""


@dataclass(frozen=True, slots=True)
class Read:
    """A record as a consumer sees it."""

    partition: int
    offset: int
    key: str
    value: bytes
    headers: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expected:
    """What has to come of the events in the generator's file."""

    records: dict[str, list[str]]
    """The values of each key, in the order of sending."""
    paid_orders: dict[str, tuple[str, int]]
    """Product and cents of each order that is placed and paid in time."""
    revenue: dict[Minute, tuple[int, int]]
    """Orders and cents."""
    dead_letters: Counter[tuple[str, str, str]]
    """Key, value and reason."""
    notifications: dict[str, list[str]]
    """The states of each order, in order."""


def expected_of(stream: Iterable[Sent]) -> Expected:
    records: dict[str, list[str]] = defaultdict(list)
    dead_letters = Counter[tuple[str, str, str]]()
    in_time: dict[str, dict[str, Sent]] = defaultdict(dict)
    notifications: dict[str, list[str]] = defaultdict(list)
    for sent in stream:
        records[sent.order].append(sent.value)
        if sent.kind == "broken" or sent.is_late:
            dead_letters[sent.order, sent.value, "broken" if sent.kind == "broken" else "late"] += 1
        elif sent.kind != "duplicate":
            in_time[sent.order][sent.state] = sent
        if sent.kind in {"event", "closing"}:
            notifications[sent.order].append(sent.state)
    paid_orders: dict[str, tuple[str, int]] = {}
    revenue: dict[Minute, tuple[int, int]] = {}
    for order, events in in_time.items():
        placed, paid = events.get("placed"), events.get("paid")
        if placed is None or paid is None or not 0 <= paid.at_ms - placed.at_ms <= PAYMENT_WITHIN_MS:
            continue
        paid_orders[order] = (placed.product, paid.cents)
        if paid.kind == "closing":
            # Nothing comes after it that would end its minute.
            continue
        minute = (window_of(paid.at_ms), placed.product)
        count, cents = revenue.get(minute, (0, 0))
        revenue[minute] = (count + 1, cents + paid.cents)
    return Expected(records, paid_orders, revenue, dead_letters, notifications)


def read_committed(bootstrap: str, topic: str) -> list[Read]:
    """All of a topic, partition by partition. CheckError where a transaction is left open: nobody would see what follows it."""
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": bootstrap,
        "group.id": "verification",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        # It would tell of every attempt to reach a node that is down.
        "log_level": 0,
    }
    consumer = confluent_kafka.Consumer(settings)
    partitions = sorted(consumer.list_topics(topic, READ_TIMEOUT_S).topics[topic].partitions)
    ends = {
        partition: consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, partition), READ_TIMEOUT_S)[1]
        for partition in partitions
    }
    consumer.assign([confluent_kafka.TopicPartition(topic, each, confluent_kafka.OFFSET_BEGINNING) for each in ends])
    deadline = time.monotonic() + READ_TIMEOUT_S
    found: list[Read] = []
    unread = {partition for partition, end in ends.items() if end > 0}
    while unread:
        if time.monotonic() > deadline:
            raise CheckError(f"{topic} cannot be read to its end in partition {min(unread)}: is a transaction open?")
        for message in consumer.consume(10_000, 0.2):
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            error = message.error()
            if error is None:
                headers = {
                    name: value for name, value in dict(message.headers() or {}).items() if isinstance(value, bytes)
                }
                found.append(Read(partition, offset, (message.key() or b"").decode(), message.value() or b"", headers))
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF and offset >= ends[partition]:  # noqa: SLF001
                unread.discard(partition)
    consumer.close()
    return sorted(found, key=lambda each: (each.partition, each.offset))


def check_orders(expected: Expected, found: Iterable[Read]) -> str:
    """The topic holds what was sent: each record once, those of an order in order."""
    values: dict[str, list[str]] = defaultdict(list)
    for read in found:
        values[read.key].append(read.value.decode("latin-1"))
    _same("the records of", expected.records, values)
    return f"{sum(map(len, values.values())):,} records written, each once and in order, through the death of a broker"


def check_revenue(expected: Expected, found: Iterable[Read]) -> str:
    """Each window of each product is there once, with every order in it counted once."""
    revenue: dict[Minute, tuple[int, int]] = {}
    for read in found:
        row = json.loads(read.value)
        minute = (int(row["minute_ms"]), str(row["product"]))
        if minute in revenue:
            raise CheckError(f"the revenue of {minute} is there twice")
        revenue[minute] = (int(row["orders"]), int(row["cents"]))
    _same("the revenue of", expected.revenue, revenue)
    orders, cents = (sum(each[place] for each in revenue.values()) for place in (0, 1))
    return f"{orders:,} orders counted once, {cents / 100:,.2f} of revenue in {len(revenue)} minutes of products"


def check_table(what: str, expected: Expected, rows: Iterable[tuple[str, str, int]]) -> str:
    """A table, database or topic has one row for each order that is placed and paid."""
    found: dict[str, tuple[str, int]] = {}
    for order, product, cents in rows:
        if order in found:
            raise CheckError(f"{order} stands twice in the {what}")
        found[order] = (product, cents)
    _same(f"the {what}'s row of", expected.paid_orders, found)
    return f"{len(found):,} paid orders in the {what}, each once"


def check_dead_letters(expected: Expected, found: Iterable[Read]) -> str:
    """What could not be counted is set apart, each record once and with its reason."""
    letters = Counter[tuple[str, str, str]](
        (read.key, read.value.decode("latin-1"), read.headers.get("reason", b"").decode()) for read in found
    )
    _same("the dead letter", expected.dead_letters, letters)
    reasons = Counter(reason for _key, _value, reason in letters.elements())
    return f"{reasons['broken']} broken and {reasons['late']} late events set apart, each once"


def check_notifications(expected: Expected, found: Iterable[Read]) -> str:
    """Each customer was told each state of the order once, in order."""
    told: dict[str, list[str]] = defaultdict(list)
    for read in found:
        told[read.key].append(json.loads(read.value)["state"])
    _same("the notifications of", expected.notifications, told)
    return f"{sum(map(len, told.values())):,} notifications, each once and in the order of its events"


def _same(what: str, expected: Mapping[T, object], found: Mapping[T, object]) -> None:
    """CheckError that names the first difference."""
    for key in sorted(expected.keys() | found.keys(), key=str):
        if expected.get(key) != found.get(key):
            raise CheckError(f"{what} {key} should be {expected.get(key)} and is {found.get(key)}")


def table_rows(table: Path) -> list[tuple[str, str, int]]:
    """Order, product and cents of each row of the Delta table."""
    columns = DeltaTable(str(table)).to_pyarrow_table(columns=["order", "product", "cents"]).to_pydict()
    return list(zip(columns["order"], columns["product"], columns["cents"], strict=True))


def database_rows(database: Path) -> list[tuple[str, str, int]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute('SELECT "order", product, cents FROM paid_orders').fetchall()


def topic_rows(found: Iterable[Read]) -> list[tuple[str, str, int]]:
    rows = [json.loads(read.value) for read in found]
    return [(row["order"], row["product"], row["cents"]) for row in rows]


class BatchRead(NamedTuple):
    """A batch as it was accounted for, and what each of its sinks has of it now."""

    entry: AuditEntry
    sinks: dict[str, Verified]


def read_audited(bootstrap: str, pipeline: str) -> list[BatchRead]:
    """The account of a pipeline's batches, each read again in every sink that was given rows."""
    settings = {"bootstrap_servers": bootstrap}
    return [
        BatchRead(entry, {each.sink: verify_sink(each, settings) for each in entry.sinks if each.rows})
        for entry in read_audit(settings, pipeline).of_query()
    ]


def check_audited(pipeline: str, batches: Sequence[BatchRead]) -> list[str]:
    """A sentence for each batch, with where its input lies, and one for each sink. CheckError unless all of them have the same
    rows, and those that were accounted for."""
    rows: Counter[str] = Counter()
    with_rows: Counter[str] = Counter()
    told = [f"the audit of {pipeline} has {len(batches)} batches"]
    for entry, sinks in batches:
        for account in entry.sinks:
            found = sinks.get(account.sink)
            if found is None:
                continue
            if found.outcome is not Outcome.SAME:
                why = found.reason or f"it has {found.rows} rows, and was given {account.rows}"
                raise CheckError(
                    f"the sink {account.sink} is {found.outcome.value} in batch {entry.batch_id} of {pipeline}: {why}"
                )
            rows[account.sink] += account.rows
            with_rows[account.sink] += 1
        told.append(f"batch {entry.batch_id}, {_input_of(entry)}: {max(each.rows for each in entry.sinks):,} rows")
    if len(set(rows.values())) != 1:
        raise CheckError(f"the sinks of {pipeline} were not given the same rows: {dict(rows)}")
    return told + [
        f"{sink}: {count:,} rows in {with_rows[sink]} batches, all of them read again and the same"
        for sink, count in rows.items()
    ]


def _input_of(entry: AuditEntry) -> str:
    ranges = [
        f"{each.topic}-{each.partition} from {'its beginning' if each.start < 0 else each.start} to {each.end - 1}"
        for each in entry.input
        if each.end > max(0, each.start)
    ]
    return ", ".join(ranges) or "without new input"


def verify_audit(bootstrap: str, pipeline: str) -> list[str]:
    return check_audited(pipeline, read_audited(bootstrap, pipeline))


def verify(bootstrap: str, file: Path, directory: Path) -> list[str]:
    """What was found to be right, a sentence for each part. CheckError at the first that is not."""
    expected = expected_of(read_file(file))
    return [
        check_orders(expected, read_committed(bootstrap, ORDERS)),
        check_revenue(expected, read_committed(bootstrap, REVENUE)),
        check_table("Delta table", expected, table_rows(directory / "paid_orders")),
        check_table("database", expected, database_rows(directory / "shop.db")),
        check_table("topic", expected, topic_rows(read_committed(bootstrap, PAID))),
        check_dead_letters(expected, read_committed(bootstrap, DEAD_LETTERS)),
        check_notifications(expected, read_committed(bootstrap, NOTIFICATIONS)),
    ]


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit("usage: python -m examples.orders_demo.verification BOOTSTRAP FILE DIRECTORY")
    try:
        print("\n".join(verify(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
    except CheckError as error:
        sys.exit(f"not as it should be: {error}")


if __name__ == "__main__":
    main()
