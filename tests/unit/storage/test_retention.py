"""Retention by time, size and the log's start, with Kafka's rules."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.support.log_builder import START_MS, LogBuilder
from tidelog.model.ids import NO_TIMESTAMP, Offset, TimestampMs
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.retention import expired_until

NOW = TimestampMs(START_MS)
UNLIMITED = LogConfig(retention_ms=-1, retention_bytes=-1)


class Aged(NamedTuple):
    base_offset: Offset
    size_bytes: int
    timestamp: int

    def largest_timestamp(self) -> TimestampMs:
        return TimestampMs(self.timestamp)


def segments(*sizes_and_ages: tuple[int, int]) -> list[Aged]:
    """Segments of ten offsets each: (size, age in ms)."""
    return [Aged(Offset(number * 10), size, NOW - age) for number, (size, age) in enumerate(sizes_and_ages)]


def until(aged: list[Aged], config: LogConfig, high_watermark: int | None = None) -> int | None:
    end = Offset(len(aged) * 10)
    mark = end if high_watermark is None else Offset(high_watermark)
    return expired_until(aged, config, log_end_offset=end, high_watermark=mark, now_ms=NOW)


def test_without_limits_nothing_expires() -> None:
    assert until(segments((100, 10**12), (100, 10**12)), UNLIMITED) is None


class TestByTime:
    CONFIG = UNLIMITED.changed(retention_ms=1000)

    def test_the_oldest_go_as_long_as_they_are_too_old(self) -> None:
        assert until(segments((100, 3000), (100, 1001), (100, 1000), (100, 5000)), self.CONFIG) == 20

    def test_a_young_first_segment_protects_the_others(self) -> None:
        assert until(segments((100, 500), (100, 3000)), self.CONFIG) is None

    def test_the_active_segment_goes_too(self) -> None:
        assert until(segments((100, 3000), (100, 2000)), self.CONFIG) == 20

    def test_an_empty_active_segment_stays(self) -> None:
        assert until(segments((100, 3000), (0, 2000)), self.CONFIG) == 10
        assert until(segments((0, 2000)), self.CONFIG) is None

    def test_an_empty_segment_between_goes(self) -> None:
        assert until(segments((0, 3000), (100, 3000), (100, 0)), self.CONFIG) == 20


class TestBySize:
    def test_the_oldest_go_as_long_as_enough_is_left(self) -> None:
        aged = segments((100, 0), (100, 0), (100, 0))

        assert until(aged, UNLIMITED.changed(retention_bytes=301)) is None
        assert until(aged, UNLIMITED.changed(retention_bytes=201)) is None
        assert until(aged, UNLIMITED.changed(retention_bytes=200)) == 10
        assert until(aged, UNLIMITED.changed(retention_bytes=100)) == 20
        assert until(aged, UNLIMITED.changed(retention_bytes=0)) == 30


def test_what_size_leaves_is_judged_by_time() -> None:
    config = LogConfig(retention_ms=1000, retention_bytes=250)

    assert until(segments((100, 0), (100, 5000), (100, 5000), (50, 0)), config) == 30


def test_nothing_goes_that_a_consumer_could_not_have_seen() -> None:
    aged = segments((100, 3000), (100, 3000), (100, 3000))

    assert until(aged, UNLIMITED.changed(retention_ms=1000), high_watermark=20) == 20
    assert until(aged, UNLIMITED.changed(retention_ms=1000), high_watermark=19) == 10
    assert until(aged, UNLIMITED.changed(retention_ms=1000), high_watermark=9) is None


def test_a_compacted_topic_loses_nothing_to_time_or_size() -> None:
    config = LogConfig(retention_ms=0, retention_bytes=0, cleanup_policy=("compact",))

    assert until(segments((100, 3000), (100, 3000)), config) is None
    assert until(segments((100, 3000), (100, 3000)), config.changed(cleanup_policy=("compact", "delete"))) == 20


class TestInALog:
    CONFIG = LogConfig(segment_bytes=400, retention_ms=1000, file_delete_delay_ms=50)

    @pytest.fixture
    def logs(self) -> LogBuilder:
        return LogBuilder()

    @pytest.fixture
    def log(self, logs: LogBuilder) -> PartitionLog:
        log = logs.open(self.CONFIG)
        for number in range(10):
            logs.append(log, f"{number}".ljust(30), timestamps=[START_MS + number * 100])
        log.set_high_watermark(10)
        return log

    def test_old_segments_go(self, logs: LogBuilder, log: PartitionLog) -> None:
        bases = log.segment_base_offsets
        logs.clock.ms = START_MS + (bases[1] - 1) * 100 + 1001

        assert log.expire()
        assert log.remove_segments_before_start() == 1

        assert (log.log_start_offset, log.segment_base_offsets) == (bases[1], bases[1:])

    def test_all_of_it_goes_by_rolling_first(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.clock.advance(60_000)

        assert log.expire()
        log.remove_segments_before_start()

        assert (log.log_start_offset, log.log_end_offset, log.segment_base_offsets) == (10, 10, [10])
        assert logs.append(log, "next").first_offset == 10
        logs.disk.kill()
        assert logs.values(logs.reopen()) == ["next"]

    def test_a_log_without_timestamps_ages_with_its_file(self, logs: LogBuilder) -> None:
        log = logs.open(self.CONFIG, path="/logs/orders-1")
        logs.append(log, "a", timestamps=[NO_TIMESTAMP])
        log.set_high_watermark(1)
        logs.clock.advance(1000)
        assert not log.expire()

        logs.clock.advance(1)

        assert log.expire()

    def test_nothing_to_do_is_nothing_done(self, logs: LogBuilder, log: PartitionLog) -> None:
        changes = logs.disk.changes

        assert not log.expire()
        assert log.remove_segments_before_start() == 0
        assert logs.disk.changes == changes
