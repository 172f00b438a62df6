"""What a partition remembers of its producers, on disk: the file, and which of them are kept."""

from __future__ import annotations

import struct
from random import Random

import pytest

from tests.unit.storage.disks import Place, simulated_place
from tests.unit.storage.producers import EXPIRATION_MS, ProducerLog, batch
from tidelog.model.ids import Offset, ProducerId
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.producer import Duplicate, ProducerState
from tidelog.storage.producer_snapshot import (
    ProducerSnapshotEntry,
    decode_snapshot,
    encode_snapshot,
    offset_of_snapshot,
    read_snapshot,
    snapshot_name,
)
from tidelog.wire.crc32c import crc32c

ENTRY = ProducerSnapshotEntry(4711, 3, 99, 1183, 4, 1_700_000_000_000, 7, -1)


def log_in(place: Place) -> ProducerLog:
    return ProducerLog(place.files, place.directory)


def state_of(log: ProducerLog) -> dict[int, tuple[object, ...]]:
    return {
        state.producer_id: (*state.to_snapshot(), [known.last_offset for known in state.batches])
        for state in log.table.each_producer()
    }


def test_the_bytes_are_kafkas() -> None:
    content = encode_snapshot([ENTRY])

    body = struct.pack(">iqhiqiqiq", 1, 4711, 3, 99, 1183, 4, 1_700_000_000_000, 7, -1)
    assert content == struct.pack(">hI", 1, crc32c(body)) + body
    assert decode_snapshot("s", content) == [ENTRY]
    assert decode_snapshot("s", encode_snapshot([])) == []


def test_names_carry_the_offset() -> None:
    assert snapshot_name(1184) == "00000000000000001184.snapshot"
    assert offset_of_snapshot("00000000000000001184.snapshot") == 1184
    for name in ("1184.snapshot", "00000000000000001184.snapshot.deleted", "00000000000000001184.log"):
        assert offset_of_snapshot(name) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "ends after 0 bytes"),
        (encode_snapshot([])[:-1], "ends after 9 bytes"),
        (b"\0\2" + encode_snapshot([ENTRY])[2:], "it has version 2"),
        (encode_snapshot([ENTRY])[:-1], "announces 1 producers, but is 55 bytes long"),
        (encode_snapshot([ENTRY]) + b"x", "announces 1 producers, but is 57 bytes long"),
        (struct.pack(">hIi", 1, 0, -1), "announces -1 producers"),
        (struct.pack(">hIi", 1, 0, 2**31 - 1), "announces 2147483647 producers"),
        (encode_snapshot([ENTRY])[:-1] + b"x", "its checksum is wrong"),
    ],
)
def test_a_changed_or_shortened_file_is_found_out(content: bytes, reason: str) -> None:
    with pytest.raises(DamagedFileError) as raised:
        decode_snapshot("/logs/s", content)

    assert reason in str(raised.value)


def test_every_flipped_bit_is_found_out() -> None:
    content = encode_snapshot([ENTRY])
    for position in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(DamagedFileError):
            decode_snapshot("s", bytes(flipped))


def test_a_state_comes_back_with_its_last_batch_and_open_transaction(place: Place) -> None:
    log = log_in(place)
    log.append(batch(1, sequence=0, count=5, timestamp=10))
    log.append(batch(1, sequence=5, count=2, timestamp=20))
    log.append(batch(2, epoch=4, sequence=8, timestamp=30, transactional=True))
    log.end_transaction(3, commit=True, epoch=6, coordinator_epoch=9, timestamp=40)
    path = log.table.take_snapshot()

    again = log_in(place)
    again.table.truncate_and_reload(0, log.end_offset, now_ms=50)

    assert path == place.path(snapshot_name(9))
    assert read_snapshot(place.files, path) == [
        (1, 0, 6, 6, 1, 20, -1, -1),
        (2, 4, 8, 7, 0, 30, -1, 7),
        (3, 6, -1, -1, 0, 40, 9, -1),
    ]
    assert again.table.map_end_offset == 9
    assert again.table.first_unstable_offset == 7
    again.end_offset = 9
    assert again.append(batch(1, sequence=5, count=2)) == Duplicate(Offset(5), Offset(6), 20)
    assert isinstance(again.append(batch(2, epoch=4, sequence=9, transactional=True)), ProducerState)
    assert isinstance(again.end_transaction(2, commit=True, epoch=4), ProducerState)
    assert isinstance(again.append(batch(3, epoch=6, sequence=0)), ProducerState)


def test_open_transactions_come_back_in_the_order_of_their_offsets(place: Place) -> None:
    log = log_in(place)
    for producer_id in (7, 3, 5):
        log.append(batch(producer_id, transactional=True))
    # A dictionary keeps the order of first sight: the one that began last comes first in the file.
    log.end_transaction(7, commit=True)
    log.append(batch(7, sequence=1, transactional=True))
    log.table.take_snapshot()

    again = log_in(place)
    again.table.truncate_and_reload(0, log.end_offset, now_ms=0)

    assert again.table.first_unstable_offset == 1
    again.end_offset = 5
    again.end_transaction(3, commit=False)
    assert again.aborted == [(3, 1, 5, 2)]


def test_expired_producers_are_not_loaded(place: Place) -> None:
    log = log_in(place)
    log.append(batch(1, timestamp=10))
    log.append(batch(2, timestamp=10, transactional=True))
    log.table.take_snapshot()

    again = log_in(place)
    again.table.truncate_and_reload(0, 2, now_ms=10 + EXPIRATION_MS)

    assert [state.producer_id for state in again.table.each_producer()] == [2]


def test_a_snapshot_is_taken_only_of_something_new(place: Place) -> None:
    log = log_in(place)
    assert log.table.take_snapshot() is None
    log.append(batch())

    assert log.table.take_snapshot(sync=False) == place.path(snapshot_name(1))
    assert log.table.take_snapshot() is None
    assert (log.table.snapshots.oldest, log.table.snapshots.latest) == (1, 1)


def test_a_snapshot_overwrites_a_longer_one_of_the_same_offset(place: Place) -> None:
    place.write(snapshot_name(1), b"x" * 1000)
    log = log_in(place)
    log.append(batch())

    log.table.take_snapshot()

    assert len(read_snapshot(place.files, place.path(snapshot_name(1)))) == 1
    assert log.table.snapshots.offsets == (1,)


def test_a_damaged_snapshot_gives_way_to_the_one_before(place: Place) -> None:
    log = log_in(place)
    log.append(batch(sequence=0))
    log.table.take_snapshot()
    log.append(batch(sequence=1))
    log.table.take_snapshot()
    place.write(snapshot_name(2), encode_snapshot([ENTRY])[:-1])

    again = log_in(place)
    again.table.truncate_and_reload(0, 2, now_ms=0)

    assert again.table.map_end_offset == 1
    assert again.table.snapshots.offsets == (1,)
    assert place.files.list_directory(place.directory) == [snapshot_name(1)]


def test_without_a_snapshot_the_state_begins_at_the_start_of_the_log(place: Place) -> None:
    log = log_in(place)

    log.table.truncate_and_reload(5, 20, now_ms=0)

    assert log.table.map_end_offset == 5
    assert log.table.is_empty
    assert log.table.take_snapshot() is None


def test_truncation_goes_back_to_the_last_snapshot_within_the_log(place: Place) -> None:
    log = log_in(place)
    for number in range(4):
        log.append(batch(sequence=number))
        log.table.take_snapshot()
    before = state_of(log)

    log.table.truncate_and_reload(1, 3, now_ms=0)

    assert log.table.snapshots.offsets == (2, 3)
    assert log.table.map_end_offset == 3
    assert state_of(log) != before
    state = log.table.producer(1)
    assert state is not None
    assert state.last_sequence == 2


def test_truncation_to_where_the_state_ends_keeps_it(place: Place) -> None:
    log = log_in(place)
    for number in range(3):
        log.append(batch(sequence=number))
    before = state_of(log)

    log.table.truncate_and_reload(0, 3, now_ms=0)

    assert state_of(log) == before
    assert before[1][-1] == [0, 1, 2]


def test_to_start_anew_is_to_forget_everything(place: Place) -> None:
    log = log_in(place)
    log.append(batch(transactional=True))
    log.table.take_snapshot()

    log.table.truncate_fully_and_start_at(100)

    assert log.table.is_empty
    assert log.table.first_unstable_offset is None
    assert log.table.map_end_offset == 100
    assert place.files.list_directory(place.directory) == []
    assert log.table.take_snapshot() == place.path(snapshot_name(100))


@pytest.mark.parametrize(
    ("snapshots", "segments", "kept"),
    [
        ([0, 5, 10], [0, 5, 10], [0, 5, 10]),
        ([0, 3, 5, 7, 10], [0, 5, 10], [0, 5, 10]),
        ([5, 12], [0, 5, 10], [5, 12]),
        ([5, 11, 12], [0, 5, 10], [5, 12]),
        ([3], [0, 5], []),
        ([3, 4], [], [4]),
        ([], [0], []),
    ],
)
def test_strays_go_except_what_a_clean_stop_left_at_the_end(
    place: Place, snapshots: list[int], segments: list[int], kept: list[int]
) -> None:
    for offset in snapshots:
        place.write(snapshot_name(offset), encode_snapshot([]))
    log = log_in(place)

    log.table.snapshots.remove_stray(segments)

    assert list(log.table.snapshots.offsets) == kept
    assert place.files.list_directory(place.directory) == [snapshot_name(offset) for offset in kept]


def test_snapshots_go_with_their_segments(place: Place) -> None:
    for offset in (1, 2, 3, 4):
        place.write(snapshot_name(offset), encode_snapshot([]))
    log = log_in(place)

    log.table.snapshots.delete_before(3)
    marked = log.table.snapshots.mark_for_deletion(3)

    assert marked == place.path(snapshot_name(3) + ".deleted")
    assert log.table.snapshots.mark_for_deletion(3) is None
    assert place.files.list_directory(place.directory) == [snapshot_name(3) + ".deleted", snapshot_name(4)]
    place.files.remove(place.path(snapshot_name(4)))
    assert log.table.snapshots.mark_for_deletion(4) is None
    assert log.table.snapshots.offsets == ()


def test_the_table_follows_its_directory(place: Place) -> None:
    log = log_in(place)
    log.append(batch())
    place.files.make_directory(place.path("t-0-delete"))
    log.table.relocate(place.path("t-0-delete"))

    log.table.take_snapshot()

    assert place.files.list_directory(place.path("t-0-delete")) == [snapshot_name(1)]
    missing = ProducerLog(place.files, place.path("nowhere"))
    assert missing.table.snapshots.offsets == ()


def test_whatever_a_crash_leaves_of_a_snapshot_the_state_is_one_that_was() -> None:
    for seed in range(50):
        place = simulated_place()
        disk = place.files
        assert isinstance(disk, SimulatedDisk)
        log = log_in(place)
        states = {0: state_of(log)}
        for number in range(3):
            log.append(batch(sequence=number, transactional=number >= 1))
            log.table.take_snapshot(sync=number == 0)
            if number == 0:
                disk.sync_directory(place.directory)
            reduced = {1: (*state_of(log)[1][:-1], [number])}
            states[log.end_offset] = reduced

        disk.crash(Random(seed))

        again = log_in(place)
        again.table.truncate_and_reload(0, 3, now_ms=0)
        assert again.table.map_end_offset >= 1
        assert state_of(again) == states[again.table.map_end_offset]


def test_a_state_that_was_never_seen_has_no_batches() -> None:
    state = ProducerState(ProducerId(5))

    assert (state.last_sequence, state.last_offset) == (-1, -1)
    assert ProducerState.from_snapshot(state.to_snapshot()).batches == []
