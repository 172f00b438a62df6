"""How much is written, and how far each group is behind: what any Kafka tool sees, asked again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from examples.orders_demo.picture import Course
from examples.orders_demo.shop import NOTIFICATIONS_GROUP, ORDERS, PARTITIONS, REVENUE_GROUP
from tidelog import OffsetAndMetadata, TopicPartition
from tidelog.client.admin import ListedOffset, OffsetSpec
from tidelog.client.errors import ClientError

SAMPLE_S = 0.5
PROGRESS_S = 3.0
GROUPS = (REVENUE_GROUP, NOTIFICATIONS_GROUP)


class Offsets(Protocol):
    """What is asked of an `Admin`."""

    def list_offsets(
        self, wanted: Mapping[tuple[str, int], OffsetSpec | int], /
    ) -> Mapping[TopicPartition, ListedOffset | ClientError]: ...

    def list_group_offsets(self, group_id: str, /) -> Mapping[TopicPartition, OffsetAndMetadata]: ...


@dataclass(frozen=True, slots=True)
class Sample:
    """How much is written, and how far each group is behind that. Both are of one look: a group that has read all of a
    moment ago may have to read what was written since."""

    written: int
    lags: Mapping[str, int]


class Monitor:
    """Watches the topic and its groups on a thread of its own, and says from time to time how they do."""

    def __init__(self, admin: Offsets, records: int, say: Callable[[str], None]) -> None:
        self.course = Course(lags={group: [] for group in GROUPS})
        self._latest = Sample(0, dict.fromkeys(GROUPS, 0))
        self._records = records
        self._say = say
        self._admin = admin
        self._began = time.monotonic()
        self._said_at = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="monitor", daemon=True)

    @property
    def share_written(self) -> float:
        return self._latest.written / self._records

    def has_read_all(self, group: str) -> bool:
        """Whether the whole stream is written, and the group has committed all of it."""
        latest = self._latest
        return latest.written >= self._records and latest.lags[group] == 0

    def mark(self, text: str) -> None:
        """Remember that something happened now."""
        self.course.marks.append((self._now(), text))
        self._say(text)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _watch(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            try:
                self.look()
            except ClientError:
                # A node has died, and its partitions have no leader for a moment. The next look tells more.
                continue

    def look(self) -> None:
        """Ask once. ClientError where not all of it can be known now; the latest sample stays then."""
        partitions = [(ORDERS, partition) for partition in range(PARTITIONS)]
        listed = self._admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        ends = {partition: end.offset or 0 for partition, end in listed.items() if isinstance(end, ListedOffset)}
        if len(ends) < PARTITIONS:
            return
        self._latest = Sample(sum(ends.values()), {group: self._behind(group, ends) for group in GROUPS})
        for group, lag in self._latest.lags.items():
            self.course.lags[group].append((self._now(), lag))
        if self._now() - self._said_at >= PROGRESS_S:
            self._said_at = self._now()
            behind_each = ", ".join(f"{group} {lag:,} behind" for group, lag in self._latest.lags.items())
            self._say(f"{self._latest.written:,} of {self._records:,} records written; {behind_each}")

    def _behind(self, group: str, ends: Mapping[TopicPartition, int]) -> int:
        committed = self._admin.list_group_offsets(group)
        return sum(
            max(0, end - (committed[partition].offset if partition in committed else 0))
            for partition, end in ends.items()
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
