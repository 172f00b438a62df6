"""The `.timeindex` of a segment."""

from __future__ import annotations

import struct

import pytest

from tests.unit.storage.disks import Place
from tidelog.model.ids import NO_TIMESTAMP, Offset
from tidelog.storage.time_index import TimeIndex, TimestampOffset

NAME = "00000000000000000100.timeindex"
BASE = Offset(100)


def active_index(place: Place, *, bytes_max: int = 1200) -> TimeIndex:
    return TimeIndex(place.files, place.path(NAME), BASE, bytes_max=bytes_max, active=True)


def filled(place: Place, entries: list[tuple[int, int]]) -> TimeIndex:
    index = active_index(place)
    for timestamp, offset in entries:
        assert index.maybe_append(timestamp, offset)
    return index


def test_lookup_finds_the_last_entry_at_or_below(place: Place) -> None:
    index = filled(place, [(1000, 110), (2000, 120), (3000, 130)])

    assert index.lookup(999) == TimestampOffset(NO_TIMESTAMP, BASE)
    assert index.lookup(1000) == (1000, 110)
    assert index.lookup(1999) == (1000, 110)
    assert index.lookup(2000) == (2000, 120)
    assert index.lookup(10**15) == (3000, 130)
    assert index.last_entry == (3000, 130)
    assert index.last_offset == 130
    index.release()


def test_an_empty_index_knows_no_time(place: Place) -> None:
    index = active_index(place)

    assert index.lookup(10**15) == (NO_TIMESTAMP, BASE)
    assert index.last_entry == (NO_TIMESTAMP, BASE)
    assert not index.maybe_append(NO_TIMESTAMP, 100)
    assert index.entries == 0


def test_the_bytes_are_kafkas(place: Place) -> None:
    filled(place, [(1_700_000_000_000, 110), (1_700_000_000_001, 120)]).close()

    assert place.read(NAME) == struct.pack(">qiqi", 1_700_000_000_000, 10, 1_700_000_000_001, 20)


def test_only_a_larger_timestamp_is_added(place: Place) -> None:
    index = filled(place, [(1000, 110)])

    assert not index.maybe_append(1000, 110)
    assert not index.maybe_append(1000, 115)
    assert index.entries == 1
    for timestamp, offset in ((999, 120), (2000, 109)):
        with pytest.raises(ValueError, match="neither part may fall"):
            index.maybe_append(timestamp, offset)
    with pytest.raises(ValueError, match="too far"):
        index.maybe_append(5000, 100 + 2**31)
    index.release()


def test_the_last_slot_is_kept_for_the_roll(place: Place) -> None:
    index = active_index(place, bytes_max=3 * 12 + 5)
    fullness = []
    for slot in range(2):
        index.maybe_append(1000 * (slot + 1), 110 + slot)
        fullness.append(index.is_full)
    assert fullness == [False, True]

    with pytest.raises(ValueError, match="the last slot is reserved"):
        index.maybe_append(3000, 130)
    assert index.maybe_append(3000, 130, skip_full_check=True)
    with pytest.raises(ValueError, match="is full"):
        index.maybe_append(4000, 140, skip_full_check=True)
    assert index.entries == 3
    index.release()


@pytest.mark.parametrize(("offset", "kept"), [(100, 0), (110, 0), (111, 1), (120, 1), (130, 2), (131, 3)])
@pytest.mark.parametrize("killed", [True, False])
def test_truncation_removes_what_is_at_or_above(place: Place, offset: int, kept: int, killed: bool) -> None:
    entries = [(1000, 110), (2000, 120), (3000, 130)]
    index = filled(place, entries)
    if killed:
        index.release()

    index.truncate_to(offset)

    assert list(index.each_entry()) == entries[:kept]
    assert index.last_entry == (entries[kept - 1] if kept else (NO_TIMESTAMP, BASE))
    index.release()
    assert list(active_index(place).each_entry()) == entries[:kept]


def test_the_tail_of_zeros_is_not_data(place: Place) -> None:
    filled(place, [(1000, 110), (2000, 120)]).release()
    assert place.files.size_of(place.path(NAME)) == 1200

    index = active_index(place)

    assert index.entries == 2
    assert index.last_entry == (2000, 120)
    index.close()
    assert place.files.size_of(place.path(NAME)) == 24


def test_time_zero_at_the_first_offset_is_data(place: Place) -> None:
    index = filled(place, [(0, 100)])
    index.close()
    assert place.read(NAME) == bytes(12)

    again = active_index(place)

    assert again.entries == 1
    assert again.last_entry == (0, 100)
    assert again.entry(0) == (0, 100)
    again.release()


def test_damage_is_named(place: Place) -> None:
    index = TimeIndex(place.files, place.path(NAME), BASE)
    assert index.sanity_check() == f"{place.path(NAME)} is missing"
    index.release()
    place.write(NAME, b"x" * 13)
    assert "no multiple of 12" in (index.sanity_check() or "")
    index.release()
    place.write(NAME, struct.pack(">qi", 5, -7))
    assert "before its first offset 100" in (index.sanity_check() or "")
    index.release()
    place.write(NAME, struct.pack(">qiqi", 5, 7, 4, 8))
    assert "begins at time 5 but ends at time 4" in (index.sanity_check() or "")
    index.release()
    place.write(NAME, struct.pack(">qiqi", 5, 7, 6, 8))
    assert index.sanity_check() is None
    with pytest.raises(IndexError, match="has 2 entries"):
        index.entry(2)
    index.release()


@pytest.mark.parametrize("is_mapped", [False, True])
def test_the_last_entry_leaves_nothing_to_trim_whether_or_not_there_is_a_mapping(
    place: Place, *, is_mapped: bool
) -> None:
    filled(place, [(5, 101), (6, 103)]).close()
    index = active_index(place)
    if is_mapped:
        index.maybe_append(7, 104)
    else:
        assert index.lookup(5) == (5, 101)

    assert index.append_last(9, 107)
    assert not index.append_last(9, 108)
    index.trim_to_valid()

    assert index.last_entry == (9, 107)
    assert index.lookup(8) == ((7, 104) if is_mapped else (6, 103))
    middle = struct.pack(">qi", 7, 4) if is_mapped else b""
    assert place.read(NAME) == struct.pack(">qiqi", 5, 1, 6, 3) + middle + struct.pack(">qi", 9, 7)
    index.release()


def test_the_last_entry_needs_a_slot_too(place: Place) -> None:
    filled(place, [(5, 101)]).close()
    index = active_index(place, bytes_max=12)
    with pytest.raises(ValueError, match="is full: it has 1 entries"):
        index.append_last(9, 107)
    index.release()
