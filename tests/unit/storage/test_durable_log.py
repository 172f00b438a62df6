"""A log reaches the disk: when it is asked to, when it is due, under its topic id and any name."""

from __future__ import annotations

from random import Random

from tests.support.log_builder import LOG_PATH, SMALL_SEGMENTS, START_MS, LogBuilder
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.segment import FoundTimestamp


class TestFlushing:
    def test_moves_the_recovery_point(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", "b")
        assert log.recovery_point == 0

        log.flush()

        assert log.recovery_point == 2
        assert logs.disk.unsynced(f"{LOG_PATH}/00000000000000000000.log") == 0

    def test_leaves_the_indexes_of_the_active_segment_to_recovery(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 3)
        index = f"{LOG_PATH}/00000000000000000000.timeindex"

        log.flush()

        assert logs.disk.unsynced(index) > 0
        logs.save_recovery_points()
        logs.disk.crash(Random(3))
        log = logs.reopen()
        assert len(logs.values(log)) == 3
        found = log.offset_for_timestamp(START_MS + 20)
        assert isinstance(found, FoundTimestamp)
        assert found.offset == 2

    def test_has_the_indexes_of_a_segment_on_disk_before_the_next_one_begins(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 3)
        log.flush()

        logs.fill(log, 3)

        assert len(log.segment_base_offsets) > 1
        for suffix in ("log", "index", "timeindex"):
            assert logs.disk.unsynced(f"{LOG_PATH}/00000000000000000000.{suffix}") == 0

    def test_comes_with_the_append_after_flush_messages(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(flush_messages=3))
        logs.append(log, "a", "b")
        assert log.recovery_point == 0

        logs.append(log, "c")

        assert log.recovery_point == 3

    def test_is_due_after_flush_ms(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(flush_ms=1000))
        logs.append(log, "a")
        logs.clock.advance(999)
        assert not log.is_flush_due()
        logs.clock.advance(1)
        assert log.is_flush_due()

        log.flush_in_background()

        assert log.recovery_point == 1
        assert not log.is_flush_due()

    def test_is_never_due_where_nothing_is_new(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(flush_ms=0))

        assert not log.is_flush_due()


def test_the_topic_id_is_written_once(logs: LogBuilder, log: PartitionLog) -> None:
    ours, theirs = TopicId(b"o" * 16), TopicId(b"t" * 16)

    assert log.assign_topic_id(ours) is ErrorCode.NONE
    assert log.assign_topic_id(ours) is ErrorCode.NONE
    assert log.assign_topic_id(theirs) is ErrorCode.INCONSISTENT_TOPIC_ID
    log.settle()
    assert logs.reopen().topic_id == ours


def test_a_log_goes_on_under_another_name(logs: LogBuilder) -> None:
    log = logs.open(SMALL_SEGMENTS)
    logs.fill(log, 5)

    log.rename_directory("/logs/orders-0.moved")
    logs.fill(log, 10)

    assert len(logs.values(log)) == 15
    assert not logs.disk.exists(LOG_PATH)
    log.close()
    assert isinstance(logs.open(SMALL_SEGMENTS, path="/logs/orders-0.moved"), PartitionLog)
