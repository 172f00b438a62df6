"""A cleaning leaves the last record of every key, and what producers, readers and transactions still need."""

from __future__ import annotations

import pytest

from tests.support.log_builder import START_MS, LogBuilder, accepted
from tests.support.log_cleaning import (
    LIMITS,
    append_keyed,
    batches_of,
    clean,
    cleaning_of,
    cleaning_twin,
    pairs_of,
)
from tests.support.log_reader import read_rows
from tidelog.kernel_choice import Twin
from tidelog.storage.append import AppendInfo
from tidelog.storage.cleaning.cleaning import CleaningEnd, CleaningLimits, CleaningResult
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import TimestampType, check_batch, read_header

pytestmark = pytest.mark.usefixtures("cleaning_twin")

__all__ = ["cleaning_twin"]

CONFIG = LogConfig(
    cleanup_policy=("compact",), delete_retention_ms=1000, index_interval_bytes=100, segment_index_bytes=4096
)


@pytest.fixture
def log(logs: LogBuilder) -> PartitionLog:
    return logs.open(CONFIG)


def put(log: PartitionLog, *pairs: tuple[str | None, str | None], at_ms: int = START_MS, **more: object) -> AppendInfo:
    return append_keyed(log, *pairs, timestamp_ms=at_ms, **more)  # type: ignore[arg-type]


def clean_again(logs: LogBuilder, log: PartitionLog) -> CleaningResult:
    """Make the log dirty with one more key, and clean it."""
    put(log, (f"more at {log.log_end_offset}", "x"))
    log.roll()
    return clean(logs, log)


def first_batches(log: PartitionLog) -> list[int]:
    """Where the batches begin that were there before `clean_again`."""
    return [
        header.base_offset
        for header, records in batches_of(log)
        if not records or header.is_control or not (records[0].key or b"").startswith(b"more")
    ]


def test_the_last_record_of_each_key_stays_where_it_was(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", "2"), ("c", "1"), ("a", "3"))
    log.roll()
    put(log, ("a", "4"))

    result = clean(logs, log)

    assert (result.end, result.cleaned_until) == (CleaningEnd.DONE, 5)
    assert pairs_of(log) == [(1, "b", "1"), (3, "c", "1"), (4, "a", "3"), (5, "a", "4")]
    assert [header.base_offset for header, _ in batches_of(log)] == [0, 2, 5]
    assert [header.last_offset for header, _ in batches_of(log)] == [1, 4, 5]
    assert (result.stats.records_read, result.stats.records_written) == (5, 3)


def test_headers_and_times_of_records_are_kept(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"), ("b", "1"), at_ms=START_MS + 5)
    put(log, ("a", "2"), at_ms=START_MS + 7)
    log.roll()

    clean(logs, log)

    rows = [row for _, records in batches_of(log) for row in records]
    assert [(row.timestamp, row.headers) for row in rows] == [
        (START_MS + 5, (("n", b"1"),)),
        (START_MS + 7, (("n", b"0"),)),
    ]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("timestamp_type", list(TimestampType))
def test_a_batch_keeps_codec_and_type_of_timestamp(
    logs: LogBuilder, codec: Compression, timestamp_type: TimestampType
) -> None:
    log = logs.open(CONFIG.changed(message_timestamp_type=timestamp_type))
    put(log, ("a", "1"), ("b", "1"), codec=codec)
    put(log, ("a", "2"), codec=codec)
    log.roll()

    clean(logs, log)

    first, second = batches_of(log)
    assert (first.header.codec, first.header.timestamp_type) == (codec, timestamp_type)
    assert first.header.max_timestamp == START_MS
    assert [row.key for row in first.records] == [b"b"]
    assert second.header.codec is codec


def test_what_stays_as_it_is_stays_byte_for_byte(logs: LogBuilder, log: PartitionLog) -> None:
    for number in range(20):
        put(log, (f"key {number}", "x" * 50), ("tail", str(number)) if number == 19 else (f"other {number}", "y"))
    log.roll()
    before = bytes(logs.seams.files.read_bytes(f"{log.directory}/{0:020d}.log", 1 << 20))

    clean(logs, log)

    assert logs.seams.files.read_bytes(f"{log.directory}/{0:020d}.log", 1 << 20) == before


def test_the_active_segment_is_left_alone(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    log.roll()
    put(log, ("a", "2"), ("a", "3"))

    result = clean(logs, log)

    assert result.cleaned_until == 1
    assert pairs_of(log) == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]


def test_records_without_a_key_go(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, (None, "1"), ("a", "1"))
    put(log, (None, "2"), codec=Compression.GZIP)
    put(log, ("b", "1"))
    log.roll()

    result = clean(logs, log)

    assert pairs_of(log) == [(1, "a", "1"), (3, "b", "1")]
    assert result.stats.keyless_records == 2


def test_an_empty_key_is_a_key(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("", "1"), ("a", "1"))
    put(log, ("", "2"))
    log.roll()

    clean(logs, log)

    assert pairs_of(log) == [(1, "a", "1"), (2, "", "2")]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_a_tombstone_stays_until_its_horizon(logs: LogBuilder, log: PartitionLog, codec: Compression) -> None:
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", None), ("c", "1"), codec=codec)
    put(log, ("d", "1"))
    log.roll()

    clean(logs, log)
    marked = batches_of(log)[1]
    assert marked.header.delete_horizon_ms == START_MS + 1000
    assert [row.timestamp for row in marked.records] == [START_MS, START_MS]
    assert marked.header.max_timestamp == START_MS
    assert pairs_of(log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1"), (4, "d", "1")]

    logs.clock.advance(999)
    clean_again(logs, log)
    assert (2, "a", None) in pairs_of(log)

    logs.clock.advance(1)
    clean_again(logs, log)
    assert pairs_of(log)[:3] == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1")]
    assert batches_of(log)[1].header.delete_horizon_ms == START_MS + 1000


def test_a_tombstone_from_a_time_that_no_horizon_reaches_stays(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", None), ("b", "1"), at_ms=-(2**63))
    put(log, ("c", "1"))
    log.roll()

    clean(logs, log)

    assert batches_of(log)[0].header.delete_horizon_ms is None
    assert pairs_of(log) == [(0, "a", None), (1, "b", "1"), (2, "c", "1")]


def test_an_endless_delete_retention_is_no_number_out_of_range(logs: LogBuilder) -> None:
    log = logs.open(CONFIG.changed(delete_retention_ms=2**63 - 1))
    put(log, ("a", None))
    put(log, ("b", "1"))
    log.roll()

    clean(logs, log)

    assert batches_of(log)[0].header.delete_horizon_ms == 2**63 - 1
    assert pairs_of(log)[0] == (0, "a", None)


def test_the_last_batch_of_a_producer_stays_without_records(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"), producer=(7, 0, 0))
    put(log, ("a", "2"), ("b", "2"), producer=(7, 0, 1))
    put(log, ("a", "3"), ("b", "3"))
    log.roll()

    clean(logs, log)

    emptied, kept = batches_of(log)
    assert emptied.records == []
    header = emptied.header
    assert (header.base_offset, header.last_offset, header.record_count) == (1, 2, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 0, 1, 2)
    assert [row.offset for row in kept.records] == [3, 4]
    # A restart that has to read the log knows the producer as before.
    for name in logs.disk.list_directory(log.directory):
        if name.endswith(".snapshot"):
            logs.disk.remove(f"{log.directory}/{name}")
    logs.recovery_point = type(logs.recovery_point)(0)
    again = logs.reopen()
    state = again.producers.producer(7)
    assert state is not None
    assert (state.last_sequence, state.last_offset) == (2, 2)


def test_the_end_of_what_was_cleaned_is_not_lost(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, (None, "2"))
    log.roll()

    clean(logs, log)

    assert [(header.base_offset, header.record_count) for header, _ in batches_of(log)] == [(0, 1), (1, 0)]


def test_aborted_records_go_and_their_marker_follows(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "bad"), ("b", "bad"), producer=(7, 0, 0), is_transactional=True)
    logs.end_transaction(log, 7, 0, commit=False)
    put(log, ("z", "1"), producer=(7, 0, 2), is_transactional=True)
    logs.end_transaction(log, 7, 0, commit=True)
    put(log, ("y", "1"))
    log.set_high_watermark(log.log_end_offset)
    log.roll()

    clean(logs, log)
    assert pairs_of(log) == [(0, "a", "1"), (4, "z", "1"), (6, "y", "1")]
    # Somebody may be in the middle of what was aborted: the marker and its entry are still needed.
    assert [each.last_offset for each in log.aborted_transactions(0, log.log_end_offset)] == [3]
    assert [row.offset for row in read_rows(log, committed=True)] == [0, 4, 6]

    clean_again(logs, log)
    marker = next(header for header, _ in batches_of(log) if header.base_offset == 3)
    assert marker.delete_horizon_ms == START_MS + 1000
    assert marker.is_control
    assert not log.aborted_transactions(0, log.log_end_offset)

    logs.clock.advance(1000)
    clean_again(logs, log)
    assert first_batches(log) == [0, 4, 5, 6]


def test_a_commit_marker_goes_once_its_records_are_gone(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"), producer=(7, 0, 0), is_transactional=True)
    logs.end_transaction(log, 7, 0, commit=True)
    put(log, ("a", "2"), producer=(8, 0, 0))
    put(log, ("b", "1"), producer=(7, 0, 1))
    log.roll()

    clean(logs, log)
    for _ in range(2):
        assert first_batches(log) == [1, 2, 3]
        logs.clock.advance(1000)
        clean_again(logs, log)

    assert first_batches(log) == [2, 3]


def test_a_marker_stays_where_it_is_all_that_tells_a_producers_epoch(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"), producer=(7, 0, 0), is_transactional=True)
    logs.end_transaction(log, 7, 3, commit=True)
    put(log, ("a", "2"))
    log.roll()

    clean(logs, log)
    for _ in range(4):
        logs.clock.advance(1000)
        clean_again(logs, log)

    marker = batches_of(log)[0]
    assert (marker.header.is_control, marker.header.producer_epoch, marker.header.record_count) == (True, 3, 0)


def test_nothing_of_an_open_transaction_is_touched(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    log.roll()
    put(log, ("a", "2"), producer=(7, 0, 0), is_transactional=True)
    log.roll()
    put(log, ("a", "3"))
    log.roll()

    result = clean(logs, log)

    assert result.cleaned_until == 1
    assert [offset for offset, _, _ in pairs_of(log)] == [0, 1, 2]


def test_small_segments_are_merged(logs: LogBuilder, log: PartitionLog) -> None:
    for number in range(5):
        put(log, (f"k{number}", "x"), ("same", str(number)))
        log.roll()

    clean(logs, log)

    assert log.segment_base_offsets == [0, 10]
    names = logs.disk.list_directory(log.directory)
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    assert f"{2:020d}.log.deleted" in names
    logs.clock.advance(60_000)
    logs.removals.run_due()
    assert not [name for name in logs.disk.list_directory(log.directory) if name.endswith(".deleted")]


def test_segments_are_not_merged_beyond_their_size(logs: LogBuilder) -> None:
    log = logs.open(CONFIG.changed(segment_bytes=400))
    for number in range(6):
        put(log, (f"k{number}", "x" * 80))
    log.roll()
    bases = log.segment_base_offsets

    clean(logs, log)

    assert log.segment_base_offsets == bases


def test_a_full_map_takes_several_rounds(logs: LogBuilder, log: PartitionLog) -> None:
    for number in range(40):
        put(log, (f"k{number}", "1"), (f"k{number}", "2"))
    log.roll()
    tiny = CleaningLimits(map_bytes=1, map_load_factor=0.5, window_bytes=100)

    ends: list[int] = []
    while not ends or ends[-1] < 80:
        ends.append(int(clean(logs, log, tiny).cleaned_until))

    # A full map ends with the next record that has a key, whichever it is.
    assert len(ends) == 6
    assert ends == sorted(set(ends))
    assert pairs_of(log) == [(2 * number + 1, f"k{number}", "2") for number in range(40)]


def test_a_batch_that_is_larger_than_the_window(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "x" * 5000), ("b", "y" * 5000))
    put(log, ("a", "z"), *((str(number), None) for number in range(50)))
    log.roll()

    clean(logs, log, CleaningLimits(1 << 20, 0.9, 64))

    assert pairs_of(log)[:2] == [(1, "b", "y" * 5000), (2, "a", "z")]
    assert len(pairs_of(log)) == 52


def test_a_damaged_batch_ends_it_and_nothing_is_lost(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll()
    path = f"{log.directory}/{0:020d}.log"
    file = logs.disk.open(path)
    file.pwritev([b"?"], file.size() - 6)

    result = clean(logs, log)

    assert result.end is CleaningEnd.FAILED
    assert "checksum" in result.reason
    assert log.fault is None
    assert not [name for name in logs.disk.list_directory(log.directory) if name.endswith(".cleaned")]
    assert logs.cleaner_offset == 0


def test_damage_in_the_clean_part_is_not_given_a_right_checksum(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"), ("b", "1"))
    log.roll()
    clean(logs, log)
    put(log, ("a", "2"))
    log.roll()
    path = f"{log.directory}/{0:020d}.log"
    file = logs.disk.open(path)
    file.pwritev([b"?"], file.size() - 3)

    result = clean(logs, log)

    assert result.end is CleaningEnd.FAILED
    content = logs.disk.read_bytes(path, 1 << 20)
    with pytest.raises(Exception, match="checksum"):
        check_batch(content, read_header(content))


def test_a_disk_that_fails_takes_the_directory_offline(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll()
    logs.disk.fail("pwritev", "*.cleaned", 5)

    result = clean(logs, log)

    assert result.end is CleaningEnd.OFFLINE
    assert log.fault is not None
    assert len(logs.faults) == 1


def test_a_full_disk_is_no_reason_to_go_offline(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll()
    logs.disk.fail("pwritev", "*.cleaned", 28)

    result = clean(logs, log)

    assert result.end is CleaningEnd.ABANDONED
    assert log.fault is None
    assert not [name for name in logs.disk.list_directory(log.directory) if name.endswith(".cleaned")]
    assert [offset for offset, _, _ in pairs_of(log)] == [0, 1]


def test_a_read_in_progress_is_not_broken(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll()
    fetched = log.read(0, 1 << 20, upper_bound=FetchIsolation.LOG_END)
    assert isinstance(fetched, Fetched)

    clean(logs, log)
    logs.clock.advance(60_000)
    logs.removals.run_due()

    assert len(fetched.regions[0].read()) == fetched.regions[0].count
    assert [offset for offset, _, _ in pairs_of(log)] == [1]


def test_indexes_of_the_new_segment_find_everything(logs: LogBuilder, log: PartitionLog) -> None:
    for number in range(60):
        put(log, (f"k{number % 7}", "x" * 40), (f"unique {number}", "y"), at_ms=START_MS + number)
    log.roll()

    clean(logs, log)

    segment = log.segments.first
    assert segment.offset_index.entries > 5
    assert segment.index_damage() is None
    for number in range(60):
        found = log.offset_for_timestamp(START_MS + number)
        assert found is not None
        assert found.timestamp == START_MS + number  # type: ignore[union-attr]
        fetched = log.read(2 * number + 1, 1, upper_bound=FetchIsolation.LOG_END)
        assert isinstance(fetched, Fetched)
        header = read_header(fetched.regions[0].read())
        assert header.base_offset <= 2 * number + 1 <= header.last_offset


def test_the_age_of_a_segment_without_times_is_kept(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"), at_ms=-1)
    put(log, ("a", "2"), at_ms=-1)
    log.roll()
    logs.clock.advance(5000)

    clean(logs, log)

    assert log.segments.first.largest_timestamp() == START_MS


def test_the_log_that_goes_away_is_left_alone(logs: LogBuilder, log: PartitionLog) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    log.roll()
    results: list[CleaningResult] = []
    cleaning = cleaning_of(logs, log, results.append, LIMITS)
    log.begin_cleaning(cleaning.abandon)
    log.release()

    cleaning.start()

    assert [result.end for result in results] == [CleaningEnd.ABANDONED]
    assert not log.is_being_cleaned
    assert [offset for offset, _, _ in pairs_of(log)] == [0, 1]


def test_appends_go_on_behind_a_cleaned_log(logs: LogBuilder, log: PartitionLog, cleaning_twin: Twin) -> None:
    assert cleaning_twin
    put(log, ("a", "1"), producer=(7, 0, 0))
    put(log, ("a", "2"), producer=(7, 0, 1))
    log.roll()

    clean(logs, log)

    assert put(log, ("a", "3"), producer=(7, 0, 2)).first_offset == 2
    again = append_keyed(log, ("a", "2"), timestamp_ms=START_MS, producer=(7, 0, 1))
    assert accepted(again).is_duplicate
    assert log.segment_base_offsets == [0, 2]
