"""An index entry without its batch is a fault, unless the log has grown while it was read."""

from __future__ import annotations

import struct

import pytest

from tidelog.simulation.disk import SimulatedDisk
from tidelog.storage.verification.index_check import OffsetIndexCheck, TimeIndexCheck
from tidelog.storage.verification.index_scan import OffsetIndexScan, TimeIndexScan
from tidelog.storage.verification.log_scan import LogScan
from tidelog.wire.records import Record, build_batch

BATCHES = [build_batch([Record(offset, 1000 + offset, None, b"")], base_offset=offset) for offset in range(3)]


def scans(index: bytes) -> tuple[OffsetIndexScan, TimeIndexScan, LogScan]:
    disk = SimulatedDisk()
    log, entries = disk.open("/log", create=True), disk.open("/index", create=True)
    log.pwritev(BATCHES, 0)
    entries.pwritev([index], 0)
    return OffsetIndexScan(entries, 0), TimeIndexScan(entries, 0), LogScan(log, base_offset=0)


@pytest.mark.parametrize("has_grown", [True, False])
def test_an_offset_beyond_the_log(has_grown: bool) -> None:
    size = sum(map(len, BATCHES))
    offsets, _, log = scans(struct.pack(">iiii", 1, len(BATCHES[0]), 3, size))
    check = OffsetIndexCheck(offsets)
    for batch in log:
        check.add(batch)

    check.finish(log, has_grown=has_grown)

    assert (check.fault is None) == has_grown
    if check.fault is not None:
        assert check.fault.position == 8


@pytest.mark.parametrize("has_grown", [True, False])
def test_a_time_beyond_the_log(has_grown: bool) -> None:
    _, times, log = scans(struct.pack(">qiqi", 1001, 1, 1003, 3))
    check = TimeIndexCheck(times)
    for batch in log:
        check.add(batch)

    check.finish(log, has_grown=has_grown)

    assert (check.fault is None) == has_grown
    if check.fault is not None:
        assert check.fault.position == 12


def test_a_time_that_no_batch_holds() -> None:
    disk = SimulatedDisk()
    log, entries = disk.open("/log", create=True), disk.open("/index", create=True)
    log.pwritev([BATCHES[0], BATCHES[2]], 0)
    entries.pwritev([struct.pack(">qi", 1000, 1)], 0)
    check = TimeIndexCheck(TimeIndexScan(entries, 0))

    for batch in LogScan(log, base_offset=0):
        check.add(batch)

    assert check.fault == (0, "the entry for time 1000 says offset 1, which no batch holds")
