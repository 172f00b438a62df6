"""How much of the beginning of a log is no longer wanted, and how it goes. Kafka's rules are one pure question, `expired_until`.

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
from typing import TYPE_CHECKING, Protocol

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, TimestampMs
from tidelog.storage import rolling
from tidelog.storage.log_config import LogConfig

if TYPE_CHECKING:
    from tidelog.storage.partition_log import PartitionLog


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


def delete_records_before(log: PartitionLog, offset: int) -> ErrorCode:
    """See `PartitionLog.delete_records_before`."""
    if offset > log.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if offset > log.log_start_offset:
        log.log_start_offset = Offset(offset)
        log.leader_epochs.truncate_from_start(offset)
        log.producers.on_log_start_offset_incremented(offset)
        log.is_durable = False
    return ErrorCode.NONE


def expire(log: PartitionLog) -> bool:
    """Move the log's start past all segments that have expired by time or size. Whether any has."""
    until = expired_until(
        log.segments,
        log.config,
        log_end_offset=log.log_end_offset,
        high_watermark=log.high_watermark,
        now_ms=log.seams.clock.now_ms(),
    )
    if until is None:
        return False
    if until == log.log_end_offset and log.segments.active.size_bytes:
        rolling.roll_for(log, until, until)
    delete_records_before(log, until)
    return True


def remove_segments_before_start(log: PartitionLog) -> int:
    """Remove the segments of which no record is in the log any more. Returns how many."""
    gone = []
    for segment in log.segments:
        following = log.segments.after(segment.base_offset)
        if following is None or following.base_offset > log.log_start_offset:
            break
        gone.append(segment)
    if gone and not log.is_start_saved:
        log.host.save_log_start_offsets()
    for segment in gone:
        rolling.discard(log, segment)
    return len(gone)
