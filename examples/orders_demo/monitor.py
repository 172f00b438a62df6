"""How much is written, and how far each group is behind: what any Kafka tool sees, asked again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from examples.orders_demo.picture import Course
from examples.orders_demo.shop import NOTIFICATIONS_GROUP, ORDERS, PARTITIONS, REVENUE_GROUP
from tidelog import Admin
from tidelog.client.admin import ListedOffset, OffsetSpec
from tidelog.client.errors import ClientError

SAMPLE_S = 0.5
PROGRESS_S = 3.0
GROUPS = (REVENUE_GROUP, NOTIFICATIONS_GROUP)


class Monitor:
    """Watches the topic and its groups on a thread of its own, and says from time to time how they do."""

    def __init__(self, bootstrap: str, records: int, say: Callable[[str], None]) -> None:
        self.course = Course(lags={group: [] for group in GROUPS})
        self.written = 0
        self.lags = dict.fromkeys(GROUPS, 0)
        self._records = records
        self._say = say
        self._admin = Admin(bootstrap_servers=bootstrap)
        self._began = time.monotonic()
        self._said_at = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="monitor", daemon=True)

    @property
    def share_written(self) -> float:
        return self.written / self._records

    def mark(self, text: str) -> None:
        """Remember that something happened now."""
        self.course.marks.append((self._now(), text))
        self._say(text)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _watch(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            try:
                self._sample()
            except ClientError:
                # A node has died, and its partitions have no leader for a moment. The next look tells more.
                continue

    def _sample(self) -> None:
        partitions = [(ORDERS, partition) for partition in range(PARTITIONS)]
        listed = self._admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        ends = {partition: end.offset or 0 for partition, end in listed.items() if isinstance(end, ListedOffset)}
        if len(ends) < PARTITIONS:
            return
        self.written = sum(ends.values())
        for group in GROUPS:
            committed = self._admin.list_group_offsets(group)
            behind = sum(
                max(0, end - (committed[partition].offset if partition in committed else 0))
                for partition, end in ends.items()
            )
            self.lags[group] = behind
            self.course.lags[group].append((self._now(), behind))
        if self._now() - self._said_at >= PROGRESS_S:
            self._said_at = self._now()
            behind_each = ", ".join(f"{group} {lag:,} behind" for group, lag in self.lags.items())
            self._say(f"{self.written:,} of {self._records:,} records written; {behind_each}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._admin.close()
