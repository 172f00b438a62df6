"""Which part of a log can be compacted, and how badly it needs it. Kafka's rules, as questions that change nothing.

    log start ........ first dirty offset ........ first uncleanable offset ........ log end
    cleaned before     written since               stays as it is for now

What is cleaned ends before whichever comes first of: the active segment, the last stable offset (and so the high watermark), a
segment with a record younger than `min.compaction.lag.ms`, and what has not been forced to disk. Only whole segments are cleaned.

A log is due when the dirty part is more than `min.cleanable.dirty.ratio` of what could be cleaned, or when it has been dirty for
longer than `max.compaction.lag.ms`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tidelog.model.ids import Offset
from tidelog.storage.cleaning.source_segment import SourceSegment
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.segment import RELATIVE_OFFSET_MAX, Segment


class DirtyRange(Struct, frozen=True):
    """The dirty part of a log, as far as it can be cleaned."""

    first_dirty_offset: Offset
    first_uncleanable_offset: Offset
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """For how long `max.compaction.lag.ms` has been exceeded; 0 where it is not."""
    is_checkpoint_invalid: bool
    """Whether the cleaner's checkpoint named an offset that the log does not have: the whole log counts as dirty."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        return (self.delay_ms > 0 and self.cleanable_bytes > 0) or self.ratio > min_cleanable_dirty_ratio


def dirty_range(log: PartitionLog, checkpoint: Offset | None, now_ms: int) -> DirtyRange:
    """What of a log could be cleaned now. `checkpoint` is up to where it was cleaned before."""
    segments = log.segments
    start = log.log_start_offset
    first_dirty = start if checkpoint is None else checkpoint
    is_invalid = not start <= first_dirty <= log.log_end_offset
    if is_invalid:
        first_dirty = start
    active = segments.active
    dirty = [each for each in segments.from_offset(first_dirty) if each is not active]
    bound = min(log.last_stable_offset, active.base_offset, log.recovery_point)
    min_lag_ms = log.config.min_compaction_lag_ms
    if min_lag_ms > 0:
        young = next((each for each in dirty if each.largest_timestamp() > now_ms - min_lag_ms), None)
        if young is not None:
            bound = min(bound, young.base_offset)
    bound = max(bound, first_dirty)
    # The segment that the bound lies in stays whole.
    holder = segments.floor(bound) if bound <= active.base_offset else active
    first_uncleanable = active.base_offset if holder is None else holder.base_offset
    return DirtyRange(
        first_dirty,
        first_uncleanable,
        sum(each.size_bytes for each in segments if each.base_offset < first_dirty),
        sum(each.size_bytes for each in dirty if each.base_offset < first_uncleanable),
        _delay_ms(dirty, log.config.max_compaction_lag_ms, now_ms),
        is_invalid,
    )


def _delay_ms(dirty: Sequence[Segment], max_lag_ms: int, now_ms: int) -> int:
    clean_until_ms = now_ms - max_lag_ms
    if clean_until_ms <= 0:
        return 0
    earliest = min((each.first_timestamp for each in dirty if each.first_timestamp > 0), default=clean_until_ms)
    return max(0, clean_until_ms - earliest)


def grouped(segments: Sequence[SourceSegment], *, segment_bytes: int, index_bytes: int) -> list[list[SourceSegment]]:
    """Neighbouring segments that together fit into one, so that a log does not end up as many small ones."""
    groups: list[list[SourceSegment]] = []
    together = (0, 0, 0)
    for segment in segments:
        own = (segment.size_bytes, segment.index_bytes, segment.time_index_bytes)
        summed = (together[0] + own[0], together[1] + own[1], together[2] + own[2])
        fits = (
            bool(groups)
            and summed[0] <= segment_bytes
            and max(summed[1:]) <= index_bytes
            # An empty one has no offset that could be too far away.
            and (own[0] == 0 or segment.next_base_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
        together = summed if fits else own
    return groups
