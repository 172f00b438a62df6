"""The newest records of one partition, for what is told by records: read to its end as often as asked, within a bound."""

from __future__ import annotations

import time

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.console.cluster.view import ClusterView
from tidelog.console.records.record_reading import Row, ranges_of

_POLL_MS = 200
_POLL_RECORDS = 2_000
_READ_S = 8.0


class TopicTail:
    """Where reading stands in one partition. `news` gives what has come since."""

    def __init__(self, partition: TopicPartition, records_max: int) -> None:
        self._partition = partition
        self._records_max = records_max
        self._next: int | None = None

    async def news(self, view: ClusterView) -> list[Row]:
        """Committed records that were not there before; at first the newest. ClientError for a topic that is not there."""
        ranges = await ranges_of(view, [self._partition], read_committed=True)
        start, end = ranges.starts[self._partition], ranges.ends[self._partition]
        begun = max(start, end - self._records_max)
        if self._next is not None and start <= self._next <= end:
            begun = max(begun, self._next)
        found: list[Row] = []
        if begun < end:
            deadline_s = time.monotonic() + _READ_S
            async with view.reader(read_committed=True) as consumer:
                consumer.assign([self._partition])
                consumer.seek(self._partition, begun)
                while (position := await consumer.position(self._partition)) < end and time.monotonic() < deadline_s:
                    found += await consumer.poll(timeout_ms=_POLL_MS, max_records=_POLL_RECORDS)
            begun = position
        self._next = begun
        return found
