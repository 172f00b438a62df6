"""How much of the beginning of a log is no longer wanted. Kafka's rules, as one pure question.

Retention only ever moves the log's start: it names the offset up to which whole segments have expired. Removing segments that
lie before the start is another step (`PartitionLog.remove_segments_before_start`), and the start is made durable between the
two, so that a crash can never leave a hole.

    log start     a segment goes when the one after it begins at or before the log's start
    size          the oldest go as long as what is left is still at least retention.bytes
    time          the oldest go as long as their largest timestamp is older than retention.ms; the active segment too,
                  which the log then rolls first

Nothing at or above the high watermark goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidelog.model.ids import Offset, TimestampMs
from tidelog.storage.log_config import LogConfig


class AgingSegment(Protocol):
    """What retention asks of a segment."""

    @property
    def base_offset(self) -> Offset: ...

    @property
    def size_bytes(self) -> int: ...

    def largest_timestamp(self) -> TimestampMs: ...


def expired_until(
    segments: Iterable[AgingSegment],
    config: LogConfig,
    *,
    log_end_offset: Offset,
    high_watermark: Offset,
    now_ms: TimestampMs,
) -> Offset | None:
    """The offset before which every segment has expired by size or time, or None where none has.

    It is the base offset of the first segment that stays, or the log's end where all of them go.
    """
    if not config.deletes:
        return None
    ordered = list(segments)
    ends = [segment.base_offset for segment in ordered[1:]] + [log_end_offset]
    removable = sum(1 for end in ends if end <= high_watermark)
    if ordered and ordered[-1].size_bytes == 0:
        removable = min(removable, len(ordered) - 1)
    count = _too_many(ordered[:removable], sum(segment.size_bytes for segment in ordered), config.retention_bytes)
    count += _too_old(ordered[count:removable], now_ms, config.retention_ms)
    return ends[count - 1] if count else None


def _too_many(segments: Sequence[AgingSegment], size_bytes: int, retention_bytes: int) -> int:
    if retention_bytes < 0:
        return 0
    excess_bytes = size_bytes - retention_bytes
    for count, segment in enumerate(segments):
        excess_bytes -= segment.size_bytes
        if excess_bytes < 0:
            return count
    return len(segments)


def _too_old(segments: Sequence[AgingSegment], now_ms: int, retention_ms: int) -> int:
    if retention_ms < 0:
        return 0
    for count, segment in enumerate(segments):
        if now_ms - segment.largest_timestamp() <= retention_ms:
            return count
    return len(segments)
