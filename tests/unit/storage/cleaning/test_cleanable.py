"""Which part of a log can be compacted, and when it is due."""

from __future__ import annotations

import pytest

from tests.support.log_builder import START_MS, HeldSlowWork, LogBuilder
from tests.support.log_cleaning import append_keyed
from tidelog.model.ids import Offset
from tidelog.storage.cleaning.cleanable import dirty_range, grouped
from tidelog.storage.cleaning.source_segment import SourceSegment
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog

CONFIG = LogConfig(cleanup_policy=("compact",), segment_index_bytes=4096)


def rolled(logs: LogBuilder, segments: int, config: LogConfig = CONFIG) -> PartitionLog:
    """A log of segments of one record each, a second apart, and an active one."""
    log = logs.open(config)
    for number in range(segments):
        append_keyed(log, ("a", "x" * 10), timestamp_ms=START_MS + 1000 * number)
        log.roll()
    return log


def test_all_but_the_active_segment_is_dirty_at_first(logs: LogBuilder) -> None:
    log = rolled(logs, 3)

    dirty = dirty_range(log, None, START_MS)

    assert (dirty.first_dirty_offset, dirty.first_uncleanable_offset) == (0, 3)
    assert (dirty.clean_bytes, dirty.cleanable_bytes) == (0, log.size_bytes)
    assert dirty.ratio == 1.0
    assert dirty.is_due(0.99)


def test_what_was_cleaned_counts_as_clean(logs: LogBuilder) -> None:
    log = rolled(logs, 4)

    dirty = dirty_range(log, Offset(3), START_MS)

    assert dirty.first_dirty_offset == 3
    assert dirty.ratio == 0.25
    assert not dirty.is_due(0.25)
    assert dirty.is_due(0.24)


@pytest.mark.parametrize("checkpoint", [9, 1])
def test_a_checkpoint_outside_of_the_log_makes_all_of_it_dirty(logs: LogBuilder, checkpoint: int) -> None:
    log = rolled(logs, 4)
    log.delete_records_before(2)

    dirty = dirty_range(log, Offset(checkpoint), START_MS)

    assert dirty.is_checkpoint_invalid
    assert dirty.first_dirty_offset == 2


def test_it_ends_before_the_high_watermark(logs: LogBuilder) -> None:
    log = rolled(logs, 3)
    log.set_high_watermark(2)

    assert dirty_range(log, None, START_MS).first_uncleanable_offset == 2


def test_it_ends_before_an_open_transaction(logs: LogBuilder) -> None:
    log = rolled(logs, 1)
    append_keyed(log, ("a", "1"), timestamp_ms=START_MS)
    append_keyed(log, ("a", "1"), timestamp_ms=START_MS, producer=(7, 0, 0), is_transactional=True)
    log.roll()

    # Offset 2 is open; the segment that it lies in begins at 1.
    assert dirty_range(log, None, START_MS).first_uncleanable_offset == 1


def test_it_ends_before_what_is_not_on_disk() -> None:
    slow = HeldSlowWork()
    logs = LogBuilder(slow_work=slow)
    log = rolled(logs, 2)

    assert dirty_range(log, None, START_MS).first_uncleanable_offset == 0
    slow.run()
    assert dirty_range(log, None, START_MS).first_uncleanable_offset == 2


def test_it_ends_before_what_is_too_young(logs: LogBuilder) -> None:
    log = rolled(logs, 3, CONFIG.changed(min_compaction_lag_ms=5000))

    assert dirty_range(log, None, START_MS + 5999).first_uncleanable_offset == 1
    assert dirty_range(log, None, START_MS + 6000).first_uncleanable_offset == 2
    assert dirty_range(log, None, START_MS + 60_000).first_uncleanable_offset == 3


def test_a_log_that_waits_for_too_long_is_due_whatever_its_ratio(logs: LogBuilder) -> None:
    log = rolled(logs, 4, CONFIG.changed(max_compaction_lag_ms=5000))
    now_ms = START_MS + 3000 + 5000

    assert not dirty_range(log, Offset(3), now_ms).is_due(0.9)
    late = dirty_range(log, Offset(3), now_ms + 1)

    assert late.delay_ms == 1
    assert late.is_due(0.9)


def test_an_active_segment_rolls_when_it_may_not_wait_longer(logs: LogBuilder) -> None:
    log = logs.open(CONFIG.changed(max_compaction_lag_ms=5000))
    append_keyed(log, ("a", "1"), timestamp_ms=START_MS)
    append_keyed(log, ("a", "2"), timestamp_ms=START_MS + 5000)
    assert log.segment_base_offsets == [0]

    append_keyed(log, ("a", "3"), timestamp_ms=START_MS + 5001)

    assert log.segment_base_offsets == [0, 2]


def test_the_lag_is_nothing_to_a_log_that_is_not_compacted(logs: LogBuilder) -> None:
    log = logs.open(LogConfig(max_compaction_lag_ms=5000))
    append_keyed(log, ("a", "1"), timestamp_ms=START_MS)
    append_keyed(log, ("a", "2"), timestamp_ms=START_MS + 50_000)

    assert log.segment_base_offsets == [0]


def source(base_offset: int, end_offset: int, size: int = 10, index: int = 1, time_index: int = 1) -> SourceSegment:
    return SourceSegment("", base_offset, size, index, time_index, end_offset)


def bases(groups: list[list[SourceSegment]]) -> list[list[int]]:
    return [[segment.base_offset for segment in group] for group in groups]


def test_segments_are_grouped_up_to_the_size_of_one() -> None:
    segments = [source(number, number + 1) for number in range(5)]

    assert bases(grouped(segments, segment_bytes=25, index_bytes=100)) == [[0, 1], [2, 3], [4]]


def test_a_group_fits_the_indexes_of_one_segment() -> None:
    by_offset = [source(number, number + 1, index=40) for number in range(5)]
    by_time = [source(number, number + 1, time_index=40) for number in range(5)]

    assert bases(grouped(by_offset, segment_bytes=1000, index_bytes=100)) == [[0, 1], [2, 3], [4]]
    assert bases(grouped(by_time, segment_bytes=1000, index_bytes=100)) == [[0, 1], [2, 3], [4]]


def test_a_group_spans_no_more_offsets_than_an_index_can_tell_apart() -> None:
    far = 2**31
    segments = [source(0, 5), source(5, far), source(far, far + 1), source(far + 1, 3 * far, size=0)]

    assert bases(grouped(segments, segment_bytes=1000, index_bytes=100)) == [[0, 5], [far, far + 1]]
    assert bases(grouped([source(0, far + 1)], segment_bytes=1000, index_bytes=100)) == [[0]]
