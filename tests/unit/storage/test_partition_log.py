"""The log of a partition: what it takes, what it answers, what it keeps."""

from __future__ import annotations

import errno
import gc
import os
import socket
import struct
from pathlib import Path

import pytest

from tests.support.log_builder import (
    LOG_PATH,
    START_MS,
    HeldSlowWork,
    LogBuilder,
    accepted,
    fetched_values,
    refused,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP, TopicId
from tidelog.storage.append import AppendRefused
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.files import OsFiles
from tidelog.storage.log_config import LogConfig
from tidelog.storage.open_segments import DESCRIPTORS_PER_SEGMENT
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer_append import AppendOrigin, EndTransactionMarker
from tidelog.storage.segment import RELATIVE_OFFSET_MAX
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import TimestampType, each_batch, read_header
from tidelog.wire.records import Record, build_batch, each_record

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=50, segment_index_bytes=1200, file_delete_delay_ms=1000)
LOG_END = FetchIsolation.LOG_END
COMMITTED = FetchIsolation.LAST_STABLE_OFFSET
APPEND_TIME = TimestampType.LOG_APPEND_TIME


@pytest.fixture
def logs() -> LogBuilder:
    return LogBuilder()


@pytest.fixture
def log(logs: LogBuilder) -> PartitionLog:
    return logs.open()


def fill(logs: LogBuilder, log: PartitionLog, count: int) -> None:
    """Append `count` records of their own batch each: about four fill one of the `SMALL` segments."""
    for number in range(count):
        logs.append(log, f"{number}".ljust(30), timestamps=[START_MS + number * 10])


def batches_of(fetched: Fetched | ErrorCode) -> list[int]:
    """The base offsets of the whole batches in an answer."""
    assert isinstance(fetched, Fetched)
    return [header.base_offset for region in fetched.regions for _, header in each_batch(region.read())]


class TestAppendingAsLeader:
    def test_gives_the_next_offsets_and_its_epoch(self, logs: LogBuilder, log: PartitionLog) -> None:
        first = logs.append(log, "a", "b", epoch=3)
        second = logs.append(log, "c", epoch=4)

        assert (first.first_offset, first.last_offset) == (0, 1)
        assert (second.first_offset, second.last_offset) == (2, 2)
        fetched = log.read(2, 1000, upper_bound=LOG_END)
        assert isinstance(fetched, Fetched)
        assert read_header(fetched.regions[0].read()).partition_leader_epoch == 4
        assert [tuple(entry) for entry in log.leader_epochs.entries] == [(3, 0), (4, 2)]

    def test_several_batches_go_with_one_write(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "warm")
        writes = logs.disk.changes

        info = accepted(log.append_as_leader(logs.batch("a") + logs.batch("b", "c") + logs.batch("d"), 0))

        assert logs.disk.changes - writes == 1
        assert (info.first_offset, info.last_offset) == (1, 4)
        assert logs.values(log) == ["warm", "a", "b", "c", "d"]

    def test_bytes_that_cannot_be_changed_are_copied(self, logs: LogBuilder, log: PartitionLog) -> None:
        batch = bytes(logs.batch("a"))
        view = memoryview(batch)

        accepted(log.append_as_leader(batch, 5))
        accepted(log.append_as_leader(view, 5))

        assert batch == bytes(logs.batch("a"))
        assert logs.values(log) == ["a", "a"]

    def test_log_append_time_is_stamped_and_answered(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))

        info = logs.append(log, "a", "b", timestamps=[5, 6])

        assert info.append_time_ms == START_MS
        assert [record.timestamp for record in logs.records(log)] == [START_MS, START_MS]
        assert log.offset_for_timestamp(START_MS) == (START_MS, 0, 0)

    @pytest.mark.parametrize(
        ("damage", "error"),
        [
            (lambda batch: batch[:-1], ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch[:40], ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch + b"\0", ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
            (lambda batch: batch[:16] + b"\x01" + batch[17:], ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
            (lambda batch: batch[:0], ErrorCode.INVALID_RECORD),
        ],
        ids=["cut off", "half a header", "a byte too many", "wrong CRC", "old magic", "nothing"],
    )
    def test_damage_is_refused_and_nothing_written(
        self, logs: LogBuilder, log: PartitionLog, damage: object, error: ErrorCode
    ) -> None:
        batch = damage(bytes(logs.batch("a", "b")))  # type: ignore[operator]

        assert refused(log.append_as_leader(bytearray(batch), 0)).error is error
        assert (log.log_end_offset, log.size_bytes) == (0, 0)

    def test_a_second_batch_that_is_damaged_takes_the_first_with_it(self, logs: LogBuilder, log: PartitionLog) -> None:
        both = logs.batch("a") + logs.batch("b")
        both[-1] ^= 1

        assert refused(log.append_as_leader(both, 0)).error is ErrorCode.CORRUPT_MESSAGE
        assert log.size_bytes == 0

    @pytest.mark.parametrize(
        ("batch", "error"),
        [
            (build_batch([Record(9, 1, None, b"a")], base_offset=9), ErrorCode.INVALID_RECORD),
            (build_batch([Record(0, 1, None, b"a")], last_offset=4), ErrorCode.INVALID_RECORD),
            (build_batch([Record(0, 1, None, b"a")], producer_id=4, producer_epoch=0), ErrorCode.INVALID_RECORD),
            (
                build_batch([Record(0, 1, None, b"a")], timestamp_type=TimestampType.LOG_APPEND_TIME),
                ErrorCode.INVALID_TIMESTAMP,
            ),
            (
                build_end_txn_marker(
                    ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1
                ),
                ErrorCode.INVALID_RECORD,
            ),
        ],
        ids=["an offset of its own", "more offsets than records", "no sequence", "append time", "a control batch"],
    )
    def test_what_a_producer_may_not_send_is_refused(self, log: PartitionLog, batch: bytes, error: ErrorCode) -> None:
        assert refused(log.append_as_leader(batch, 0)).error is error
        assert log.size_bytes == 0

    def test_batches_larger_than_a_segment_are_refused(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(segment_bytes=100))

        assert refused(log.append_as_leader(logs.batch("x" * 100), 0)).error is ErrorCode.RECORD_LIST_TOO_LARGE


class TestIdempotence:
    def test_a_duplicate_is_answered_as_the_first_time(self, logs: LogBuilder, log: PartitionLog) -> None:
        first = logs.append(log, "a", "b", producer=(1, 0, 0))
        logs.append(log, "c", producer=(1, 0, 2))

        again = logs.append(log, "a", "b", producer=(1, 0, 0))

        assert again.is_duplicate
        assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset)
        assert logs.values(log) == ["a", "b", "c"]

    def test_a_duplicate_of_a_topic_with_append_time_has_the_first_time(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
        logs.append(log, "a", producer=(1, 0, 0))
        logs.clock.advance(1000)

        assert logs.append(log, "a", producer=(1, 0, 0)).append_time_ms == START_MS

    def test_a_gap_in_the_sequence_is_refused(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", producer=(1, 0, 0))
        late = logs.batch("c", producer_id=1, producer_epoch=0, base_sequence=2)

        assert refused(log.append_as_leader(late, 0)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_an_old_epoch_is_refused(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", producer=(1, 5, 0))
        old = logs.batch("b", producer_id=1, producer_epoch=4, base_sequence=1)

        assert refused(log.append_as_leader(old, 0)).error is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_silent_producers_are_forgotten(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", producer=(1, 0, 0))
        logs.clock.advance(24 * 60 * 60 * 1000)

        assert log.expire_producers() == 1
        assert log.producers.producer(1) is None


class TestAppendingAsFollower:
    def test_takes_offsets_and_epochs_as_they_come(self, logs: LogBuilder, log: PartitionLog) -> None:
        accepted(log.append_as_follower(logs.batch("a", "b", leader_epoch=2)))
        accepted(log.append_as_follower(logs.batch("c", base_offset=7, leader_epoch=3)))

        assert (log.log_end_offset, log.end_offset_for_epoch(2)) == (8, (2, 7))
        assert [record.offset for record in logs.records(log)] == [0, 1, 7]

    def test_leaves_out_what_a_fetch_has_cut_off(self, logs: LogBuilder, log: PartitionLog) -> None:
        info = accepted(log.append_as_follower(logs.batch("a") + logs.batch("b", base_offset=1)[:-3]))

        assert (info.last_offset, log.log_end_offset) == (0, 1)
        assert log.size_bytes == len(logs.batch("a"))

    def test_of_nothing_whole_is_no_append(self, logs: LogBuilder, log: PartitionLog) -> None:
        info = accepted(log.append_as_follower(logs.batch("a")[:-1]))

        assert (info.first_offset, info.last_offset, log.size_bytes) == (0, -1, 0)

    def test_refuses_offsets_that_the_log_has(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", "b")

        answer = refused(log.append_as_follower(logs.batch("x", base_offset=1)))

        assert answer.error is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_refuses_offsets_that_fall(self, logs: LogBuilder, log: PartitionLog) -> None:
        both = logs.batch("a", base_offset=5) + logs.batch("b", base_offset=4)

        assert refused(log.append_as_follower(both)).error is ErrorCode.INVALID_RECORD
        assert log.size_bytes == 0

    def test_checks_the_checksum(self, logs: LogBuilder, log: PartitionLog) -> None:
        batch = logs.batch("a")
        batch[-1] ^= 1

        assert refused(log.append_as_follower(batch)).error is ErrorCode.CORRUPT_MESSAGE

    def test_rolls_where_an_offset_is_too_far_for_the_segment(self, logs: LogBuilder, log: PartitionLog) -> None:
        far = RELATIVE_OFFSET_MAX + 10
        accepted(log.append_as_follower(logs.batch("a") + logs.batch("b", base_offset=far)))

        assert log.segment_base_offsets == [0, far]
        assert [record.offset for record in logs.records(log)] == [0, far]

    def test_spreads_a_fetch_that_is_larger_than_its_own_segments(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        fetched = b"".join(bytes(logs.batch("x" * 50, base_offset=number)) for number in range(10))

        accepted(log.append_as_follower(fetched))

        assert len(log.segment_base_offsets) > 2
        assert len(logs.values(log)) == 10

    def test_does_not_judge_producers(self, logs: LogBuilder, log: PartitionLog) -> None:
        batch = logs.batch("a", producer_id=1, producer_epoch=0, base_sequence=17)

        accepted(log.append_as_follower(batch))

        state = log.producers.producer(1)
        assert state is not None
        assert state.last_sequence == 17


class TestAppendingAsRaftLeader:
    def test_keeps_offsets_and_insists_on_the_epoch(self, logs: LogBuilder, log: PartitionLog) -> None:
        accepted(log.append_as_raft_leader(logs.batch("a", leader_epoch=4), 4))

        assert refused(log.append_as_raft_leader(logs.batch("b", base_offset=1, leader_epoch=3), 4)).error
        assert log.log_end_offset == 1


class TestReading:
    def test_begins_with_the_batch_that_holds_the_offset(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", "b")
        logs.append(log, "c", "d", "e")

        assert fetched_values(log.read(3, 1000, upper_bound=LOG_END)) == ["c", "d", "e"]

    def test_ends_with_the_limit_even_within_a_batch(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a")
        logs.append(log, "b")
        size = len(logs.batch("a"))

        fetched = log.read(0, size + 10, upper_bound=LOG_END)

        assert isinstance(fetched, Fetched)
        assert fetched.size_bytes == size + 10
        assert fetched_values(fetched) == ["a"]

    def test_has_one_whole_batch_however_small_the_limit(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a" * 500)
        logs.append(log, "b")

        assert fetched_values(log.read(0, 0, upper_bound=LOG_END)) == ["a" * 500]

    def test_has_nothing_rather_than_part_of_a_batch_if_asked(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a" * 500)

        fetched = log.read(0, 100, upper_bound=LOG_END, min_one_batch=False)

        assert isinstance(fetched, Fetched)
        assert fetched.first_batch_too_large
        assert fetched.regions == ()

    def test_is_of_one_segment(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        fill(logs, log, 10)
        second = log.segment_base_offsets[1]

        assert batches_of(log.read(0, 1 << 20, upper_bound=LOG_END)) == list(range(second))

    def test_goes_on_in_the_next_segment_where_compaction_left_nothing(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(cleanup_policy=("compact",)))
        logs.append(log, "a")
        log.roll()
        accepted(log.append_as_follower(logs.batch("b", base_offset=5)))

        assert batches_of(log.read(1, 100, upper_bound=LOG_END)) == [5]

    @pytest.mark.parametrize("offset", [-1, 1, 4])
    def test_outside_of_the_log_is_an_answer(self, logs: LogBuilder, log: PartitionLog, offset: int) -> None:
        logs.append(log, "a", "b", "c")
        log.set_high_watermark(3)
        log.delete_records_before(2)

        assert log.read(offset, 100) is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_at_the_end_is_empty(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a")

        fetched = log.read(1, 100, upper_bound=LOG_END)

        assert isinstance(fetched, Fetched)
        assert (fetched.regions, fetched.log_end_offset) == ((), 1)

    def test_sees_no_further_than_the_high_watermark(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        fill(logs, log, 10)

        for mark in range(11):
            log.set_high_watermark(mark)
            seen: list[int] = []
            offset = 0
            while batches := batches_of(log.read(offset, 1 << 20)):
                seen += batches
                offset = batches[-1] + 1
            assert seen == list(range(mark))

    def test_a_high_watermark_within_a_batch_hides_the_batch(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", "b")
        log.set_high_watermark(1)

        assert fetched_values(log.read(0, 1000)) == []

    def test_damage_in_the_file_is_an_answer(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a")
        logs.disk.open(f"{LOG_PATH}/00000000000000000000.log").pwritev([b"\x09"], 16)

        assert log.read(0, 100, upper_bound=LOG_END) is ErrorCode.CORRUPT_MESSAGE
        assert log.offset_for_timestamp(1) is ErrorCode.CORRUPT_MESSAGE
        assert log.fault is None

    @pytest.mark.parametrize("position", [1_000_000, -1])
    def test_an_index_that_points_outside_of_the_file_is_damage_and_no_gap(
        self, logs: LogBuilder, position: int
    ) -> None:
        log = logs.open(SMALL.changed(index_interval_bytes=0))
        fill(logs, log, 30)
        logs.stop(log)
        index = f"{LOG_PATH}/00000000000000000000.index"
        entries = logs.disk.size_of(index) // 8
        logs.disk.open(index).pwritev([struct.pack(">ii", 1 + n, position) for n in range(entries)], 0)
        log = logs.reopen(was_clean=True)

        assert log.read(2, 100, upper_bound=LOG_END) is ErrorCode.CORRUPT_MESSAGE
        assert log.fault is None

    def test_a_region_can_be_read_after_its_segment_is_gone(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        fill(logs, log, 10)
        fetched = log.read(0, 1, upper_bound=LOG_END)

        log.truncate_fully_and_start_at(0)
        logs.clock.advance(1000)
        logs.removals.run_due()

        assert fetched_values(fetched) == ["0".ljust(30)]


class TestTransactions:
    def test_hold_back_readers_of_committed_records(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a")
        logs.append(log, "b", producer=(1, 0, 0), is_transactional=True)
        logs.append(log, "c")
        log.set_high_watermark(3)

        assert log.last_stable_offset == log.first_unstable_offset == 1
        assert fetched_values(log.read(0, 1000, upper_bound=COMMITTED)) == ["a"]
        assert fetched_values(log.read(0, 1000)) == ["a", "b", "c"]

    def test_are_stable_once_the_high_watermark_passes_the_marker(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", producer=(1, 0, 0), is_transactional=True)
        logs.end_transaction(log, 1, 0, commit=True)
        log.set_high_watermark(1)
        assert log.last_stable_offset == 0

        log.set_high_watermark(2)

        assert log.last_stable_offset == 2

    def test_that_were_aborted_are_named_to_the_reader(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        logs.append(log, "a", producer=(1, 0, 0), is_transactional=True)
        logs.append(log, "b", producer=(2, 0, 0), is_transactional=True)
        logs.end_transaction(log, 1, 0, commit=False)
        logs.end_transaction(log, 2, 0, commit=True)
        fill(logs, log, 5)
        logs.append(log, "c", producer=(1, 0, 1), is_transactional=True)
        logs.end_transaction(log, 1, 0, commit=False)
        log.set_high_watermark(log.log_end_offset)

        fetched = log.read(0, 1 << 20, upper_bound=COMMITTED)

        assert isinstance(fetched, Fetched)
        assert fetched.aborted_transactions is not None
        assert [each[:3] for each in fetched.aborted_transactions] == [(1, 0, 2)]
        assert [each[:3] for each in log.aborted_transactions(0, 11)] == [(1, 0, 2), (1, 9, 10)]
        assert [each[:3] for each in log.aborted_transactions(3, 11)] == [(1, 9, 10)]

    def test_one_that_began_in_an_earlier_segment_is_found_from_there(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        logs.append(log, "a", producer=(1, 0, 0), is_transactional=True)
        fill(logs, log, 10)
        logs.end_transaction(log, 1, 0, commit=False)
        log.set_high_watermark(log.log_end_offset)

        fetched = log.read(0, 100, upper_bound=COMMITTED)

        assert isinstance(fetched, Fetched)
        assert fetched.aborted_transactions == log.aborted_transactions(0, 1)
        assert len(fetched.aborted_transactions) == 1

    def test_a_marker_of_a_replaced_coordinator_is_refused(self, logs: LogBuilder, log: PartitionLog) -> None:
        def marker(coordinator_epoch: int) -> bytes:
            return build_end_txn_marker(
                ControlType.ABORT,
                producer_id=1,
                producer_epoch=0,
                coordinator_epoch=coordinator_epoch,
                timestamp=START_MS,
            )

        logs.append(log, "a", producer=(1, 0, 0), is_transactional=True)
        accepted(log.append_as_leader(marker(3), 0, origin=AppendOrigin.COORDINATOR))

        answer = refused(log.append_as_leader(marker(2), 0, origin=AppendOrigin.COORDINATOR))

        assert answer.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED

    @pytest.mark.parametrize("config", [LogConfig(), SMALL, LogConfig(message_timestamp_type=APPEND_TIME)])
    def test_a_marker_that_is_known_goes_the_way_of_any_other(self, config: LogConfig) -> None:
        def history(*, is_known: bool) -> tuple[list[object], dict[str, bytes]]:
            logs = LogBuilder()
            log = logs.open(config)
            outcomes: list[object] = []
            for number in range(24):
                if number % 4:
                    logs.append(log, "a", epoch=5, producer=(1, number, 0), is_transactional=True)
                # The last ones are of a replaced coordinator, of a fenced producer, and of an end that raises no epoch.
                epoch = number - (number == 22)
                version = 2 * (number == 23)
                end = EndTransactionMarker(number % 2 == 0, 3 - (number == 21), START_MS + number)
                batch = build_end_txn_marker(
                    ControlType.COMMIT if end.is_commit else ControlType.ABORT,
                    producer_id=1,
                    producer_epoch=epoch,
                    coordinator_epoch=end.coordinator_epoch,
                    timestamp=end.timestamp,
                )
                if is_known:
                    outcomes.append(log.append_marker(batch, end, 1, epoch, 5, version))
                    continue
                answer = log.append_as_leader(batch, 5, origin=AppendOrigin.COORDINATOR, transaction_version=version)
                outcomes.append(answer if isinstance(answer, AppendRefused) else answer.first_offset)
            assert [isinstance(each, AppendRefused) for each in outcomes] == [False] * 21 + [True] * 3
            outcomes += [log.first_unstable_offset, log.aborted_transactions(0, log.log_end_offset)]
            logs.stop(log)
            names = logs.disk.list_directory(LOG_PATH)
            return outcomes, {name: logs.disk.read_bytes(f"{LOG_PATH}/{name}", 1 << 20) for name in names}

        assert history(is_known=True) == history(is_known=False)

    def test_a_control_batch_that_is_no_marker_is_refused(self, log: PartitionLog) -> None:
        batch = build_batch(
            [Record(0, 1, b"\0\0\0\x01", b"\0")],
            producer_id=1,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )

        answer = refused(log.append_as_leader(batch, 0, origin=AppendOrigin.COORDINATOR))

        assert answer.error is ErrorCode.CORRUPT_MESSAGE


class TestTimestamps:
    def test_are_found_to_the_record_in_any_segment(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        fill(logs, log, 20)

        for number in range(20):
            assert log.offset_for_timestamp(START_MS + number * 10 - 5) == (START_MS + number * 10, number, 0)
        assert log.offset_for_timestamp(START_MS + 191) is None
        assert log.offset_for_max_timestamp() == (START_MS + 190, 19, 0)

    def test_are_not_found_before_the_start(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        fill(logs, log, 20)
        log.set_high_watermark(20)
        log.delete_records_before(10)

        assert log.offset_for_timestamp(START_MS) == (START_MS + 100, 10, 0)

    def test_a_segment_with_a_late_record_hides_no_other(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "late", timestamps=[START_MS + 1000])
        log.roll()
        logs.append(log, "a", timestamps=[START_MS + 10])
        log.set_high_watermark(2)
        log.delete_records_before(1)

        assert log.offset_for_timestamp(START_MS) == (START_MS + 10, 1, 0)

    def test_of_an_empty_log_there_are_none(self, log: PartitionLog) -> None:
        assert log.offset_for_timestamp(0) is None
        assert log.offset_for_max_timestamp() is None

    def test_the_ends_have_their_epochs(self, logs: LogBuilder, log: PartitionLog) -> None:
        assert log.earliest_offset() == log.latest_offset() == (NO_TIMESTAMP, 0, -1)
        logs.append(log, "a", epoch=3)
        logs.append(log, "b", epoch=5)

        assert log.earliest_offset() == (NO_TIMESTAMP, 0, 3)
        assert log.latest_offset() == (NO_TIMESTAMP, 2, 5)


class TestRolling:
    def test_a_rolled_segment_is_synced_and_the_recovery_point_follows(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        fill(logs, log, 10)
        rolled = log.segment_base_offsets[:-1]

        assert log.recovery_point == log.segment_base_offsets[-1]
        for base in rolled:
            for suffix in ("log", "index", "timeindex"):
                assert logs.disk.unsynced(f"{LOG_PATH}/{base:020d}.{suffix}") == 0

    def test_the_data_path_does_not_wait_for_it(self) -> None:
        slow = HeldSlowWork()
        logs = LogBuilder(slow_work=slow)
        log = logs.open(SMALL)
        fill(logs, log, 10)
        assert log.recovery_point == 0

        slow.run()

        assert log.recovery_point == log.segment_base_offsets[-1]

    def test_a_sync_that_a_truncation_overtook_says_nothing(self) -> None:
        slow = HeldSlowWork()
        logs = LogBuilder(slow_work=slow)
        log = logs.open(SMALL)
        fill(logs, log, 10)
        log.truncate_to(1)
        fill(logs, log, 2)

        slow.run()

        assert log.recovery_point == 0

    def test_of_what_is_durable_already_syncs_its_last_index_entries_first(self) -> None:
        slow = HeldSlowWork()
        logs = LogBuilder(slow_work=slow)
        log = logs.open(SMALL)
        fill(logs, log, 2)
        log.flush()

        log.roll()

        assert logs.disk.unsynced(f"{LOG_PATH}/00000000000000000000.timeindex") == 0

    def test_keeps_the_recovery_point_back_until_the_old_segment_is_synced(self) -> None:
        slow = HeldSlowWork()
        logs = LogBuilder(slow_work=slow)
        log = logs.open(SMALL)
        fill(logs, log, 2)
        log.flush_in_background()
        log.roll()
        flushed, rolled = slow.held
        slow.held.clear()

        flushed()
        assert log.recovery_point == 1

        rolled()
        assert log.recovery_point == 2

    def test_a_snapshot_of_the_producers_is_left(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        logs.append(log, "a", producer=(1, 0, 0))
        fill(logs, log, 10)

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


class TestFlushing:
    def test_moves_the_recovery_point(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a", "b")
        assert log.recovery_point == 0

        log.flush()

        assert log.recovery_point == 2
        assert logs.disk.unsynced(f"{LOG_PATH}/00000000000000000000.log") == 0

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


class TestTruncating:
    def test_drops_segments_epochs_and_producers(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        logs.append(log, "a", producer=(1, 0, 0), epoch=1)
        fill(logs, log, 10)
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
        log = logs.open(SMALL)
        fill(logs, log, 10)

        log.truncate_fully_and_start_at(100)

        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
        assert log.leader_epochs.entries == ()
        assert logs.append(log, "a").first_offset == 100

    def test_to_a_negative_offset_is_a_bug(self, log: PartitionLog) -> None:
        with pytest.raises(ValueError, match="-1"):
            log.truncate_to(-1)

    def test_readers_do_not_find_old_positions(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        fill(logs, log, 10)
        log.set_high_watermark(3)
        assert len(batches_of(log.read(0, 1 << 20))) == 3

        log.truncate_to(1)
        logs.append(log, "longer than before" * 4)
        logs.append(log, "x")
        logs.append(log, "y")
        log.set_high_watermark(3)

        assert batches_of(log.read(0, 1 << 20)) == [0, 1, 2]


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
        log = logs.open(SMALL)
        fill(logs, log, 20)
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
        log = logs.open(SMALL)
        fill(logs, log, 20)
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


class TestFaults:
    @pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
    def test_an_append_that_fails_takes_the_directory_offline(self, logs: LogBuilder, number: int) -> None:
        log = logs.open()
        logs.append(log, "a")
        logs.disk.fail("pwritev", "*.log", number)

        with pytest.raises(StorageError) as fault:
            log.append_as_leader(logs.batch("b"), 0)

        assert fault.value.errno == number
        assert logs.faults == [fault.value]
        assert log.log_end_offset == 1

    def test_every_later_call_says_why(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a")
        logs.disk.fail("pwritev", "*.log", errno.EIO, times=1)
        with pytest.raises(StorageError):
            log.append_as_leader(logs.batch("b"), 0)

        for call in (
            lambda: log.append_as_leader(logs.batch("b"), 0),
            lambda: log.append_as_follower(logs.batch("b")),
            lambda: log.read(0, 10),
            lambda: log.truncate_to(0),
            lambda: log.delete_records_before(0),
            log.flush,
        ):
            with pytest.raises(StorageError, match="offline, because of this: cannot write"):
                call()
        assert len(logs.faults) == 1

    def test_a_read_that_fails_too(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a")
        logs.disk.fail("pread", "*.log", errno.EIO)

        with pytest.raises(StorageError):
            log.read(0, 10, upper_bound=LOG_END)

        assert len(logs.faults) == 1

    def test_a_sync_in_the_background_too(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL)
        logs.disk.fail("sync", "*.log", errno.EIO)

        with pytest.raises(StorageError):
            fill(logs, log, 10)

        assert [fault.operation for fault in logs.faults] == ["sync"]
        assert log.recovery_point == 0

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("00000000000000000000.index", struct.pack(">ii", 1_000_000, 70)),
            ("00000000000000000000.log", bytes(61)),
        ],
        ids=["index", "log"],
    )
    def test_a_damaged_file_that_an_append_stumbles_over_too(self, logs: LogBuilder, name: str, content: bytes) -> None:
        log = logs.open(LogConfig(index_interval_bytes=0))
        fill(logs, log, 2)
        logs.stop(log)
        logs.disk.open(f"{LOG_PATH}/{name}").pwritev([content], 0)
        log = logs.reopen(was_clean=True)

        with pytest.raises(DamagedFileError, match=name):
            fill(logs, log, 2)

        assert len(logs.faults) == 1

    def test_a_damaged_transaction_index_that_an_abort_stumbles_over_too(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.append(log, "a", producer=(7, 0, 0), is_transactional=True)
        logs.stop(log)
        logs.disk.open(f"{LOG_PATH}/00000000000000000000.txnindex", create=True).pwritev(
            [struct.pack(">hqqqq", 0, 7, 0, 1_000_000, 0)], 0
        )
        log = logs.reopen(was_clean=True)

        with pytest.raises(DamagedFileError, match="txnindex"):
            logs.end_transaction(log, 7, 0, commit=False)

        assert len(logs.faults) == 1

    def test_a_damaged_batch_that_a_truncation_stumbles_over_too(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(index_interval_bytes=0))
        for number in range(3):
            logs.append(log, "a", producer=(7, 0, number), timestamps=[START_MS + number])
        logs.disk.open(f"{LOG_PATH}/00000000000000000000.log").pwritev([bytes(61)], 0)

        with pytest.raises(DamagedFileError, match="magic 0"):
            log.truncate_to(2)

        assert len(logs.faults) == 1

    def test_what_was_answered_before_is_there_after_a_restart(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a")
        logs.disk.fail("pwritev", "*.log", errno.ENOSPC, times=1)
        with pytest.raises(StorageError):
            log.append_as_leader(logs.batch("b" * 50), 0)

        logs.disk.kill()

        assert logs.values(logs.reopen()) == ["a"]


def test_open_files_stay_within_the_bound() -> None:
    logs = LogBuilder(open_segments_max=3)
    log = logs.open(SMALL)
    fill(logs, log, 40)

    for offset in range(40):
        assert batches_of(log.read(offset, 1, upper_bound=LOG_END)) == [offset]
        assert len(logs.open_segments) <= 3


class TestOnARealDisk:
    def descriptors(self) -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    def test_descriptors_stay_within_the_bound(self, tmp_path: Path) -> None:
        logs = LogBuilder(files=OsFiles(), open_segments_max=3)
        before = self.descriptors()
        log = logs.open(SMALL, path=str(tmp_path / "orders-0"))
        logs.append(log, "t", producer=(1, 0, 0), is_transactional=True)
        for sequence in range(1, 20):
            logs.end_transaction(log, 1, 0, commit=False)
            fill(logs, log, 3)
            logs.append(log, "t", producer=(1, 0, sequence), is_transactional=True)
        log.set_high_watermark(log.log_end_offset)

        for offset in range(log.log_end_offset):
            log.read(offset, 1, upper_bound=COMMITTED)
        log.offset_for_timestamp(START_MS)

        assert len(log.segment_base_offsets) > 10
        assert self.descriptors() - before <= 3 * DESCRIPTORS_PER_SEGMENT
        log.close()
        assert self.descriptors() == before

    def test_a_region_outlives_the_segment_that_let_go_of_it(self, tmp_path: Path) -> None:
        logs = LogBuilder(files=OsFiles(), open_segments_max=1)
        log = logs.open(SMALL, path=str(tmp_path / "orders-0"))
        fill(logs, log, 20)
        fetched = log.read(0, 1, upper_bound=LOG_END)
        assert isinstance(fetched, Fetched)
        (region,) = fetched.regions

        for offset in range(20):
            log.read(offset, 1, upper_bound=LOG_END)
        log.truncate_fully_and_start_at(0)
        logs.clock.advance(60_000)
        logs.removals.run_due()

        receiver, sender = socket.socketpair()
        with receiver, sender:
            assert os.sendfile(sender.fileno(), region.file.fileno(), region.position, region.count) == region.count
            sent = receiver.recv(1 << 20)
        assert [record.value for record in each_record(sent)] == [b"0".ljust(30)]


def test_the_topic_id_is_written_once(logs: LogBuilder, log: PartitionLog) -> None:
    ours, theirs = TopicId(b"o" * 16), TopicId(b"t" * 16)

    assert log.assign_topic_id(ours) is ErrorCode.NONE
    assert log.assign_topic_id(ours) is ErrorCode.NONE
    assert log.assign_topic_id(theirs) is ErrorCode.INCONSISTENT_TOPIC_ID
    log.settle()
    assert logs.reopen().topic_id == ours


def test_a_log_goes_on_under_another_name(logs: LogBuilder) -> None:
    log = logs.open(SMALL)
    fill(logs, log, 5)

    log.rename_directory("/logs/orders-0.moved")
    fill(logs, log, 10)

    assert len(logs.values(log)) == 15
    assert not logs.disk.exists(LOG_PATH)
    log.close()
    assert isinstance(logs.open(SMALL, path="/logs/orders-0.moved"), PartitionLog)


def test_another_configuration_counts_from_the_next_append(logs: LogBuilder, log: PartitionLog) -> None:
    fill(logs, log, 5)

    log.reconfigure(SMALL)
    fill(logs, log, 1)

    assert log.segment_base_offsets == [0, 5]


def test_an_answer_of_refusal_is_a_sentence(logs: LogBuilder, log: PartitionLog) -> None:
    answer = log.append_as_leader(logs.batch("a")[:-1], 0)

    assert isinstance(answer, AppendRefused)
    assert answer.reason == "the batch is cut off: 1 of its 69 bytes are missing"
