"""Where a reader goes on: at the tail nothing is looked for, and nothing that was remembered outlives a truncation or a roll."""

from __future__ import annotations

from unittest import mock

import pytest

from tests.support.kernel_twins import plain_only
from tests.support.log_builder import LogBuilder, fetched_values
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog

LOG_END = FetchIsolation.LOG_END


def read(log: PartitionLog, offset: int, bytes_max: int = 10_000, upper_bound: FetchIsolation = LOG_END) -> Fetched:
    fetched = log.read(offset, bytes_max, upper_bound=upper_bound)
    assert isinstance(fetched, Fetched)
    return fetched


@plain_only
@pytest.mark.parametrize("upper_bound", [LOG_END, FetchIsolation.HIGH_WATERMARK])
def test_a_reader_at_the_tail_goes_on_without_a_search(logs: LogBuilder, upper_bound: FetchIsolation) -> None:
    log = logs.open()
    for number in range(20):
        logs.append(log, f"{number}")
    log.set_high_watermark(log.log_end_offset)
    read(log, 0, upper_bound=upper_bound)

    with mock.patch.object(type(log.segments.active), "find", side_effect=AssertionError("a search")):
        for number in range(20, 40):
            logs.append(log, f"{number}")
            log.set_high_watermark(log.log_end_offset)
            assert fetched_values(read(log, number, upper_bound=upper_bound)) == [f"{number}"]


def test_many_readers_at_the_tail_are_remembered_within_bounds(logs: LogBuilder) -> None:
    log = logs.open()
    for number in range(100):
        logs.append(log, f"{number}")
        assert fetched_values(read(log, number)) == [f"{number}"]
    assert fetched_values(read(log, 3))[:2] == ["3", "4"]


def test_more_than_the_limit_is_cut_at_it_and_the_first_batch_comes_whole(logs: LogBuilder) -> None:
    log = logs.open()
    logs.append(log, "first")
    read(log, 0)
    logs.append(log, "second")
    logs.append(log, "third")

    assert fetched_values(read(log, 1, bytes_max=1)) == ["second"]
    too_small = log.read(1, 1, upper_bound=LOG_END, min_one_batch=False)
    assert isinstance(too_small, Fetched)
    assert too_small.first_batch_too_large


def test_a_truncation_makes_it_look_again(logs: LogBuilder) -> None:
    log = logs.open()
    for value in ("a", "b", "c" * 100):
        logs.append(log, value)
        read(log, log.log_end_offset - 1)
    log.truncate_to(1)
    logs.append(log, "longer than what was there")
    logs.append(log, "d")

    assert fetched_values(read(log, 1)) == ["longer than what was there", "d"]
    assert fetched_values(read(log, 2)) == ["d"]


def test_a_roll_sends_it_to_the_new_segment(logs: LogBuilder) -> None:
    log = logs.open(LogConfig(segment_bytes=200, index_interval_bytes=50))
    for number in range(12):
        logs.append(log, f"{number}".ljust(40))
        assert [value.strip() for value in fetched_values(read(log, number))] == [f"{number}"]
    assert len(log.segment_base_offsets) > 3
