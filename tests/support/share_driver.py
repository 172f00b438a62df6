"""Apache Kafka's own members of share groups, driven from Python: `tests/compat/ShareDriver.java`."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tests.support.apache_kafka import REPOSITORY, ApacheKafka
from tests.support.java_process import JavaProcess

SOURCE = REPOSITORY / "tests" / "compat" / "ShareDriver.java"

# For an assignment, which comes with the second heartbeat, and for records.
POLLS_MAX = 60
POLL_MS = 500


class Polled(NamedTuple):
    """A record that a member was given, and which delivery of it that is."""

    partition: int
    offset: int
    deliveries: int


class ShareDriver(JavaProcess):
    """One JVM with members of share groups. Its end is theirs, without a word."""

    def __init__(self, kafka: ApacheKafka, bootstrap: str) -> None:
        super().__init__(kafka, SOURCE, bootstrap)

    def open(self, member: str, group: str, *topics: str, **config: str) -> None:
        """A member under this name; underscores in setting names stand for dots."""
        settings = {"group.id": group, **{name.replace("_", "."): value for name, value in config.items()}}
        self.ask({"do": "open", "member": member, "topics": list(topics), "config": settings})

    def poll(self, member: str, wait_ms: int = POLL_MS) -> list[Polled]:
        rows: list[list[int]] = self.ask({"do": "poll", "member": member, "wait_ms": wait_ms})
        return [Polled(*row) for row in rows]

    def poll_until_some(self, member: str) -> list[Polled]:
        """What the first poll gives that gives anything."""
        for _ in range(POLLS_MAX):
            polled = self.poll(member)
            if polled:
                return polled
        return []

    def acknowledge(self, member: str, records: Collection[Polled], kind: str) -> None:
        """ACCEPT, RELEASE, REJECT or RENEW, of what the last poll gave."""
        for record in records:
            self.ask(
                {
                    "do": "acknowledge",
                    "member": member,
                    "partition": record.partition,
                    "offset": record.offset,
                    "type": kind,
                }
            )

    def commit(self, member: str) -> dict[str, str | None]:
        """The error of each partition that something was said of, or None."""
        outcomes: dict[str, str | None] = self.ask({"do": "commit", "member": member})
        return outcomes

    def close_member(self, member: str) -> None:
        """Closes it as a program would."""
        self.ask({"do": "close", "member": member})
