"""The log of a partition, read: batches, committed records, times; with few files open."""

from __future__ import annotations

import gc
import os
import socket
import struct
from pathlib import Path

import pytest

from tests.support.appends import as_follower, checked
from tests.support.log_builder import LOG_PATH, SMALL_SEGMENTS, START_MS, LogBuilder, accepted, fetched_values
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP
from tidelog.storage.append import FRESH_BYTES_MAX, AppendRule
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.file_region import FreshRegion
from tidelog.storage.log_config import LogConfig
from tidelog.storage.open_segments import DESCRIPTORS_PER_SEGMENT
from tidelog.storage.os_files import OsFiles
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.control_records import ControlType, build_end_txn_marker
from tidelog.wire.record_batch import BytesLike, each_batch
from tidelog.wire.records import each_record

LOG_END = FetchIsolation.LOG_END
COMMITTED = FetchIsolation.LAST_STABLE_OFFSET


def batches_of(fetched: Fetched | ErrorCode) -> list[int]:
    """The base offsets of the whole batches in an answer."""
    assert isinstance(fetched, Fetched)
    return [header.base_offset for region in fetched.regions for _, header in each_batch(region.read())]


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
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 10)
        second = log.segment_base_offsets[1]

        assert batches_of(log.read(0, 1 << 20, upper_bound=LOG_END)) == list(range(second))

    def test_goes_on_in_the_next_segment_where_compaction_left_nothing(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(cleanup_policy=("compact",)))
        logs.append(log, "a")
        log.roll()
        accepted(as_follower(log, logs.batch("b", base_offset=5)))

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
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 10)

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
        log = logs.open(SMALL_SEGMENTS.changed(index_interval_bytes=0))
        logs.fill(log, 30)
        logs.stop(log)
        index = f"{LOG_PATH}/00000000000000000000.index"
        entries = logs.disk.size_of(index) // 8
        logs.disk.open(index).pwritev([struct.pack(">ii", 1 + n, position) for n in range(entries)], 0)
        log = logs.reopen(was_clean=True)

        assert log.read(2, 100, upper_bound=LOG_END) is ErrorCode.CORRUPT_MESSAGE
        assert log.fault is None

    def test_a_region_can_be_read_after_its_segment_is_gone(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 10)
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
        log = logs.open(SMALL_SEGMENTS)
        logs.append(log, "a", producer=(1, 0, 0), is_transactional=True)
        logs.append(log, "b", producer=(2, 0, 0), is_transactional=True)
        logs.end_transaction(log, 1, 0, commit=False)
        logs.end_transaction(log, 2, 0, commit=True)
        logs.fill(log, 5)
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
        log = logs.open(SMALL_SEGMENTS)
        logs.append(log, "a", producer=(1, 0, 0), is_transactional=True)
        logs.fill(log, 10)
        logs.end_transaction(log, 1, 0, commit=False)
        log.set_high_watermark(log.log_end_offset)

        fetched = log.read(0, 100, upper_bound=COMMITTED)

        assert isinstance(fetched, Fetched)
        assert fetched.aborted_transactions == log.aborted_transactions(0, 1)
        assert len(fetched.aborted_transactions) == 1


class TestTimestamps:
    def test_are_found_to_the_record_in_any_segment(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 20)

        for number in range(20):
            assert log.offset_for_timestamp(START_MS + number * 10 - 5) == (START_MS + number * 10, number, 0)
        assert log.offset_for_timestamp(START_MS + 191) is None
        assert log.offset_for_max_timestamp() == (START_MS + 190, 19, 0)

    def test_are_not_found_before_the_start(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 20)
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


def test_open_files_stay_within_the_bound() -> None:
    logs = LogBuilder(open_segments_max=3)
    log = logs.open(SMALL_SEGMENTS)
    logs.fill(log, 40)

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
        log = logs.open(SMALL_SEGMENTS, path=str(tmp_path / "orders-0"))
        logs.append(log, "t", producer=(1, 0, 0), is_transactional=True)
        for sequence in range(1, 20):
            logs.end_transaction(log, 1, 0, commit=False)
            logs.fill(log, 3)
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
        log = logs.open(SMALL_SEGMENTS, path=str(tmp_path / "orders-0"))
        logs.fill(log, 20)
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


def append_run(log: PartitionLog, *batches: BytesLike, is_awaited: bool = False) -> None:
    """As a leader writes what several clients have sent."""
    log.append([checked(batch) for batch in batches], AppendRule.LEADER, 0, is_awaited)


class TestReadingWhatIsAwaited:
    """An append that somebody waits for is read from memory; what comes of it is what the file holds."""

    @staticmethod
    def from_file(log: PartitionLog, offset: int, count: int) -> bytes:
        log.reader.fresh = None
        fetched = log.read(offset, count, upper_bound=LOG_END)
        assert isinstance(fetched, Fetched)
        return b"".join(region.read() for region in fetched.regions)

    @pytest.mark.parametrize("run", [["a"], ["b", "c"]])
    def test_is_the_same_as_from_the_file(self, logs: LogBuilder, log: PartitionLog, run: list[str]) -> None:
        append_run(log, logs.batch("first"))
        for _ in range(2):
            start = log.log_end_offset
            append_run(log, *[logs.batch(value) for value in run], is_awaited=True)

            fetched = log.read(start, 10_000, upper_bound=LOG_END)

            assert isinstance(fetched, Fetched)
            assert [type(region) for region in fetched.regions] == [FreshRegion]
            (region,) = fetched.regions
            assert region.read() == region.file.pread(region.count, region.position)
            assert region.read() == self.from_file(log, start, 10_000)

    def test_goes_no_further_than_the_reader_may(self, logs: LogBuilder, log: PartitionLog) -> None:
        append_run(log, logs.batch("a"), logs.batch("b"), is_awaited=True)

        assert fetched_values(log.read(0, 10_000)) == []
        log.set_high_watermark(1)
        assert fetched_values(log.read(0, 10_000)) == ["a"]
        log.set_high_watermark(2)
        assert fetched_values(log.read(0, 10_000)) == ["a", "b"]
        assert fetched_values(log.read(1, 10_000)) == ["b"]
        assert fetched_values(log.read(0, 1)) == ["a"]

    def test_is_not_what_was_cut_off(self, logs: LogBuilder, log: PartitionLog) -> None:
        append_run(log, logs.batch("old"))
        append_run(log, logs.batch("lost"), is_awaited=True)
        log.truncate_to(1)
        logs.append(log, "kept")

        assert fetched_values(log.read(1, 10_000, upper_bound=LOG_END)) == ["kept"]

    @pytest.mark.parametrize("is_follower", [False, True])
    def test_tells_of_what_was_aborted_meanwhile(self, logs: LogBuilder, log: PartitionLog, is_follower: bool) -> None:
        """The record is kept while it is not committed. Then its transaction is aborted, behind the start of another one that
        stays open: the last stable offset comes to lie right behind the record."""
        append_run(log, logs.batch("first"))
        batch = logs.batch("aborted", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        append_run(log, batch, is_awaited=True)
        log.forget_fresh()
        if is_follower:
            other = logs.batch(
                "open", base_offset=2, producer_id=2, producer_epoch=0, base_sequence=0, is_transactional=True
            )
            marker = build_end_txn_marker(
                ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=3
            )
            accepted(as_follower(log, bytes(other) + bytes(marker)))
        else:
            logs.append(log, "open", producer=(2, 0, 0), is_transactional=True)
            logs.end_transaction(log, 1, 0, commit=False)
        log.set_high_watermark(4)

        fetched = log.read(1, 10_000, upper_bound=COMMITTED)

        assert isinstance(fetched, Fetched)
        assert fetched.last_stable_offset == 2
        assert [each.producer_id for each in fetched.aborted_transactions or ()] == [1]

    def test_is_let_go_once_all_may_have_read_it(self, logs: LogBuilder, log: PartitionLog) -> None:
        append_run(log, logs.batch("a"), is_awaited=True)

        log.forget_fresh()
        assert log.reader.fresh is not None
        log.set_high_watermark(1)
        log.forget_fresh()
        assert log.reader.fresh is None

    def test_is_little_or_comes_from_the_file(self, logs: LogBuilder, log: PartitionLog) -> None:
        for values in (["a" * FRESH_BYTES_MAX], ["b"], ["c" * FRESH_BYTES_MAX, "d"]):
            start = log.log_end_offset
            append_run(log, *[logs.batch(value) for value in values], is_awaited=True)

            assert (log.reader.fresh is None) == (sum(map(len, values)) >= FRESH_BYTES_MAX)
            assert fetched_values(log.read(start, 1 << 20, upper_bound=LOG_END)) == values


@pytest.mark.parametrize("index_bytes", [8, 12, 24, 60])
def test_a_time_index_that_stops_have_filled_has_no_more_to_take(index_bytes: int) -> None:
    logs = LogBuilder()
    config = LogConfig(segment_index_bytes=index_bytes)
    log = logs.open(config)

    for number in range(12):
        logs.append(log, str(number), timestamps=[START_MS + number])
        logs.stop(log)
        log = logs.reopen(config, was_clean=True)

    assert log.offset_for_max_timestamp() == (START_MS + 11, 11, 0)


def test_a_full_time_index_is_noticed_after_a_cut() -> None:
    logs = LogBuilder()
    config = LogConfig(segment_index_bytes=24)
    log = logs.open(config)
    for number in range(2):
        logs.append(log, str(number), timestamps=[START_MS + number])
        logs.stop(log)
        log = logs.reopen(config, was_clean=True)
    segment = log.segments.active
    segment.truncate_to(2)

    assert segment.must_roll(config.segment_bytes, config.roll_ms, 0, 100, 2, START_MS + 2)
