"""The cleaner takes the dirtiest log that is due, one after the other, and learns from what goes wrong."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from random import Random

import pytest

from tests.support.log_builder import HeldSlowWork, ManualClock
from tests.support.log_cleaning import append_keyed, pairs_of
from tidelog.broker.maintenance.cleaner_throttle import PIECE_BYTES_MAX, PIECE_BYTES_MIN, CleanerThrottle
from tidelog.broker.maintenance.log_cleaner import LogCleaner
from tidelog.model.cleaner_config import CLEANER_KEYS
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.model.slow_work import InlineSlowWork, SlowWork
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.checkpoint_file import CLEANER_OFFSET_CHECKPOINT, read_offsets
from tidelog.storage.cleaning.cleaning import CleaningEnd
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.seams import Seams

BACKOFF_MS = 15_000


class ManualTimer:
    def __init__(self, due_ms: float, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Bench:
    """A log directory with a cleaner, and time that passes when a test says so."""

    def __init__(self, slow_work: SlowWork | None = None) -> None:
        self.clock = ManualClock()
        self.disk = SimulatedDisk(self.clock)
        self.seams = Seams(self.disk, self.clock, slow_work or InlineSlowWork(), Random(5))
        self.configs: dict[str, LogConfig] = {}
        self.config: Mapping[str, str] = {}
        self.timers: list[ManualTimer] = []
        self.directory = self.open()
        self.cleaner = LogCleaner(
            LogDirectories([self.directory]), self.seams, self, lambda: CLEANER_KEYS.parse(self.config)
        )

    def open(self) -> LogDirectory:
        directory = LogDirectory.open(self.seams, "/logs", config_of=lambda topic: self.configs[topic])
        directory.load()
        return directory

    def after(self, delay_ms: float, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(self.clock.ms + delay_ms, callback)
        self.timers.append(timer)
        return timer

    def pass_ms(self, ms: int) -> None:
        end = self.clock.ms + ms
        while True:
            due = [each for each in self.timers if not each.is_cancelled and each.due_ms <= end]
            if not due:
                break
            first = min(due, key=lambda each: each.due_ms)
            self.timers.remove(first)
            self.clock.ms = max(self.clock.ms, int(first.due_ms))
            first.callback()
        self.clock.ms = end

    def log(self, name: str, *, dirty: int = 2, value: str = "x", **config: object) -> PartitionLog:
        """A log with so many records of one key, and an active segment behind them."""
        self.configs[name] = LogConfig(cleanup_policy=("compact",), segment_index_bytes=4096).changed(**config)
        log = self.directory.create_partition(partition(name), None)
        self.write(log, dirty, value)
        return log

    def write(self, log: PartitionLog, count: int, value: str = "x") -> None:
        for _ in range(count):
            append_keyed(log, ("a", value), timestamp_ms=self.clock.ms)
        log.roll()


def partition(name: str) -> TopicPartition:
    return TopicPartition(TopicName(name), PartitionIndex(0))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def is_busy(log: PartitionLog) -> bool:
    return log.is_being_cleaned


def offsets(log: PartitionLog) -> list[int]:
    return [offset for offset, _, _ in pairs_of(log)]


def test_a_log_that_is_due_is_cleaned_and_written_down(bench: Bench) -> None:
    log = bench.log("orders", dirty=3)
    bench.cleaner.start()

    bench.pass_ms(BACKOFF_MS - 1)
    assert offsets(log) == [0, 1, 2]
    bench.pass_ms(1)

    assert offsets(log) == [2]
    path = f"{bench.directory.path}/{CLEANER_OFFSET_CHECKPOINT}"
    assert read_offsets(bench.disk, path) == {partition("orders"): 3}
    assert bench.cleaner.cleanings[CleaningEnd.DONE] == 1
    assert bench.cleaner.last_stats.records_written == 1
    assert bench.cleaner.last_clean_ms == bench.clock.ms
    assert bench.cleaner.bytes_read > bench.cleaner.bytes_written > 0


def test_other_topics_are_left_alone(bench: Bench) -> None:
    log = bench.log("orders", cleanup_policy=("delete",))
    bench.cleaner.start()

    bench.pass_ms(BACKOFF_MS)

    assert offsets(log) == [0, 1]


def test_nothing_is_cleaned_without_a_cleaner(bench: Bench) -> None:
    bench.config = {"log.cleaner.enable": "false"}
    log = bench.log("orders")

    bench.cleaner.start()
    bench.cleaner.look_soon()
    bench.pass_ms(BACKOFF_MS)

    assert offsets(log) == [0, 1]


def test_no_thread_cleans_nothing(bench: Bench) -> None:
    bench.config = {"log.cleaner.threads": "0"}
    log = bench.log("orders")
    bench.cleaner.start()

    bench.pass_ms(BACKOFF_MS)
    assert offsets(log) == [0, 1]
    bench.config = {}
    bench.pass_ms(BACKOFF_MS)

    assert offsets(log) == [1]


def test_a_log_that_is_hardly_dirty_waits(bench: Bench) -> None:
    log = bench.log("orders", dirty=1)
    bench.cleaner.start()
    bench.pass_ms(BACKOFF_MS)
    bench.write(log, 1)

    bench.pass_ms(BACKOFF_MS)
    assert offsets(log) == [0, 1]
    assert bench.cleaner.max_dirty_ratio == 0.5

    log.reconfigure(log.config.changed(min_cleanable_dirty_ratio=0.4))
    bench.cleaner.look_soon()
    bench.pass_ms(100)

    assert offsets(log) == [1]


def test_the_dirtiest_comes_first_and_the_others_at_once_after_it() -> None:
    slow = HeldSlowWork()
    bench = Bench(slow)
    little, much = bench.log("little"), bench.log("much")
    for log, clean_until in ((little, 1), (much, 0)):
        bench.directory.cleaner_offsets[log.topic_partition] = Offset(log.log_start_offset + clean_until)
    little.roll()
    bench.write(little, 1)
    slow.run()
    bench.directory.cleaner_offsets[little.topic_partition] = Offset(little.log_end_offset - 1)
    little.reconfigure(little.config.changed(min_cleanable_dirty_ratio=0.1))
    bench.cleaner.start()

    bench.pass_ms(BACKOFF_MS)

    assert (much.is_being_cleaned, little.is_being_cleaned) == (True, False)
    while much.is_being_cleaned:
        slow.run()
    bench.pass_ms(0)
    assert little.is_being_cleaned


def test_several_threads_clean_several_logs() -> None:
    slow = HeldSlowWork()
    bench = Bench(slow)
    bench.config = {"log.cleaner.threads": "2"}
    logs = [bench.log(name) for name in ("a", "b", "c")]
    slow.run()
    bench.cleaner.start()

    bench.pass_ms(BACKOFF_MS)

    assert sum(log.is_being_cleaned for log in logs) == 2


def test_a_log_that_cannot_be_read_is_not_tried_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    log, sound = bench.log("broken"), bench.log("sound")
    file = bench.disk.open(f"{log.directory}/{0:020d}.log")
    file.pwritev([b"?"], file.size() - 6)
    bench.cleaner.start()

    bench.pass_ms(3 * BACKOFF_MS)

    assert bench.cleaner.cleanings[CleaningEnd.FAILED] == 1
    assert bench.cleaner.uncleanable_of(bench.directory) == [log]
    assert bench.cleaner.uncleanable_bytes_of(bench.directory) == log.size_bytes
    assert offsets(sound) == [1]
    assert "checksum" in caplog.text
    bench.directory.delete_partition(log.topic_partition)
    bench.pass_ms(BACKOFF_MS)
    assert bench.cleaner.uncleanable_of(bench.directory) == []


def test_a_full_disk_is_tried_again(bench: Bench) -> None:
    log = bench.log("orders")
    bench.disk.fail("pwritev", "*.cleaned", errno.ENOSPC, times=1)
    bench.cleaner.start()

    bench.pass_ms(BACKOFF_MS)
    assert offsets(log) == [0, 1]
    bench.pass_ms(BACKOFF_MS)

    assert offsets(log) == [1]
    assert not bench.directory.is_offline


def test_a_checkpoint_that_is_out_of_range_is_put_right(bench: Bench) -> None:
    log = bench.log("orders")
    bench.directory.cleaner_offsets[log.topic_partition] = Offset(log.log_end_offset + 100)
    bench.cleaner.start()

    bench.pass_ms(BACKOFF_MS)

    assert offsets(log) == [1]
    assert bench.directory.cleaner_offsets[log.topic_partition] == 2


def test_a_stop_ends_what_is_under_way() -> None:
    slow = HeldSlowWork()
    bench = Bench(slow)
    log = bench.log("orders")
    slow.run()
    bench.cleaner.start()
    bench.pass_ms(BACKOFF_MS)
    assert is_busy(log)

    bench.cleaner.stop()
    while slow.held:
        slow.run()
    bench.pass_ms(10 * BACKOFF_MS)

    assert not is_busy(log)
    assert offsets(log) == [0, 1]
    assert not [name for name in bench.disk.list_directory(log.directory) if name.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize("pieces", range(6))
def test_a_log_that_is_deleted_or_truncated_meanwhile_is_left_alone(pieces: int) -> None:
    for change in ("delete", "truncate"):
        slow = HeldSlowWork()
        bench = Bench(slow)
        log = bench.log("orders", dirty=3)
        slow.run()
        bench.cleaner.start()
        bench.pass_ms(BACKOFF_MS)
        for _ in range(pieces):
            slow.run()
        was_under_way = log.is_being_cleaned

        if change == "delete":
            bench.directory.delete_partition(log.topic_partition)
        else:
            log.truncate_to(1)
        while slow.held:
            slow.run()

        assert not bench.directory.is_offline
        assert not is_busy(log)
        if was_under_way:
            assert bench.cleaner.cleanings[CleaningEnd.ABANDONED] == 1
        if change == "truncate":
            assert log.log_end_offset in {1, 2}
            assert bench.directory.cleaner_offsets.get(log.topic_partition, 0) <= log.log_end_offset


def test_a_directory_that_fails_ends_its_cleanings() -> None:
    slow = HeldSlowWork()
    bench = Bench(slow)
    log = bench.log("orders")
    slow.run()
    bench.cleaner.start()
    bench.pass_ms(BACKOFF_MS)
    bench.disk.fail("pwritev", "*.cleaned", errno.EIO)

    while slow.held:
        slow.run()

    assert bench.directory.is_offline
    assert bench.cleaner.cleanings[CleaningEnd.OFFLINE] == 1
    assert not is_busy(log)
    bench.pass_ms(10 * BACKOFF_MS)


def test_retention_of_a_log_with_both_policies(bench: Bench) -> None:
    log = bench.log("orders", cleanup_policy=("compact", "delete"), retention_ms=60_000)
    bench.cleaner.start()
    bench.pass_ms(BACKOFF_MS)
    assert offsets(log) == [1]

    bench.pass_ms(60_000)

    assert offsets(log) == []
    assert log.log_start_offset == log.log_end_offset == 2


def test_retention_waits_for_a_cleaning() -> None:
    slow = HeldSlowWork()
    bench = Bench(slow)
    log = bench.log("orders", cleanup_policy=("compact", "delete"), retention_ms=60_000)
    slow.run()
    bench.cleaner.start()
    bench.pass_ms(BACKOFF_MS)
    bench.clock.advance(60_000)

    bench.directory.apply_retention()
    assert log.segment_base_offsets == [0, 2]
    while slow.held:
        slow.run()
    bench.directory.apply_retention()

    assert log.segment_base_offsets == [2]


def test_a_throttled_cleaning_waits_between_its_pieces(bench: Bench) -> None:
    log = bench.log("orders", dirty=100, value="x" * 10_000)
    bench.config = {"log.cleaner.io.max.bytes.per.second": "100000"}
    bench.cleaner.start()
    bench.pass_ms(BACKOFF_MS)
    begun_ms = bench.clock.ms

    while log.is_being_cleaned:
        bench.pass_ms(100)

    assert offsets(log) == [99]
    # A megabyte is read twice, and a hundredth of it written.
    assert 19_000 <= bench.clock.ms - begun_ms <= 21_000


def test_a_throttled_cleaning_ends_at_once_with_the_node(bench: Bench) -> None:
    log = bench.log("orders", dirty=100, value="x" * 10_000)
    bench.config = {"log.cleaner.io.max.bytes.per.second": "100000"}
    bench.cleaner.start()
    bench.pass_ms(BACKOFF_MS)
    assert is_busy(log)

    bench.cleaner.stop()

    assert not is_busy(log)


def test_the_throttle_keeps_to_its_rate_and_saves_nothing_up() -> None:
    clock = ManualClock()
    throttle = CleanerThrottle(clock, lambda: 1_000_000)

    assert throttle.delay_ms(500_000) == 500
    clock.advance(200)
    assert throttle.delay_ms(100_000) == 400
    clock.advance(100_000)
    assert throttle.delay_ms(100_000) == 100


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e-9])
def test_a_rate_of_nothing_is_slow_and_not_endless(rate: float) -> None:
    throttle = CleanerThrottle(ManualClock(), lambda: rate)

    assert throttle.delay_ms(1000) == 60_000
    assert throttle.piece_bytes == PIECE_BYTES_MIN


def test_pieces_are_no_larger_than_they_need_to_be() -> None:
    assert CleanerThrottle(ManualClock(), lambda: 1e300).piece_bytes == PIECE_BYTES_MAX
    assert CleanerThrottle(ManualClock(), lambda: 4_000_000.0).piece_bytes == 400_000
