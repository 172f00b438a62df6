"""Opening a partition's directory after a clean stop, a kill, a crash, and what Apache Kafka leaves behind."""

from __future__ import annotations

import errno
import struct
import zlib
from random import Random

import pytest

from tests.support.appends import as_follower
from tests.support.log_builder import LOG_PATH, SMALL_SEGMENTS, START_MS, LogBuilder, accepted
from tidelog.model.ids import Offset
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog

DIRECTORY_FILES = ("leader-epoch-checkpoint",)


def names(logs: LogBuilder, suffix: str = "") -> list[str]:
    return [name for name in logs.disk.list_directory(LOG_PATH) if name.endswith(suffix)]


def path(base_offset: int, suffix: str) -> str:
    return f"{LOG_PATH}/{base_offset:020d}{suffix}"


def damage(logs: LogBuilder, name: str, position: int) -> None:
    file = logs.disk.open(f"{LOG_PATH}/{name}")
    if position < 0:
        position += file.size()
    byte = file.pread(1, position)
    file.pwritev([bytes([byte[0] ^ 0xFF])], position)


class TestAfterACleanStop:
    def test_no_byte_of_the_log_is_read(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.append(log, "p", producer=(1, 0, 0))
        logs.fill(log, 20)
        logs.stop(log)
        logs.disk.fail("pread", "*.log", errno.EIO)

        log = logs.reopen(was_clean=True)

        assert (log.log_end_offset, log.recovery_point) == (21, 21)
        assert log.producers.producer(1) is not None

    def test_nothing_is_written_and_nothing_is_opened(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 20)
        logs.stop(log)
        changes = logs.disk.changes
        logs.disk.fail("open", "*index", errno.EIO)

        log = logs.reopen(was_clean=True)
        log.close()

        assert logs.disk.changes == changes

    def test_indexes_have_no_tail(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.fill(log, 3)
        logs.stop(log)

        assert logs.disk.size_of(path(0, ".index")) == 0
        # One entry: the largest timestamp.
        assert logs.disk.size_of(path(0, ".timeindex")) == 12

    def test_appending_goes_on(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 6)
        logs.stop(log)

        log = logs.reopen(was_clean=True)
        logs.fill(log, 6)

        assert len(logs.values(log)) == 12
        assert log.offset_for_max_timestamp() == (START_MS + 50, 5, 0)

    def test_the_log_is_believed_where_the_checkpoint_is_not(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 6)
        logs.stop(log)
        logs.recovery_point = Offset(3)

        assert logs.reopen(was_clean=True).log_end_offset == 6

    def test_without_a_snapshot_there_were_no_producers(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.append(log, "a", producer=(1, 0, 0))
        logs.stop(log)
        logs.disk.remove(path(1, ".snapshot"))

        log = logs.reopen(was_clean=True)

        assert (log.log_end_offset, len(log.producers)) == (1, 0)

    @pytest.mark.parametrize("suffix", [".index", ".timeindex"])
    def test_a_missing_index_is_built_again(self, logs: LogBuilder, suffix: str) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 20)
        logs.stop(log)
        before = {name: logs.disk.read_bytes(f"{LOG_PATH}/{name}", 1 << 20) for name in names(logs, "index")}
        logs.disk.remove(path(log.segment_base_offsets[1], suffix))

        log = logs.reopen(was_clean=True)

        assert {name: logs.disk.read_bytes(f"{LOG_PATH}/{name}", 1 << 20) for name in names(logs, "index")} == before
        assert len(logs.values(log)) == 20

    def test_a_missing_index_costs_no_producer_its_state(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 5)
        logs.append(log, "a", producer=(1, 0, 0))
        logs.stop(log)
        logs.disk.remove(path(0, ".index"))

        log = logs.reopen(was_clean=True)

        state = log.producers.producer(1)
        assert state is not None
        assert state.last_sequence == 0

    def test_damage_that_no_crash_explains_is_an_error(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 20)
        logs.stop(log)
        logs.disk.remove(path(0, ".index"))
        damage(logs, "00000000000000000000.log", 16)

        with pytest.raises(DamagedFileError, match="begins no whole batch"):
            logs.reopen(was_clean=True)


class TestTheTail:
    @pytest.mark.parametrize("keep", [1, 60, 61, 90])
    def test_a_torn_batch_is_cut(self, logs: LogBuilder, keep: int) -> None:
        log = logs.open()
        logs.fill(log, 3)
        whole = log.size_bytes
        logs.fill(log, 1)
        logs.disk.open(path(0, ".log")).truncate(whole + keep)
        logs.disk.kill()

        log = logs.reopen()

        assert (log.log_end_offset, log.size_bytes) == (3, whole)
        assert logs.disk.size_of(path(0, ".log")) == whole
        assert logs.append(log, "next").first_offset == 3

    def test_a_batch_with_a_wrong_checksum_is_cut_and_all_behind_it(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 20)
        logs.recovery_point = Offset(0)
        second = log.segment_base_offsets[1]
        damage(logs, f"{second:020d}.log", -1)
        logs.disk.kill()

        log = logs.reopen()

        assert second < log.log_end_offset < log.segment_base_offsets[-1] + 10
        assert log.segment_base_offsets == [0, second]
        assert names(logs, ".log") == [f"{base:020d}.log" for base in (0, second)]

    def test_zeros_are_cut(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(preallocate=True, segment_bytes=5000))
        logs.fill(log, 3)
        size = log.size_bytes
        logs.disk.kill()
        assert logs.disk.size_of(path(0, ".log")) == 5000

        log = logs.reopen()

        assert (log.log_end_offset, log.size_bytes) == (3, size)
        assert logs.disk.size_of(path(0, ".log")) == size

    def test_an_offset_that_goes_back_is_cut(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.append(log, "a")
        logs.disk.open(path(0, ".log")).pwritev([logs.batch("old", leader_epoch=0)], log.size_bytes)
        logs.disk.kill()

        assert logs.reopen().log_end_offset == 1

    def test_a_length_that_claims_gigabytes_is_no_harm(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.fill(log, 1)
        size = log.size_bytes
        logs.fill(log, 1)
        logs.disk.open(path(0, ".log")).pwritev([struct.pack(">i", 2**31 - 1)], size + 8)
        logs.disk.kill()

        assert logs.reopen().log_end_offset == 1

    def test_messages_of_an_old_format_are_not_thrown_away(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.fill(log, 1)
        body = struct.pack(">bbqii", 1, 0, START_MS, -1, 3) + b"old"
        message = struct.pack(">qiI", 1, len(body) + 4, zlib.crc32(body)) + body
        size = log.size_bytes
        logs.disk.open(path(0, ".log")).pwritev([message.ljust(100, b"\0")], size)
        logs.disk.kill()

        with pytest.raises(DamagedFileError, match="a message of format 1"):
            logs.reopen()

        assert logs.disk.size_of(path(0, ".log")) == size + 100


class TestTheRecoveryPoint:
    def test_nothing_before_its_segment_is_read(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.append(log, "p", producer=(1, 0, 0))
        logs.fill(log, 20)
        logs.save_recovery_points()
        bases = log.segment_base_offsets
        logs.disk.kill()
        for base in bases[:-1]:
            logs.disk.fail("pread", path(base, ".log"), errno.EIO)

        log = logs.reopen()

        assert (log.log_end_offset, log.segment_base_offsets) == (21, bases)
        assert log.producers.producer(1) is not None
        assert log.recovery_point == bases[-1]

    def test_in_its_segment_only_headers_before_it_are_looked_at(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.append(log, "a" * 50)
        log.flush()
        logs.save_recovery_points()
        logs.append(log, "b")
        # Not what a disk does, but what tells whether the bytes were looked at.
        damage(logs, "00000000000000000000.log", 100)
        logs.disk.kill()

        assert logs.reopen().log_end_offset == 2

    def test_beyond_the_log_it_goes_back(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.fill(log, 2)
        logs.recovery_point = Offset(50)
        logs.disk.kill()

        assert logs.reopen().recovery_point == 2

    def test_a_segment_without_its_predecessors_end_is_not_kept(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 10)
        second = log.segment_base_offsets[1]
        logs.recovery_point = Offset(0)
        cut = len(logs.batch("0".ljust(30)))
        logs.disk.open(path(0, ".log")).truncate(cut)
        logs.disk.kill()

        log = logs.reopen()

        assert (log.log_end_offset, log.segment_base_offsets) == (1, [0])
        assert second > 1

    def test_a_compacted_log_may_have_gaps_between_segments(self, logs: LogBuilder) -> None:
        config = SMALL_SEGMENTS.changed(cleanup_policy=("compact",))
        log = logs.open(config)
        logs.fill(log, 10)
        logs.recovery_point = Offset(0)
        cut = len(logs.batch("0".ljust(30)))
        logs.disk.open(path(0, ".log")).truncate(cut)
        logs.disk.kill()

        log = logs.reopen()

        assert log.log_end_offset == 10
        assert [record.offset for record in logs.records(log)][:2] == [0, log.segment_base_offsets[1]]


class TestIndexes:
    def test_the_tail_of_zeros_that_a_kill_leaves_is_no_data(self, logs: LogBuilder) -> None:
        log = logs.open(LogConfig(index_interval_bytes=50))
        logs.fill(log, 10)
        logs.disk.kill()
        assert logs.disk.size_of(path(0, ".index")) == 10 * 1024 * 1024

        log = logs.reopen()

        assert logs.disk.size_of(path(0, ".index")) < 100
        assert len(logs.values(log)) == 10

    @pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
    def test_are_built_again_where_they_are_no_whole_entries(self, logs: LogBuilder, suffix: str) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.append(log, "t", producer=(1, 0, 0), is_transactional=True)
        logs.end_transaction(log, 1, 0, commit=False)
        logs.fill(log, 20)
        log.flush()
        logs.save_recovery_points()
        before = {name: logs.disk.read_bytes(f"{LOG_PATH}/{name}", 1 << 20) for name in names(logs, "index")}
        first = path(0, suffix)
        logs.disk.open(first).pwritev([b"abc"], logs.disk.size_of(first))
        logs.disk.kill()

        logs.reopen()

        for name, content in before.items():
            if name.startswith("00000000000000000000"):
                assert logs.disk.read_bytes(f"{LOG_PATH}/{name}", 1 << 20) == content

    def test_are_there_again_even_if_nothing_is_in_them(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.fill(log, 1)
        logs.disk.remove(path(0, ".index"))
        logs.disk.kill()

        logs.reopen()

        assert logs.disk.exists(path(0, ".index"))

    def test_without_a_log_go(self, logs: LogBuilder) -> None:
        logs.open()
        logs.disk.open(path(7, ".index"), create=True)
        logs.disk.open(path(7, ".txnindex"), create=True)
        logs.disk.kill()

        logs.reopen()

        assert [name for name in names(logs) if name.startswith("00000000000000000007")] == []


class TestProducersAndEpochs:
    def test_are_followed_through_what_is_read_again(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.append(log, "a", producer=(1, 0, 0), epoch=1)
        logs.fill(log, 3)
        logs.append(log, "b", producer=(1, 0, 1), epoch=5)
        logs.append(log, "t", producer=(2, 0, 0), is_transactional=True, epoch=6)
        logs.recovery_point = Offset(0)
        for name in (*names(logs, ".snapshot"), *DIRECTORY_FILES):
            logs.disk.remove(f"{LOG_PATH}/{name}")
        logs.disk.kill()

        log = logs.reopen()

        state = log.producers.producer(1)
        assert state is not None
        assert state.last_sequence == 1
        assert [tuple(entry) for entry in log.leader_epochs.entries] == [(1, 0), (5, 4), (6, 5)]
        log.set_high_watermark(6)
        assert log.last_stable_offset == 5

    def test_a_damaged_snapshot_is_replaced_by_the_log(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.append(log, "a", producer=(1, 0, 0))
        logs.fill(log, 10)
        logs.save_recovery_points()
        for name in names(logs, ".snapshot"):
            damage(logs, name, -1)
        logs.disk.kill()

        log = logs.reopen()

        assert log.producers.producer(1) is not None

    def test_epochs_of_what_was_lost_are_cut(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.append(log, "a", epoch=1)
        size = log.size_bytes
        logs.append(log, "b", epoch=2)
        logs.disk.open(path(0, ".log")).truncate(size)
        logs.disk.kill()

        assert [tuple(entry) for entry in logs.reopen().leader_epochs.entries] == [(1, 0)]


class TestTheStart:
    def test_segments_before_it_go(self, logs: LogBuilder) -> None:
        log = logs.open(SMALL_SEGMENTS)
        logs.fill(log, 20)
        bases = log.segment_base_offsets
        logs.log_start_offset = Offset(bases[2] + 1)
        logs.disk.kill()

        log = logs.reopen()

        assert log.segment_base_offsets == bases[2:]
        assert log.log_start_offset == bases[2] + 1

    def test_beyond_the_end_the_log_begins_anew_there(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.fill(log, 3)
        logs.log_start_offset = Offset(10)
        logs.disk.kill()

        log = logs.reopen()

        assert (log.log_start_offset, log.log_end_offset, log.segment_base_offsets) == (10, 10, [10])

    def test_of_an_empty_directory_is_where_it_was(self, logs: LogBuilder) -> None:
        logs.log_start_offset = Offset(10)

        log = logs.open()

        assert (log.log_start_offset, log.log_end_offset) == (10, 10)


class TestLeftovers:
    def test_deleted_and_cleaned_files_go(self, logs: LogBuilder) -> None:
        log = logs.open()
        logs.fill(log, 2)
        logs.stop(log)
        for name in (
            "00000000000000000000.log.deleted",
            "00000000000000000005.index.deleted",
            "00000000000000000005.snapshot.deleted",
            "00000000000000000000.log.cleaned",
            "00000000000000000000.timeindex.cleaned",
        ):
            logs.disk.open(f"{LOG_PATH}/{name}", create=True)

        log = logs.reopen(was_clean=True)

        assert logs.values(log) == ["0".ljust(30), "1".ljust(30)]
        assert not [name for name in names(logs) if name.endswith((".deleted", ".cleaned"))]

    def test_a_snapshot_of_the_metadata_quorum_is_not_ours_to_delete(self, logs: LogBuilder) -> None:
        name = "00000000000000000005-0000000001.checkpoint.deleted"
        logs.open()
        logs.disk.open(f"{LOG_PATH}/{name}", create=True)

        logs.reopen()

        assert name in names(logs)

    def test_a_finished_compaction_takes_the_place_of_what_it_was_made_from(self, logs: LogBuilder) -> None:
        log = self._compactable(logs)
        bases = log.segment_base_offsets
        self._write_segment(logs, 0, ".swap", logs.batch("kept", base_offset=bases[2] - 1))

        log = logs.reopen(was_clean=True)

        assert log.segment_base_offsets == [0, *bases[2:]]
        assert logs.values(log)[0] == "kept"
        assert names(logs, ".swap") == []

    def test_an_unfinished_one_is_forgotten(self, logs: LogBuilder) -> None:
        log = self._compactable(logs)
        before = logs.values(log)
        self._write_segment(logs, 0, ".swap", logs.batch("kept", base_offset=1))
        self._write_segment(logs, 0, ".cleaned", b"")

        log = logs.reopen(was_clean=True)

        assert logs.values(log) == before
        assert [name for name in names(logs) if name.endswith((".swap", ".cleaned"))] == []

    @staticmethod
    def _compactable(logs: LogBuilder) -> PartitionLog:
        log = logs.open(SMALL_SEGMENTS.changed(cleanup_policy=("compact",)))
        logs.fill(log, 20)
        logs.stop(log)
        return log

    @staticmethod
    def _write_segment(logs: LogBuilder, base_offset: int, suffix: str, content: bytes | bytearray) -> None:
        logs.disk.open(path(base_offset, ".log" + suffix), create=True).pwritev([content], 0)
        for index in (".index", ".timeindex"):
            logs.disk.open(path(base_offset, index + suffix), create=True)


def test_a_crash_during_the_recovery_is_one_more_crash(logs: LogBuilder) -> None:
    log = logs.open(SMALL_SEGMENTS)
    logs.fill(log, 10)
    log.flush()
    logs.append(log, "unsynced")
    logs.disk.crash(Random(1))
    for attempt in range(1, 400):
        logs.disk.crash_at(logs.disk.changes + attempt)
        try:
            logs.reopen()
        except BaseException:  # noqa: BLE001 - the simulated end of the machine
            logs.disk.crash(Random(attempt))
        else:
            break
    else:
        pytest.fail("no recovery got to its end")
    logs.disk.kill()

    log = logs.reopen()

    assert logs.values(log)[:10] == [f"{number}".ljust(30) for number in range(10)]


def test_a_copied_log_with_a_wide_gap_comes_back(logs: LogBuilder) -> None:
    log = logs.open()
    accepted(as_follower(log, logs.batch("a")))
    accepted(as_follower(log, logs.batch("b", base_offset=2**31 + 5)))
    logs.stop(log)

    log = logs.reopen(was_clean=True)

    assert log.log_end_offset == 2**31 + 6
