"""Apache Kafka's Java clients, driven from Python: producers, consumers and administration against any bootstrap address.

`KafkaDriver` runs `tests/compat/KafkaDriver.java`. Closing it ends the JVM at once: a transaction that is open then stays open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess

SOURCE = REPOSITORY / "tests" / "compat" / "KafkaDriver.java"


class Sent(NamedTuple):
    """A record to be sent; a timestamp of None leaves it to the client's clock."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Received(NamedTuple):
    """A record as Kafka's consumer, or its reader of files, gave it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Received:
        headers = tuple((name, _bytes(value)) for name, value in row["headers"])
        return cls(row["offset"], row["timestamp"], _bytes(row["key"]), _bytes(row["value"]), headers)


class ListedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class KafkaDriver(JavaProcess):
    """One JVM with Kafka's clients. Without a bootstrap address only files can be read."""

    def __init__(self, kafka: ApacheKafka, bootstrap: str = "-") -> None:
        super().__init__(kafka, SOURCE, bootstrap)

    def open_producer(self, name: str, **config: str) -> None:
        """A producer under this name; underscores in setting names stand for dots. With `transactional_id` it is initialised."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.ask({"do": "open_producer", "producer": name, "config": settings})

    def close_producer(self, name: str) -> None:
        """Closes it as a program would; a transaction that is open is aborted."""
        self.ask({"do": "close_producer", "producer": name})

    def send(self, producer: str, topic: str, records: Sequence[Sent], *, partition: int = 0) -> list[int]:
        """Sends the records as one batch and returns their offsets once all are acknowledged."""
        rows = [
            {
                "key": _hex(record.key),
                "value": _hex(record.value),
                "timestamp": record.timestamp,
                "headers": [[name, _hex(value)] for name, value in record.headers],
            }
            for record in records
        ]
        offsets: list[int] = self.ask(
            {"do": "send", "producer": producer, "topic": topic, "partition": partition, "records": rows}
        )
        return offsets

    def begin(self, producer: str) -> None:
        self.ask({"do": "begin", "producer": producer})

    def commit(self, producer: str) -> None:
        self.ask({"do": "commit", "producer": producer})

    def abort(self, producer: str) -> None:
        self.ask({"do": "abort", "producer": producer})

    def send_offsets(self, producer: str, group: str, topic: str, offset: int, *, partition: int = 0) -> None:
        self.ask(
            {
                "do": "send_offsets",
                "producer": producer,
                "group": group,
                "topic": topic,
                "partition": partition,
                "offset": offset,
            }
        )

    def create_topic(self, topic: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Creates the topic and returns its id in Kafka's text form."""
        identity: str = self.ask(
            {"do": "create_topic", "topic": topic, "partitions": partitions, "config": dict(config or {})}
        )
        return identity

    def topic_id(self, topic: str) -> str:
        identity: str = self.ask({"do": "topic_id", "topic": topic})
        return identity

    def delete_topic(self, topic: str) -> None:
        self.ask({"do": "delete_topic", "topic": topic})

    def alter_config(self, kind: str, name: str, key: str, value: str) -> None:
        self.ask({"do": "alter_config", "type": kind, "name": name, "key": key, "value": value})

    def set_quota(self, client: str, rate: float) -> None:
        self.ask({"do": "set_quota", "client": client, "rate": rate})

    def set_scram(self, user: str, password: str) -> None:
        self.ask({"do": "set_scram", "user": user, "password": password})

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> int:
        low: int = self.ask({"do": "delete_records", "topic": topic, "partition": partition, "before": before})
        return low

    def consume(self, topic: str, *, partition: int = 0, committed: bool = False) -> list[Received]:
        """Every record from the first offset to the end; with `committed`, every committed one before the last stable offset."""
        rows = self.ask({"do": "consume", "topic": topic, "partition": partition, "committed": committed})
        return [Received.from_json(row) for row in rows]

    def consume_in_group(self, group: str, topic: str, count: int, *, protocol: str) -> None:
        self.ask({"do": "consume_in_group", "group": group, "topic": topic, "count": count, "protocol": protocol})

    def consume_in_share_group(self, group: str, topic: str, count: int) -> None:
        self.ask({"do": "consume_in_share_group", "group": group, "topic": topic, "count": count})

    def group_offsets(self, group: str) -> dict[str, dict[str, Any]]:
        offsets: dict[str, dict[str, Any]] = self.ask({"do": "group_offsets", "group": group})
        return offsets

    def list_offset(self, topic: str, at: str | int, *, partition: int = 0, committed: bool = False) -> ListedOffset:
        """`at` is a timestamp, "earliest", "latest" or "max_timestamp"."""
        found = self.ask(
            {"do": "list_offset", "topic": topic, "partition": partition, "at": str(at), "committed": committed}
        )
        return ListedOffset(found["offset"], found["timestamp"], found["leader_epoch"])

    def describe_producers(self, topic: str, *, partition: int = 0) -> list[dict[str, int]]:
        found: list[dict[str, int]] = self.ask({"do": "describe_producers", "topic": topic, "partition": partition})
        return sorted(found, key=lambda producer: producer["producer_id"])

    def list_transactions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask({"do": "list_transactions"})
        return sorted(found, key=lambda listing: str(listing["transactional_id"]))

    def abort_transaction(
        self, topic: str, producer_id: int, producer_epoch: int, *, coordinator_epoch: int, partition: int = 0
    ) -> None:
        """Ends a transaction that hangs: no coordinator knows of it, and the partition waits for its marker."""
        self.ask(
            {
                "do": "abort_transaction",
                "topic": topic,
                "partition": partition,
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "coordinator_epoch": coordinator_epoch,
            }
        )

    def dump_batches(self, file: Path) -> list[dict[str, Any]]:
        """Every batch of a segment or snapshot file with its records, as Kafka's own reader of files sees them."""
        batches: list[dict[str, Any]] = self.ask({"do": "dump_batches", "file": str(file)})
        return batches


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
