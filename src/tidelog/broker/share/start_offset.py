"""Where a share group begins on a partition of which nothing is written yet: `share.auto.offset.reset`.

Where this differs from Kafka: a group that is to begin some time ago, since when nothing was written, begins at the high
watermark. There, it cannot begin before a record is written.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.replication.offset_lookup import EARLIEST, LATEST, find_offset
from tidelog.replication.partition import Partition
from tidelog.storage.fetched import FetchIsolation


class OffsetReset(NamedTuple):
    """At the earliest or the latest record (`LATEST` or `EARLIEST`), or at the first that is not older than so long."""

    meaning: int | None
    age_ms: int = 0


FROM_LATEST = OffsetReset(LATEST)
FROM_EARLIEST = OffsetReset(EARLIEST)


def start_offset(partition: Partition, leader_epoch: int, reset: OffsetReset, now_ms: int) -> int | ErrorCode:
    """The offset at which a group begins; or why that is not known at the moment."""
    timestamp = max(0, now_ms - reset.age_ms) if reset.meaning is None else reset.meaning
    found = find_offset(partition, timestamp, FetchIsolation.HIGH_WATERMARK, current_leader_epoch=leader_epoch)
    if found is None:
        found = find_offset(partition, LATEST, FetchIsolation.HIGH_WATERMARK, current_leader_epoch=leader_epoch)
    if isinstance(found, ErrorCode):
        return found
    return ErrorCode.OFFSET_NOT_AVAILABLE if found is None else found.offset
