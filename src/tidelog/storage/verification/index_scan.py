"""Reads the entries of an index file one after another to the first bad byte, and says what is wrong there.

For a person who looks at a file: `OffsetIndex` and `TimeIndex` trust their file and search it, a scan doubts every entry.
The entries of `.index`, `.timeindex` and `.txnindex` differ in layout and in what must rise; the rest is shared:

    an entry of zeros, zeros to the end     the preallocated tail of a file that grows, or grew until a kill
    an entry that does not rise             damage
    less than an entry at the end           damage

One window of the file is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Layout
from typing import ClassVar, Generic, NamedTuple, TypeVar

from tidelog.storage.files import File
from tidelog.storage.verification.log_scan import only_zeros_follow

WINDOW_BYTES = 64 * 1024

_OFFSET_LAYOUT = Layout(">ii")
_TIME_LAYOUT = Layout(">qi")
_TRANSACTION_LAYOUT = Layout(">hqqqq")
_TRANSACTION_VERSION = 0

_Entry = TypeVar("_Entry")


class OffsetEntry(NamedTuple):
    """An entry of `.index`: the last offset of a batch, and where that batch begins."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """An entry of `.timeindex`: the largest timestamp so far, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class TransactionEntry(NamedTuple):
    """An entry of `.txnindex`: a transaction that was aborted."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class IndexDamage(NamedTuple):
    """The first entry that cannot be right."""

    position: int
    sentence: str


class IndexScan(Generic[_Entry]):
    """One pass over an index file, as long as it was when the scan was made. Yields (position in the index, entry)."""

    layout: ClassVar[Layout]
    is_preallocated: ClassVar[bool] = True

    def __init__(self, file: File, base_offset: int) -> None:
        self.size = file.size()
        self.entries = 0
        self.zeros = 0
        """The bytes of the preallocated tail."""
        self.damage: IndexDamage | None = None
        self._file = file
        self._base_offset = base_offset
        self._last: _Entry | None = None

    def _entry(self, fields: tuple[int, ...]) -> _Entry:
        raise NotImplementedError

    def _fault(self, entry: _Entry, last: _Entry | None) -> str | None:
        """What is wrong with an entry behind `last`, in one sentence."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[tuple[int, _Entry]]:
        width = self.layout.size
        window_bytes = WINDOW_BYTES // width * width
        position = 0
        while position + width <= self.size:
            window = self._file.pread(min(window_bytes, (self.size - position) // width * width), position)
            if len(window) < width:
                # The file was trimmed under our eyes: what is gone was preallocated.
                return
            for at in range(0, len(window) // width * width, width):
                data = window[at : at + width]
                if not any(data) and self._is_tail(position):
                    self.zeros = self.size - position
                    self._check_end(position)
                    return
                entry = self._entry(self.layout.unpack(data))
                if (fault := self._fault(entry, self._last)) is not None:
                    self.damage = IndexDamage(position, fault)
                    return
                self.entries += 1
                self._last = entry
                yield position, entry
                position += width
        self._check_end(position)

    def _check_end(self, position: int) -> None:
        left = self.size % self.layout.size
        if left:
            end = max(position, self.size - left)
            self.damage = IndexDamage(end, f"{left} bytes are left at the end, and an entry takes {self.layout.size}")

    def _is_tail(self, position: int) -> bool:
        """Whether the zeros at `position` are preallocation: nothing but zeros follows them."""
        return self.is_preallocated and only_zeros_follow(self._file, position, self.size)


class OffsetIndexScan(IndexScan[OffsetEntry]):
    """The entries of an `.index`. Offsets and positions rise strictly."""

    layout = _OFFSET_LAYOUT

    def _entry(self, fields: tuple[int, ...]) -> OffsetEntry:
        return OffsetEntry(self._base_offset + fields[0], fields[1])

    def _fault(self, entry: OffsetEntry, last: OffsetEntry | None) -> str | None:
        if entry.offset < self._base_offset:
            return f"an entry for offset {entry.offset}, before the segment's first, {self._base_offset}"
        if entry.position < 0:
            return f"an entry for the impossible position {entry.position}"
        if last is not None and entry.offset <= last.offset:
            return f"offsets do not rise: {entry.offset} follows {last.offset}"
        if last is not None and entry.position <= last.position:
            return f"positions do not rise: {entry.position} follows {last.position}"
        return None


class TimeIndexScan(IndexScan[TimeEntry]):
    """The entries of a `.timeindex`. Timestamps rise strictly, offsets do not fall."""

    layout = _TIME_LAYOUT

    def _entry(self, fields: tuple[int, ...]) -> TimeEntry:
        return TimeEntry(fields[0], self._base_offset + fields[1])

    def _fault(self, entry: TimeEntry, last: TimeEntry | None) -> str | None:
        if entry.offset < self._base_offset:
            return f"an entry for offset {entry.offset}, before the segment's first, {self._base_offset}"
        if last is not None and entry.timestamp <= last.timestamp:
            return f"timestamps do not rise: {entry.timestamp} follows {last.timestamp}"
        if last is not None and entry.offset < last.offset:
            return f"offsets go back: {entry.offset} follows {last.offset}"
        return None

    def _is_tail(self, position: int) -> bool:
        # Time 0 at the first offset is data: no preallocation is as short as one entry.
        return (position > 0 or self.size > self.layout.size) and super()._is_tail(position)


class TransactionIndexScan(IndexScan[TransactionEntry]):
    """The entries of a `.txnindex`, in the order in which the transactions ended."""

    layout = _TRANSACTION_LAYOUT
    is_preallocated = False

    def _entry(self, fields: tuple[int, ...]) -> TransactionEntry:
        return TransactionEntry(*fields)

    def _fault(self, entry: TransactionEntry, last: TransactionEntry | None) -> str | None:
        if entry.version != _TRANSACTION_VERSION:
            return f"an entry of version {entry.version}; only {_TRANSACTION_VERSION} exists"
        if entry.producer_id < 0:
            return f"an entry for the impossible producer id {entry.producer_id}"
        # The last offset is that of the marker, which follows the records.
        if not 0 <= entry.first_offset < entry.last_offset:
            return f"a transaction from offset {entry.first_offset} to {entry.last_offset}"
        if entry.last_offset < self._base_offset:
            return f"a transaction that ended at offset {entry.last_offset}, before the segment's first, {self._base_offset}"
        if not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
            return (
                f"a transaction up to offset {entry.last_offset} with the last stable offset {entry.last_stable_offset}"
            )
        if last is not None and entry.last_offset <= last.last_offset:
            return f"transactions are out of order: one ended at offset {entry.last_offset}, the one before at {last.last_offset}"
        return None
