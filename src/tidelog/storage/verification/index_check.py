"""Checks the entries of a segment's two sparse indexes beside the batches of its log.

    .index        each entry points at the first byte of a batch and names the last offset of it. Older Kafkas named the last
                  offset of everything that was appended together with that batch, which may be that of a later batch
    .timeindex    each entry names an offset of a batch, and the largest timestamp up to and including that batch

Open the indexes before the log: on a broker that runs, an entry that is there then has its batch in the log by the time the log
is read. A check stops at the first fault: one wrong entry makes the file suspect, and a person needs no list of its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.storage.verification.index_scan import OffsetEntry, OffsetIndexScan, TimeEntry, TimeIndexScan
from tidelog.storage.verification.log_scan import LogScan, ScannedBatch


class IndexFault(NamedTuple):
    """The first entry that disagrees with the log, by its position in the index."""

    position: int
    sentence: str


class OffsetIndexCheck:
    """The entries of an `.index` beside the batches of the log."""

    def __init__(self, scan: OffsetIndexScan) -> None:
        self.scan = scan
        self.fault: IndexFault | None = None
        self._entries: Iterator[tuple[int, OffsetEntry]] = iter(scan)
        self._next = next(self._entries, None)
        # The offset of an entry that is to be the last one of a batch behind the one it points at.
        self._awaited: tuple[int, OffsetEntry] | None = None
        self._last_offset = -1

    def add(self, batch: ScannedBatch) -> None:
        if self.fault is not None:
            return
        last_offset = batch.header.last_offset
        while self._next is not None and self._next[1].position <= batch.position and self.fault is None:
            at, entry = self._next
            self._next = next(self._entries, None)
            if entry.position < batch.position:
                self.fault = IndexFault(
                    at,
                    f"the entry for offset {entry.offset} points at byte {entry.position}, where no batch begins",
                )
            elif entry.offset > last_offset:
                self._awaited = at, entry
            elif entry.offset < last_offset:
                self.fault = IndexFault(
                    at,
                    f"the entry for byte {entry.position} says offset {entry.offset}; the batch there ends with {last_offset}",
                )
        if self._awaited is not None and last_offset >= self._awaited[1].offset:
            at, entry = self._awaited
            if last_offset != entry.offset:
                self.fault = IndexFault(
                    at,
                    f"the entry for byte {entry.position} says offset {entry.offset}, which ends no batch",
                )
            self._awaited = None
        self._last_offset = last_offset

    def finish(self, log_scan: LogScan, *, has_grown: bool) -> None:
        """All batches were seen. An entry that is left names none, unless the log has grown since."""
        left = self._awaited or self._next
        if left is not None and self.fault is None and log_scan.damage is None and not has_grown:
            at, entry = left
            self.fault = IndexFault(
                at,
                f"the entry for offset {entry.offset} points at byte {entry.position}, "
                f"and the log ends at byte {log_scan.position} with offset {self._last_offset}",
            )


class TimeIndexCheck:
    """The entries of a `.timeindex` beside the batches of the log."""

    def __init__(self, scan: TimeIndexScan) -> None:
        self.scan = scan
        self.fault: IndexFault | None = None
        self.largest_entry = -1
        self._entries: Iterator[tuple[int, TimeEntry]] = iter(scan)
        self._next = next(self._entries, None)
        self._largest = -1

    def add(self, batch: ScannedBatch) -> None:
        header = batch.header
        self._largest = max(self._largest, header.max_timestamp)
        while self._next is not None and self._next[1].offset <= header.last_offset and self.fault is None:
            at, entry = self._next
            self._next = next(self._entries, None)
            self.largest_entry = entry.timestamp
            if entry.offset < header.base_offset:
                self.fault = IndexFault(
                    at,
                    f"the entry for time {entry.timestamp} says offset {entry.offset}, which no batch holds",
                )
            elif entry.timestamp != self._largest:
                self.fault = IndexFault(
                    at,
                    f"the entry for offset {entry.offset} says time {entry.timestamp}; "
                    f"the largest timestamp up to there is {self._largest}",
                )

    def finish(self, log_scan: LogScan, *, has_grown: bool) -> None:
        """All batches were seen. An entry that is left names none, unless the log has grown since."""
        if self.fault is None and log_scan.damage is None and self._next is not None and not has_grown:
            at, entry = self._next
            self.fault = IndexFault(
                at,
                f"the entry for time {entry.timestamp} says offset {entry.offset}, "
                f"and the log ends before {log_scan.next_offset}",
            )
