"""Segments come and go: the log rolls, and its start moves."""

from __future__ import annotations

import errno

import pytest

from tests.support.log_builder import LOG_PATH, SMALL_SEGMENTS, START_MS, HeldSlowWork, LogBuilder
from tidelog.model.errors import ErrorCode
from tidelog.storage.errors import StorageError
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog


class TestRolling:
    def test_a_rolled_segment_is_synced_and_the_recovery_point_follows(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 10)
        rolled = log.segment_base_offsets[:-1]

        assert log.recovery_point == log.segment_base_offsets[-1]
        for base in rolled:
            for suffix in ("log", "index", "timeindex"):
                assert logs.disk.unsynced(f"{LOG_PATH}/{base:020d}.{suffix}") == 0

    def test_the_data_path_does_not_wait_for_it(self) -> None:
        slow = HeldSlowWork()
        logs = LogBuilder(slow_work=slow)
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 10)
        assert log.recovery_point == 0

        slow.run()

        assert log.recovery_point == log.segment_base_offsets[-1]

    def test_a_sync_that_a_truncation_overtook_says_nothing(self) -> None:
        slow = HeldSlowWork()
        logs = LogBuilder(slow_work=slow)
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 10)
        log.truncate_to(1)
        logs.fill(log, 2)

        slow.run()

        assert log.recovery_point == 0

    def test_of_what_is_durable_already_syncs_its_last_index_entries_first(self) -> None:
        slow = HeldSlowWork()
        logs = LogBuilder(slow_work=slow)
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 2)
        log.flush()

        log.roll()

        assert logs.disk.unsynced(f"{LOG_PATH}/00000000000000000000.timeindex") == 0

    def test_keeps_the_recovery_point_back_until_the_old_segment_is_synced(self) -> None:
        slow = HeldSlowWork()
        logs = LogBuilder(slow_work=slow)
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 2)
        log.flush_in_background()
        log.roll()
        flushed, rolled = slow.held
        slow.held.clear()

        flushed()
        assert log.recovery_point == 1

        rolled()
        assert log.recovery_point == 2

    def test_a_snapshot_of_the_producers_is_left(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.append(log, "a", producer=(1, 0, 0))
        logs.fill(log, 10)

        names = [name for name in logs.disk.list_directory(LOG_PATH) if name.endswith(".snapshot")]

        assert names == [f"{base:020d}.snapshot" for base in log.segment_base_offsets[1:]]

    def test_an_empty_segment_does_not_roll(self, logs: LogBuilder, log: PartitionLog) -> None:
        log.roll()
        logs.append(log, "a")
        log.roll()
        log.roll()

        assert log.segment_base_offsets == [0, 1]

    def test_by_time_as_records_say(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(segment_ms=1000))
        logs.append(log, "a", timestamps=[START_MS])
        logs.append(log, "b", timestamps=[START_MS + 1000])
        logs.append(log, "c", timestamps=[START_MS + 1001])

        assert log.segment_base_offsets == [0, 2]


class TestTheStart:
    def test_moves_up_to_the_high_watermark(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", "b", "c")
        log.set_high_watermark(2)

        assert log.delete_records_before(3) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert log.delete_records_before(2) is ErrorCode.NONE
        assert log.delete_records_before(1) is ErrorCode.NONE
        assert log.log_start_offset == 2
        assert logs.values(log) == ["c"]

    def test_takes_whole_segments_with_it_later(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 20)
        bases = log.segment_base_offsets
        log.set_high_watermark(20)

        log.delete_records_before(bases[2] + 1)
        assert log.remove_segments_before_start() == 2

        assert log.segment_base_offsets == bases[2:]
        names = logs.disk.list_directory(LOG_PATH)
        assert f"{bases[0]:020d}.log.deleted" in names
        assert f"{bases[1]:020d}.snapshot.deleted" in names
        logs.clock.advance(1000)
        logs.removals.run_due()
        assert not [name for name in logs.disk.list_directory(LOG_PATH) if name.endswith(".deleted")]

    def test_is_durable_before_segments_go(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 20)
        log.set_high_watermark(20)
        log.delete_records_before(10)
        logs.disk.fail("rename", "*", errno.EIO)

        with pytest.raises(StorageError):
            log.remove_segments_before_start()

        assert logs.log_start_offset == 10

    def test_cuts_the_first_epoch(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", epoch=1)
        logs.append(log, "b", epoch=2)
        log.set_high_watermark(2)

        log.delete_records_before(2)

        assert [tuple(entry) for entry in log.leader_epochs.entries] == [(2, 2)]
