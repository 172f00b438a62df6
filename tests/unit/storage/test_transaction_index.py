"""The `.txnindex` of a segment."""

from __future__ import annotations

import struct

import pytest

from tests.unit.storage.disks import Place
from tidelog.model.ids import Offset, ProducerId
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.transaction_index import CHUNK_BYTES, ENTRY_BYTES, AbortedTransaction, TransactionIndex

NAME = "00000000000000000100.txnindex"


def aborted(producer_id: int, first: int, last: int, stable: int) -> AbortedTransaction:
    return AbortedTransaction(ProducerId(producer_id), Offset(first), Offset(last), Offset(stable))


FIRST = aborted(1, 100, 110, 105)
SECOND = aborted(2, 105, 120, 121)
THIRD = aborted(3, 121, 130, 131)


def index_in(place: Place) -> TransactionIndex:
    return TransactionIndex(place.files, place.path(NAME), 100)


def filled(place: Place) -> TransactionIndex:
    index = index_in(place)
    for transaction in (FIRST, SECOND, THIRD):
        index.append(transaction)
    return index


def test_the_file_comes_with_the_first_entry(place: Place) -> None:
    index = index_in(place)
    assert index.is_empty
    assert index.last_offset is None
    assert index.all_entries() == []
    assert index.sanity_check() is None
    index.sync()
    index.truncate_to(0)
    index.truncate_all()
    assert place.files.list_directory(place.directory) == []

    index.append(FIRST)

    assert place.read(NAME) == struct.pack(">hqqqq", 0, 1, 100, 110, 105)
    index.close()


def test_entries_are_there_after_a_reopen(place: Place) -> None:
    filled(place).close()

    index = index_in(place)

    assert index.all_entries() == [FIRST, SECOND, THIRD]
    assert index.entries == 3
    assert index.last_offset == 130
    assert index.sanity_check() is None
    index.sync()
    index.close()


def test_markers_rise(place: Place) -> None:
    filled(place).close()
    index = index_in(place)

    with pytest.raises(ValueError, match="cannot take a marker at 130 after one at 130"):
        index.append(aborted(9, 0, 130, 131))
    index.close()


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound", "found", "is_complete"),
    [
        (100, 101, [FIRST], True),
        (100, 106, [FIRST, SECOND], True),
        (111, 120, [SECOND], True),
        (121, 122, [THIRD], True),
        (121, 131, [THIRD], True),
        (121, 132, [THIRD], False),
        (121, 140, [THIRD], False),
        (0, 1000, [FIRST, SECOND, THIRD], False),
        (131, 140, [], False),
    ],
)
def test_a_range_gets_its_transactions(
    place: Place, fetch_offset: int, upper_bound: int, found: list[AbortedTransaction], is_complete: bool
) -> None:
    index = filled(place)

    assert index.collect(fetch_offset, upper_bound) == (found, is_complete)
    index.close()


@pytest.mark.parametrize(("offset", "kept"), [(0, 0), (110, 0), (111, 1), (120, 1), (121, 2), (130, 2), (131, 3)])
def test_truncation_goes_by_markers(place: Place, offset: int, kept: int) -> None:
    index = filled(place)

    index.truncate_to(offset)

    assert index.all_entries() == [FIRST, SECOND, THIRD][:kept]
    index.append(aborted(4, 1, 200, 201))
    index.close()
    assert index_in(place).entries == kept + 1
    index.truncate_all()
    assert index.is_empty
    index.close()


def test_more_entries_than_are_read_at_once(place: Place) -> None:
    index = index_in(place)
    transactions = [aborted(slot, slot, slot + 1, slot) for slot in range(CHUNK_BYTES // ENTRY_BYTES + 7)]
    for transaction in transactions:
        index.append(transaction)

    assert index.all_entries() == transactions
    assert index.collect(1029, 1031).transactions == transactions[1028:]
    index.close()


def test_a_torn_entry_is_overwritten(place: Place) -> None:
    place.write(NAME, struct.pack(">hqqqq", 0, *FIRST) + b"torn")
    index = index_in(place)
    assert "no multiple of 34" in (index.sanity_check() or "")

    index.append(SECOND)

    assert index.all_entries() == [FIRST, SECOND]
    assert index.sanity_check() is None
    index.close()


def test_damage_is_named(place: Place) -> None:
    place.write(NAME, struct.pack(">hqqqq", 1, *FIRST))
    index = index_in(place)
    with pytest.raises(DamagedFileError, match="an entry has version 1"):
        index.all_entries()
    assert "an entry has version 1" in (index.sanity_check() or "")
    index.close()

    place.write(NAME, struct.pack(">hqqqq", 0, 1, 50, 99, 99))
    assert "behind a marker at 99" in (index.sanity_check() or "")
    index.close()


def test_it_follows_its_file(place: Place) -> None:
    index = index_in(place)
    index.rename_to(place.path("a"))
    index.append(FIRST)
    index.rename_to(place.path("b"))
    index.append(SECOND)
    index.close()

    assert place.files.list_directory(place.directory) == ["b"]
    place.files.rename(place.path("b"), place.path("c"))
    index.relocate(place.path("c"))
    assert index.all_entries() == [FIRST, SECOND]
    assert index.remove()
    assert not index.remove()


def test_every_range_of_a_longer_index_gets_its_transactions(place: Place) -> None:
    index = index_in(place)
    transactions = [aborted(slot, 100 + 3 * slot, 105 + 3 * slot, 103 + 3 * slot) for slot in range(50)]
    for transaction in transactions:
        index.append(transaction)

    for fetch_offset in range(95, 270):
        for upper_bound in (fetch_offset + 1, fetch_offset + 10):
            wanted = [
                each for each in transactions if each.last_offset >= fetch_offset and each.first_offset < upper_bound
            ]
            assert index.collect(fetch_offset, upper_bound).transactions == wanted
