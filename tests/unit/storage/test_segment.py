"""One segment: appending, finding, rolling, truncating."""

from __future__ import annotations

import errno

import pytest

from tests.support.log_builder import DIRECTORY, START_MS, LogBuilder
from tidelog.model.ids import NO_TIMESTAMP
from tidelog.simulation.disk import SimulatedFile
from tidelog.storage import segment as segment_module
from tidelog.storage.checked_batches import batch_in_log
from tidelog.storage.errors import StorageError
from tidelog.storage.log_config import LogConfig
from tidelog.storage.segment import RELATIVE_OFFSET_MAX, Segment
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import read_header

# Every batch is worth an index entry.
DENSE = LogConfig(index_interval_bytes=0, segment_index_bytes=1200)
LOG = f"{DIRECTORY}/00000000000000000100.log"


@pytest.fixture
def logs() -> LogBuilder:
    logs = LogBuilder()
    logs.disk.make_directory(DIRECTORY)
    return logs


def segment_of(logs: LogBuilder, config: LogConfig = DENSE, base_offset: int = 100) -> Segment:
    return Segment.create(logs.seams, logs.open_segments, DIRECTORY, base_offset, config)


def add(logs: LogBuilder, segment: Segment, base_offset: int, *values: str, **options: object) -> None:
    batch = logs.batch(*values, base_offset=base_offset, **options)  # type: ignore[arg-type]
    segment.write((batch,), [batch_in_log(read_header(batch))])


def must_roll(segment: Segment, config: LogConfig, incoming_bytes: int, last_offset: int, max_timestamp: int) -> bool:
    return segment.must_roll(config.segment_bytes, config.roll_ms, 0, incoming_bytes, last_offset, max_timestamp)


def test_files_are_named_after_the_first_offset(logs: LogBuilder) -> None:
    segment_of(logs)

    assert logs.disk.list_directory(DIRECTORY) == [
        "00000000000000000100.index",
        "00000000000000000100.log",
        "00000000000000000100.timeindex",
    ]


def test_files_that_a_crash_left_under_the_same_name_are_replaced(logs: LogBuilder) -> None:
    add(logs, segment_of(logs), 100, "old")

    segment = segment_of(logs)

    assert segment.size_bytes == logs.disk.size_of(LOG) == 0


def test_batches_lie_one_behind_the_other(logs: LogBuilder) -> None:
    segment = segment_of(logs)
    add(logs, segment, 100, "a", "b")
    add(logs, segment, 102, "c")

    content = logs.disk.read_bytes(LOG, 1 << 20)

    assert content == bytes(logs.batch("a", "b", base_offset=100) + logs.batch("c", base_offset=102))
    assert segment.size_bytes == len(content)


@pytest.mark.parametrize("config", [DENSE, LogConfig(), LogConfig(segment_index_bytes=8, index_interval_bytes=0)])
def test_an_offset_is_found_in_its_batch_with_or_without_index_entries(logs: LogBuilder, config: LogConfig) -> None:
    segment = segment_of(logs, config)
    for base in range(100, 160, 3):
        add(logs, segment, base, "a", "b", "c")

    for offset in range(100, 160):
        found = segment.find(offset)
        assert found is not None
        assert found.header.base_offset == 100 + (offset - 100) // 3 * 3
    assert segment.find(160) is None


def test_an_offset_that_compaction_removed_is_answered_with_the_next_batch(logs: LogBuilder) -> None:
    segment = segment_of(logs)
    add(logs, segment, 100, "a")
    add(logs, segment, 120, "b")

    found = segment.find(110)

    assert found is not None
    assert found.header.base_offset == 120


def test_a_search_reads_no_more_than_lies_between_two_index_entries(logs: LogBuilder) -> None:
    segment = segment_of(logs, LogConfig(index_interval_bytes=4096))
    for base in range(100, 400):
        add(logs, segment, base, "x" * 1000)
    logs.disk.fail("pread", "*.log", errno.EIO, after=2)

    found = segment.find(250)

    assert found is not None
    assert found.header.base_offset == 250


def test_damage_between_batches_is_told(logs: LogBuilder) -> None:
    segment = segment_of(logs)
    add(logs, segment, 100, "a")
    add(logs, segment, 101, "b")
    first_bytes = len(logs.batch("a"))
    logs.disk.open(LOG).pwritev([b"\x09"], first_bytes + 16)

    with pytest.raises(CorruptBatchError):
        segment.next_offset()


class TestRolling:
    CONFIG = LogConfig(segment_bytes=1000, segment_ms=60_000, segment_index_bytes=1200)

    def test_by_size(self, logs: LogBuilder) -> None:
        segment = segment_of(logs, self.CONFIG)
        add(logs, segment, 100, "x" * 500)

        assert not must_roll(segment, self.CONFIG, 1000 - segment.size_bytes, 101, START_MS)
        assert must_roll(segment, self.CONFIG, 1001 - segment.size_bytes, 101, START_MS)

    def test_by_the_time_of_records(self, logs: LogBuilder) -> None:
        segment = segment_of(logs, self.CONFIG)
        add(logs, segment, 100, "a", timestamps=[START_MS])

        assert not must_roll(segment, self.CONFIG, 10, 101, START_MS + 60_000)
        assert must_roll(segment, self.CONFIG, 10, 101, START_MS + 60_001)

    def test_by_the_clock_where_records_have_no_time(self, logs: LogBuilder) -> None:
        segment = segment_of(logs, self.CONFIG)
        add(logs, segment, 100, "a", timestamps=[NO_TIMESTAMP])

        logs.clock.advance(60_000)
        assert not must_roll(segment, self.CONFIG, 10, 101, NO_TIMESTAMP)
        logs.clock.advance(1)
        assert must_roll(segment, self.CONFIG, 10, 101, NO_TIMESTAMP)

    def test_earlier_by_the_jitter(self, logs: LogBuilder) -> None:
        jittery = self.CONFIG.changed(segment_jitter_ms=50_000)
        segment = segment_of(logs, jittery)
        add(logs, segment, 100, "a", timestamps=[START_MS])

        assert 0 < segment.roll_jitter_ms < 50_000
        assert must_roll(segment, jittery, 10, 101, START_MS + 60_001 - segment.roll_jitter_ms)
        assert not must_roll(segment, jittery, 10, 101, START_MS + 60_000 - segment.roll_jitter_ms)

    def test_by_a_full_index(self, logs: LogBuilder) -> None:
        config = LogConfig(index_interval_bytes=0, segment_index_bytes=36)
        segment = segment_of(logs, config)
        for base in range(100, 103):
            assert not must_roll(segment, config, 10, base, START_MS)
            add(logs, segment, base, "a", timestamps=[START_MS + base])

        # 36 bytes hold three time entries, of which the last is kept for the roll itself.
        assert must_roll(segment, config, 10, 103, START_MS)

    def test_by_an_offset_that_is_too_far_away(self, logs: LogBuilder) -> None:
        segment = segment_of(logs)

        assert not must_roll(segment, DENSE, 10, 100 + RELATIVE_OFFSET_MAX, START_MS)
        assert must_roll(segment, DENSE, 10, 101 + RELATIVE_OFFSET_MAX, START_MS)

    def test_never_while_it_is_empty(self, logs: LogBuilder) -> None:
        config = self.CONFIG.changed(segment_index_bytes=4)
        segment = segment_of(logs, config)
        logs.clock.advance(10 * 60_000)

        assert not must_roll(segment, config, 5000, 101, START_MS + 10 * 60_000)


class TestTimestamps:
    @pytest.mark.parametrize("codec", list(Compression))
    def test_the_first_record_of_a_time_is_found_inside_its_batch(self, logs: LogBuilder, codec: Compression) -> None:
        segment = segment_of(logs)
        add(logs, segment, 100, "a", "b", timestamps=[1000, 1010], codec=codec)
        add(logs, segment, 102, "c", "d", "e", timestamps=[1020, 1040, 1030], codec=codec, leader_epoch=7)
        add(logs, segment, 105, "f", timestamps=[1025], codec=codec)

        assert segment.find_timestamp(0, 100) == (1000, 100, -1)
        assert segment.find_timestamp(1021, 100) == (1040, 103, 7)
        assert segment.find_timestamp(1021, 104) == (1030, 104, 7)
        assert segment.find_timestamp(1021, 105) == (1025, 105, -1)
        assert segment.find_timestamp(1041, 100) is None
        assert segment.find_largest_timestamp() == (1040, 103, 7)

    def test_the_largest_survives_a_roll_in_the_time_index(self, logs: LogBuilder) -> None:
        segment = segment_of(logs, LogConfig())
        add(logs, segment, 100, "a", "b", timestamps=[1000, 3000])
        add(logs, segment, 102, "c", timestamps=[2000])

        segment.finish()
        segment.release()

        assert segment.time_index.last_entry == (3000, 101)
        reloaded = Segment(logs.seams, logs.open_segments, DIRECTORY, 100, LogConfig(), size_bytes=segment.size_bytes)
        assert reloaded.largest_timestamp_offset == (3000, 101)
        assert reloaded.first_timestamp == 3000

    def test_a_segment_without_timestamps_is_as_old_as_its_file(self, logs: LogBuilder) -> None:
        segment = segment_of(logs)
        logs.clock.advance(5)
        add(logs, segment, 100, "a", timestamps=[NO_TIMESTAMP])

        assert segment.largest_timestamp() == START_MS + 5
        assert segment.find_largest_timestamp() is None


class TestTruncating:
    def test_cuts_the_log_and_its_indexes(self, logs: LogBuilder) -> None:
        segment = segment_of(logs)
        for base in range(100, 110):
            add(logs, segment, base, "a", timestamps=[START_MS + base])

        assert segment.truncate_to(105) == 105

        assert segment.next_offset() == 105
        assert [entry.offset for entry in segment.offset_index.each_entry()] == [101, 102, 103, 104]
        assert segment.largest_timestamp_offset == (START_MS + 104, 104)

    def test_takes_the_whole_batch_that_holds_the_offset(self, logs: LogBuilder) -> None:
        segment = segment_of(logs)
        add(logs, segment, 100, "a", "b")
        add(logs, segment, 102, "c", "d", "e")

        assert segment.truncate_to(104) == 102

        assert segment.next_offset() == 102

    def test_is_durable(self, logs: LogBuilder) -> None:
        segment = segment_of(logs)
        add(logs, segment, 100, "a")
        add(logs, segment, 101, "b")

        segment.truncate_to(101)

        assert logs.disk.unsynced(LOG) == 0

    def test_down_to_nothing_leaves_a_segment_like_new(self, logs: LogBuilder) -> None:
        segment = segment_of(logs)
        add(logs, segment, 100, "a", timestamps=[START_MS + 70_000])

        segment.truncate_to(100)

        assert (segment.size_bytes, segment.first_timestamp) == (0, NO_TIMESTAMP)
        assert segment.largest_timestamp_offset == (NO_TIMESTAMP, 100)


class TestPreallocation:
    CONFIG = LogConfig(segment_bytes=5000, preallocate=True)

    def test_the_file_has_all_its_bytes_at_once(self, logs: LogBuilder) -> None:
        segment = segment_of(logs, self.CONFIG)
        add(logs, segment, 100, "a")

        assert logs.disk.size_of(LOG) == 5000
        assert segment.size_bytes == len(logs.batch("a"))
        assert segment.next_offset() == 101

    def test_the_tail_goes_when_the_segment_is_finished(self, logs: LogBuilder) -> None:
        segment = segment_of(logs, self.CONFIG)
        add(logs, segment, 100, "a")

        segment.finish()

        assert logs.disk.size_of(LOG) == len(logs.batch("a"))


class TestFaults:
    def test_a_full_disk_leaves_no_part_of_the_batch(self, logs: LogBuilder) -> None:
        segment = segment_of(logs)
        add(logs, segment, 100, "a")
        before = logs.disk.read_bytes(LOG, 1 << 20)
        logs.disk.fail("pwritev", "*.log", errno.ENOSPC)

        with pytest.raises(StorageError):
            add(logs, segment, 101, "b" * 100)

        assert logs.disk.read_bytes(LOG, 1 << 20) == before
        assert segment.size_bytes == len(before)

    def test_what_cannot_even_be_cut_back_is_not_part_of_the_segment(self, logs: LogBuilder) -> None:
        segment = segment_of(logs)
        add(logs, segment, 100, "a")
        logs.disk.fail(("pwritev", "truncate"), "*.log", errno.ENOSPC)

        with pytest.raises(StorageError, match="No space left"):
            add(logs, segment, 101, "b" * 100)

        assert segment.next_offset() == 101


def test_released_files_open_again_by_themselves(logs: LogBuilder) -> None:
    segment = segment_of(logs)
    for base in range(100, 105):
        add(logs, segment, base, "a")

    segment.release()

    assert len(logs.open_segments) == 0
    add(logs, segment, 105, "b")
    assert segment.next_offset() == 106
    assert len(logs.open_segments) == 1


def test_a_renamed_segment_is_still_itself(logs: LogBuilder) -> None:
    segment = segment_of(logs)
    add(logs, segment, 100, "a")

    segment.rename(".deleted")

    assert segment.next_offset() == 101
    assert all(name.endswith(".deleted") for name in logs.disk.list_directory(DIRECTORY))


@pytest.fixture
def reserved(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What a segment of hundreds of bytes reserves, as one of megabytes would: size and position."""
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(segment_module, "RESERVED_FROM_BYTES", 500)
    monkeypatch.setattr(segment_module, "RESERVED_BYTES_MAX", 2000)
    monkeypatch.setattr(SimulatedFile, "reserve", lambda _, size, position: calls.append((size, position)))
    return calls


def test_a_small_segment_reserves_nothing(logs: LogBuilder, reserved: list[tuple[int, int]]) -> None:
    segment = segment_of(logs)

    add(logs, segment, 100, "x" * 300)

    assert reserved == []


def test_a_segment_reserves_as_much_as_it_has_up_to_a_limit(logs: LogBuilder, reserved: list[tuple[int, int]]) -> None:
    segment = segment_of(logs)

    ends = []
    for number in range(20):
        add(logs, segment, 100 + number, "x" * 400)
        ends.append(segment.size_bytes)

    assert reserved[0] == (ends[1], ends[1])
    covered = 0
    for size, position in reserved:
        assert position in ends
        assert size == min(position, 2000)
        # Only once what was reserved before is full.
        assert position > covered
        covered = position + size
    assert covered >= ends[-1]


def test_a_preallocated_segment_reserves_nothing(logs: LogBuilder, reserved: list[tuple[int, int]]) -> None:
    segment = segment_of(logs, LogConfig(preallocate=True, segment_bytes=4000))

    add(logs, segment, 100, "x" * 1000)

    assert reserved == []


def test_what_a_segment_reserved_goes_when_it_is_finished(
    logs: LogBuilder, reserved: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = segment_of(logs)
    add(logs, segment, 100, "x" * 1000)
    cut_to: list[int] = []
    monkeypatch.setattr(SimulatedFile, "truncate", lambda _, size: cut_to.append(size))

    segment.finish()

    assert reserved
    assert segment.size_bytes in cut_to
