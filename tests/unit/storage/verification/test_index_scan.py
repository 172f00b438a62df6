"""A scan of an index names the first entry that cannot be right."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.verification.index_scan import (
    IndexScan,
    OffsetEntry,
    OffsetIndexScan,
    TimeEntry,
    TimeIndexScan,
    TransactionEntry,
    TransactionIndexScan,
)

BASE = 100


def offsets(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def times(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def transactions(*entries: tuple[int, int, int, int, int]) -> bytes:
    return b"".join(struct.pack(">hqqqq", *entry) for entry in entries)


def scanned(scan: type[IndexScan[Any]], content: bytes) -> tuple[list[Any], IndexScan[Any]]:
    file = SimulatedDisk().open("/index", create=True)
    file.pwritev([content], 0)
    finished = scan(file, BASE)
    return [entry for _, entry in finished], finished


def test_entries_are_read_with_absolute_offsets() -> None:
    assert scanned(OffsetIndexScan, offsets((3, 400), (9, 800)))[0] == [OffsetEntry(103, 400), OffsetEntry(109, 800)]
    assert scanned(TimeIndexScan, times((5000, 3), (6000, 3)))[0] == [TimeEntry(5000, 103), TimeEntry(6000, 103)]
    entry = (0, 7, 100, 104, 105)
    assert scanned(TransactionIndexScan, transactions(entry))[0] == [TransactionEntry(*entry)]


@pytest.mark.parametrize("scan", [OffsetIndexScan, TimeIndexScan, TransactionIndexScan])
def test_an_empty_index_is_whole(scan: type[IndexScan[Any]]) -> None:
    entries, finished = scanned(scan, b"")

    assert (entries, finished.damage, finished.zeros) == ([], None, 0)


@pytest.mark.parametrize(
    ("scan", "content", "entries"),
    [
        (OffsetIndexScan, offsets((3, 400)), 1),
        (OffsetIndexScan, b"", 0),
        (TimeIndexScan, times((5000, 3)), 1),
        (TimeIndexScan, b"", 0),
    ],
)
def test_a_preallocated_tail_is_counted_and_is_no_damage(
    scan: type[IndexScan[Any]], content: bytes, entries: int
) -> None:
    tail = 10_000 * scan.layout.size

    found, finished = scanned(scan, content + bytes(tail))

    assert len(found) == entries
    assert (finished.zeros, finished.damage) == (tail, None)


def test_time_zero_at_the_first_offset_is_an_entry() -> None:
    assert scanned(TimeIndexScan, times((0, 0)))[0] == [TimeEntry(0, 100)]
    assert scanned(TimeIndexScan, times((0, 0), (4, 2)))[0] == [TimeEntry(0, 100), TimeEntry(4, 102)]


@pytest.mark.parametrize(
    ("scan", "content", "position", "sentence"),
    [
        (OffsetIndexScan, offsets((3, 400), (3, 800)), 8, "offsets do not rise: 103 follows 103"),
        (OffsetIndexScan, offsets((3, 400), (4, 400)), 8, "positions do not rise: 400 follows 400"),
        (OffsetIndexScan, offsets((-1, 400)), 0, "an entry for offset 99, before the segment's first, 100"),
        (OffsetIndexScan, offsets((3, -4)), 0, "an entry for the impossible position -4"),
        (OffsetIndexScan, offsets((3, 400)) + b"abc", 8, "3 bytes are left at the end, and an entry takes 8"),
        (OffsetIndexScan, offsets((3, 400)) + bytes(83), 88, "3 bytes are left at the end, and an entry takes 8"),
        (OffsetIndexScan, offsets((3, 400), (0, 0), (4, 800)), 8, "offsets do not rise: 100 follows 103"),
        (TimeIndexScan, times((5000, 3), (5000, 4)), 12, "timestamps do not rise: 5000 follows 5000"),
        (TimeIndexScan, times((5000, 3), (5001, 2)), 12, "offsets go back: 102 follows 103"),
        (TimeIndexScan, times((5000, -2)), 0, "an entry for offset 98, before the segment's first, 100"),
        (TransactionIndexScan, transactions((1, 7, 100, 104, 105)), 0, "an entry of version 1; only 0 exists"),
        (
            TransactionIndexScan,
            transactions((0, -7, 100, 104, 105)),
            0,
            "an entry for the impossible producer id -7",
        ),
        (TransactionIndexScan, transactions((0, 7, 104, 104, 105)), 0, "a transaction from offset 104 to 104"),
        (
            TransactionIndexScan,
            transactions((0, 7, 90, 99, 100)),
            0,
            "a transaction that ended at offset 99, before the segment's first, 100",
        ),
        (
            TransactionIndexScan,
            transactions((0, 7, 100, 104, 106)),
            0,
            "a transaction up to offset 104 with the last stable offset 106",
        ),
        (
            TransactionIndexScan,
            transactions((0, 7, 100, 104, 105), (0, 8, 100, 103, 104)),
            34,
            "transactions are out of order: one ended at offset 103, the one before at 104",
        ),
        (TransactionIndexScan, bytes(34), 0, "a transaction from offset 0 to 0"),
        (TransactionIndexScan, bytes(33), 0, "33 bytes are left at the end, and an entry takes 34"),
    ],
)
def test_the_first_bad_entry_is_named(scan: type[IndexScan[Any]], content: bytes, position: int, sentence: str) -> None:
    _, finished = scanned(scan, content)

    assert finished.damage == (position, sentence)


def test_entries_in_many_windows_are_read() -> None:
    wanted = [(number, 10 * number) for number in range(1, 40_000)]

    entries, finished = scanned(OffsetIndexScan, offsets(*wanted))

    assert [(entry.offset - BASE, entry.position) for entry in entries] == wanted
    assert finished.damage is None
