"""A log is cut, and nothing of what went is found again."""

from __future__ import annotations

import pytest

from tests.support.log_builder import SMALL_SEGMENTS, LogBuilder, fetched_values
from tidelog.storage.partition_log import PartitionLog


class TestTruncating:
    def test_drops_segments_epochs_and_producers(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.append(log, "a", producer=(1, 0, 0), epoch=1)
        logs.fill(log, 10)
        logs.append(log, "b", producer=(1, 0, 1), epoch=2)
        logs.append(log, "c", producer=(2, 0, 0), epoch=2)
        log.set_high_watermark(12)

        assert log.truncate_to(3)

        assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (3, 3, 3)
        assert log.leader_epochs.latest_epoch == 0
        state = log.producers.producer(1)
        assert state is not None
        assert state.last_sequence == 0
        assert log.producers.producer(2) is None
        assert logs.append(log, "b", producer=(1, 0, 1)).first_offset == 3

    def test_the_checkpoint_is_lowered_before_anything_is_appended(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a")
        logs.append(log, "b")
        log.flush()
        logs.save_recovery_points()

        log.truncate_to(1)

        assert logs.recovery_point == 1

    def test_beyond_the_end_only_forgets_an_epoch_without_records(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", epoch=1)
        log.leader_epochs.assign(2, 1)

        assert not log.truncate_to(5)

        assert (log.log_end_offset, log.leader_epochs.latest_epoch) == (1, 1)

    def test_before_the_first_segment_empties_the_log(self, logs: LogBuilder, log: PartitionLog) -> None:
        log.truncate_fully_and_start_at(50)
        logs.append(log, "a")

        log.truncate_to(10)

        assert (log.log_start_offset, log.log_end_offset, log.segment_base_offsets) == (10, 10, [10])

    def test_fully_starts_anew_elsewhere(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 10)

        log.truncate_fully_and_start_at(100)

        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
        assert log.leader_epochs.entries == ()
        assert logs.append(log, "a").first_offset == 100

    def test_to_a_negative_offset_is_a_bug(self, log: PartitionLog) -> None:
        with pytest.raises(ValueError, match="-1"):
            log.truncate_to(-1)

    def test_readers_do_not_find_old_positions(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 10)
        log.set_high_watermark(3)
        assert len(fetched_values(log.read(0, 1 << 20))) == 3

        log.truncate_to(1)
        logs.append(log, "longer than before" * 4)
        logs.append(log, "x")
        logs.append(log, "y")
        log.set_high_watermark(3)

        assert fetched_values(log.read(0, 1 << 20)) == ["0".ljust(30), "longer than before" * 4, "x"]
