"""The `.index` of a segment."""

from __future__ import annotations

import errno
import struct
from random import Random

import pytest

from tests.unit.storage.disks import Place, simulated_place
from tidelog.model.ids import Offset
from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.errors import StorageError
from tidelog.storage.mapped_index import RESERVE_BYTES
from tidelog.storage.offset_index import OffsetIndex, OffsetPosition

NAME = "00000000000000000100.index"
BASE = Offset(100)


def active_index(place: Place, *, bytes_max: int = 1024) -> OffsetIndex:
    return OffsetIndex(place.files, place.path(NAME), BASE, bytes_max=bytes_max, active=True)


def inactive_index(place: Place) -> OffsetIndex:
    return OffsetIndex(place.files, place.path(NAME), BASE)


def filled(place: Place, entries: list[tuple[int, int]]) -> OffsetIndex:
    index = active_index(place)
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_lookup_finds_the_last_entry_at_or_below(place: Place) -> None:
    index = filled(place, [(110, 4096), (120, 8200), (130, 12400)])

    assert index.lookup(99) == (100, 0)
    assert index.lookup(109) == (100, 0)
    assert index.lookup(110) == (110, 4096)
    assert index.lookup(119) == (110, 4096)
    assert index.lookup(120) == (120, 8200)
    assert index.lookup(130) == (130, 12400)
    assert index.lookup(10**12) == (130, 12400)
    assert (index.last_offset, index.last_position) == (130, 12400)
    index.release()


def test_an_empty_index_points_at_the_start_of_the_segment(place: Place) -> None:
    index = active_index(place)

    assert index.lookup(500) == OffsetPosition(BASE, 0)
    assert (index.entries, index.last_offset, index.last_position) == (0, 100, 0)
    assert list(index.each_entry()) == []
    assert index.upper_bound(0) is None
    assert not index.is_mapped


def test_the_upper_bound_of_a_position_is_the_next_entry(place: Place) -> None:
    index = filled(place, [(110, 4096), (120, 8200)])

    assert index.upper_bound(0) == (110, 4096)
    assert index.upper_bound(4096) == (110, 4096)
    assert index.upper_bound(4097) == (120, 8200)
    assert index.upper_bound(8200) == (120, 8200)
    assert index.upper_bound(8201) is None
    index.release()


def test_the_bytes_are_kafkas(place: Place) -> None:
    index = filled(place, [(110, 4096), (120, 8200)])
    index.close()

    assert place.read(NAME) == struct.pack(">iiii", 10, 4096, 20, 8200)


def test_the_file_is_preallocated_while_it_grows_and_trimmed_when_it_does_not(place: Place) -> None:
    index = active_index(place, bytes_max=1027)
    assert place.files.size_of(place.path(NAME)) == 0

    index.append(110, 4096)
    assert place.files.size_of(place.path(NAME)) == 1024

    index.trim_to_valid()
    assert place.files.size_of(place.path(NAME)) == 8
    assert index.lookup(115) == (110, 4096)

    index.append(120, 8200)
    index.resize(512)
    assert place.files.size_of(place.path(NAME)) == 512
    index.resize(3)
    assert place.files.size_of(place.path(NAME)) == 16
    index.release()


def test_it_is_full_after_the_last_entry_that_fits(place: Place) -> None:
    index = active_index(place, bytes_max=20)
    fullness = []
    for slot in range(2):
        index.append(101 + slot, slot)
        fullness.append(index.is_full)

    assert fullness == [False, True]
    assert index.entries_max == 2
    with pytest.raises(ValueError, match="is full: it has 2 entries"):
        index.append(103, 3)
    index.release()


def test_a_file_longer_than_the_limit_keeps_its_entries_and_is_full(place: Place) -> None:
    filled(place, [(110, 1), (120, 2), (130, 3)]).close()

    index = active_index(place, bytes_max=16)

    assert index.is_full
    assert index.lookup(125) == (120, 2)
    with pytest.raises(ValueError, match="is full"):
        index.append(140, 4)
    index.release()


def test_offsets_rise_and_stay_within_reach_of_the_base(place: Place) -> None:
    index = filled(place, [(110, 4096)])

    for offset in (110, 109, 99, 100 + 2**31):
        with pytest.raises(ValueError, match=f"cannot take offset {offset} after 110"):
            index.append(offset, 5000)
    assert not index.can_append_offset(100 + 2**31)
    assert not index.can_append_offset(99)
    assert index.can_append_offset(99 + 2**31)
    index.append(99 + 2**31, 5000)
    assert index.last_offset == 99 + 2**31
    index.release()


def test_an_inactive_index_is_not_touched_until_it_is_asked() -> None:
    place = simulated_place()
    filled(place, [(110, 4096), (120, 8200)]).close()
    disk = place.files
    assert isinstance(disk, SimulatedDisk)
    disk.fail(["open", "size_of", "exists", "map"], "*", errno.EIO)

    index = inactive_index(place)
    index.close()

    with pytest.raises(StorageError):
        assert index.entries
    disk.heal()
    mapped = [(index.entries, index.is_mapped)]
    mapped.append((index.lookup(200).position, index.is_mapped))
    mapped.append((index.lookup(111).position, index.is_mapped))
    index.close()
    assert [*mapped, (0, index.is_mapped)] == [(2, False), (8200, False), (4096, True), (0, False)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 127, 128])
def test_the_tail_of_zeros_that_a_killed_process_leaves_is_not_data(place: Place, count: int) -> None:
    entries = [(101 + slot, 4096 * (slot + 1)) for slot in range(count)]
    index = filled(place, entries)
    index.release()
    assert place.files.size_of(place.path(NAME)) == (1024 if count else 0)

    again = inactive_index(place)

    assert again.entries == count
    assert list(again.each_entry()) == entries
    assert again.sanity_check() is None
    again.close()
    assert place.files.size_of(place.path(NAME)) == 8 * count


def test_a_file_of_zeros_only_has_no_entries(place: Place) -> None:
    place.write(NAME, bytes(10 * 1024))

    index = active_index(place, bytes_max=10 * 1024)

    assert index.entries == 0
    index.append(110, 4096)
    index.close()
    assert place.read(NAME) == struct.pack(">ii", 10, 4096)


@pytest.mark.parametrize(
    ("offset", "kept"), [(100, 0), (110, 0), (111, 1), (120, 1), (121, 2), (130, 2), (131, 3), (999, 3)]
)
@pytest.mark.parametrize("state", ["growing", "trimmed", "killed"])
def test_truncation_removes_what_is_at_or_above(place: Place, offset: int, kept: int, state: str) -> None:
    entries = [(110, 4096), (120, 8200), (130, 12400)]
    index = filled(place, entries)
    if state == "trimmed":
        index.close()
    if state == "killed":
        index.release()
        index = inactive_index(place)

    index.truncate_to(offset)

    assert list(index.each_entry()) == entries[:kept]
    assert index.last_offset == (entries[kept - 1][0] if kept else 100)
    index.release()
    assert list(inactive_index(place).each_entry()) == entries[:kept]


def test_after_truncation_it_grows_again_from_there(place: Place) -> None:
    index = filled(place, [(110, 4096), (120, 8200), (130, 12400)])
    index.truncate_to(120)
    index.append(115, 5000)
    index.truncate_all()
    index.append(105, 700)
    index.close()

    assert place.read(NAME) == struct.pack(">ii", 5, 700)


def test_an_index_may_be_read_only_from_a_place_that_is(place: Place) -> None:
    filled(place, [(110, 4096), (120, 8200)]).release()

    index = OffsetIndex(place.files, place.path(NAME), BASE, bytes_max=1024, writable=False)

    assert index.entries == 2
    assert index.lookup(112) == (110, 4096)
    with pytest.raises(ValueError, match="for reading only"):
        index.append(130, 1)
    index.close()
    assert place.files.size_of(place.path(NAME)) == 1024


def test_entries_are_reached_by_slot(place: Place) -> None:
    index = filled(place, [(110, 4096), (120, 8200)])

    assert index.entry(1) == (120, 8200)
    for slot in (-1, 2):
        with pytest.raises(IndexError, match="has 2 entries"):
            index.entry(slot)
    index.release()


def test_damage_is_named(place: Place) -> None:
    assert inactive_index(place).sanity_check() == f"{place.path(NAME)} is missing"
    place.write(NAME, b"x" * 12)
    assert inactive_index(place).sanity_check() == f"{place.path(NAME)} is 12 bytes long, which is no multiple of 8"
    place.write(NAME, struct.pack(">ii", -5, 10))
    assert "neither part can be negative" in (inactive_index(place).sanity_check() or "")


def test_a_damaged_tail_does_not_survive_growth(place: Place) -> None:
    place.write(NAME, struct.pack(">ii", 10, 4096) + b"xyz")
    index = active_index(place)

    index.append(120, 8200)
    index.release()

    assert place.read(NAME)[8:] == struct.pack(">ii", 20, 8200) + bytes(1024 - 16)


def test_a_damaged_tail_does_not_become_data_when_growth_fails() -> None:
    place = simulated_place()
    disk = place.files
    assert isinstance(disk, SimulatedDisk)
    place.write(NAME, struct.pack(">ii", 10, 4096) + b"xyz")
    index = active_index(place)
    disk.fail("allocate", "*", errno.ENOSPC, times=1)

    with pytest.raises(StorageError, match="cannot allocate"):
        index.append(120, 8200)
    index.release()

    assert list(inactive_index(place).each_entry()) == [(110, 4096)]


def test_it_follows_its_file(place: Place) -> None:
    index = filled(place, [(110, 4096)])
    index.rename_to(place.path(NAME + ".deleted"))

    assert place.files.list_directory(place.directory) == [NAME + ".deleted"]
    index.append(120, 8200)
    index.sync()
    index.close()
    place.files.make_directory(place.path("moved"))
    place.files.rename(place.path(NAME + ".deleted"), place.path("moved/i"))
    index.relocate(place.path("moved/i"))
    assert index.lookup(110) == (110, 4096)
    assert index.remove()
    assert not index.remove()
    index.rename_to(place.path("elsewhere"))
    assert index.path == place.path("elsewhere")


def test_space_is_reserved_ahead_so_that_a_full_disk_is_an_error_and_not_the_end() -> None:
    place = simulated_place()
    disk = place.files
    assert isinstance(disk, SimulatedDisk)
    index = active_index(place, bytes_max=4 * RESERVE_BYTES)
    index.append(101, 1)
    disk.fail("allocate", "*.index", errno.ENOSPC)

    for slot in range(1, RESERVE_BYTES // 8):
        index.append(101 + slot, 1 + slot)
    with pytest.raises(StorageError, match="cannot allocate") as raised:
        index.append(10**6, 10**6)

    assert raised.value.is_disk_full
    assert index.entries == RESERVE_BYTES // 8
    disk.heal()
    index.append(10**6, 10**6)
    assert index.lookup(10**7) == (10**6, 10**6)


def test_the_end_of_the_entries_is_found_without_looking_at_holes_through_a_mapping() -> None:
    place = simulated_place()
    disk = place.files
    assert isinstance(disk, SimulatedDisk)
    index = active_index(place, bytes_max=4 * RESERVE_BYTES)
    for slot in range(1000):
        index.append(101 + slot, 1 + slot)
    disk.kill()
    # A tmpfs finds a page for a hole that is looked at, and has none to give when it is full.
    disk.fail("map", "*", errno.EIO)

    again = active_index(place, bytes_max=4 * RESERVE_BYTES)

    assert (again.entries, again.last_offset, again.last_position) == (1000, 1100, 1000)


def test_what_was_synced_survives_the_loss_of_power() -> None:
    place = simulated_place()
    disk = place.files
    assert isinstance(disk, SimulatedDisk)
    for seed in range(20):
        index = active_index(place)
        index.truncate_all()
        index.append(110, 4096)
        index.sync()
        disk.sync_directory(place.directory)
        index.append(120, 8200)

        disk.crash(Random(seed))

        again = inactive_index(place)
        assert again.entry(0) == (110, 4096)
        again.release()
