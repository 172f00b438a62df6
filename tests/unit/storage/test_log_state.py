"""What becomes of a log whose disk fails, and of one whose configuration changes."""

from __future__ import annotations

import errno
import struct

import pytest

from tests.support.appends import as_follower, as_leader
from tests.support.log_builder import LOG_PATH, SMALL_SEGMENTS, START_MS, LogBuilder
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.fetched import FetchIsolation
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog

LOG_END = FetchIsolation.LOG_END


class TestFaults:
    @pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
    def test_an_append_that_fails_takes_the_directory_offline(self, logs: LogBuilder, number: int) -> None:
        log = logs.open()
        logs.append(log, "a")
        logs.disk.fail("pwritev", "*.log", number)

        with pytest.raises(StorageError) as fault:
            as_leader(log, logs.batch("b"), 0)

        assert fault.value.errno == number
        assert logs.faults == [fault.value]
        assert log.log_end_offset == 1

    def test_every_later_call_says_why(self, logs: LogBuilder, log: PartitionLog) -> None:
        logs.append(log, "a")
        logs.disk.fail("pwritev", "*.log", errno.EIO, times=1)
        with pytest.raises(StorageError):
            as_leader(log, logs.batch("b"), 0)

        for call in (
            lambda: as_leader(log, logs.batch("b"), 0),
            lambda: as_follower(log, logs.batch("b")),
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
        log = logs.open(SMALL_SEGMENTS)
        logs.disk.fail("sync", "*.log", errno.EIO)

        with pytest.raises(StorageError):
            logs.fill(log, 10)

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
        logs.fill(log, 2)
        logs.stop(log)
        logs.disk.open(f"{LOG_PATH}/{name}").pwritev([content], 0)
        log = logs.reopen(was_clean=True)

        with pytest.raises(DamagedFileError, match=name):
            logs.fill(log, 2)

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
            as_leader(log, logs.batch("b" * 50), 0)

        logs.disk.kill()

        assert logs.values(logs.reopen()) == ["a"]


def test_another_configuration_counts_from_the_next_append(logs: LogBuilder, log: PartitionLog) -> None:
    logs.fill(log, 5)

    log.reconfigure(SMALL_SEGMENTS)
    logs.fill(log, 1)

    assert log.segment_base_offsets == [0, 5]
