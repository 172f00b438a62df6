"""The sparse map from timestamps to offsets of one segment (`.timeindex`).

An entry is (timestamp: int64, offset - base_offset: int32), big-endian, 12 bytes. It says that the largest timestamp up to
and including that offset is this one: a record with a larger timestamp lies behind it. Timestamps rise strictly, offsets
do not fall. `mapped_index` tells how the file lives.

The last slot is kept free for the entry that a roll or a clean stop adds, with the largest timestamp of the segment.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from tidelog.model.ids import NO_TIMESTAMP, Offset, TimestampMs
from tidelog.storage.mapped_index import INT32_MAX, MappedIndex

ENTRY = struct.Struct(">qi")
_pack_into = ENTRY.pack_into
_unpack_from = ENTRY.unpack_from


class TimestampOffset(NamedTuple):
    """A timestamp, and the offset of the record that has it."""

    timestamp: TimestampMs
    offset: Offset


class TimeIndex(MappedIndex):
    """The `.timeindex` of one segment."""

    ENTRY_BYTES: ClassVar[int] = ENTRY.size
    # Time 0 at the first offset. No preallocation is as short as one entry.
    FIRST_MAY_BE_ZEROS: ClassVar[bool] = True

    _last_timestamp: int
    _last_offset: int

    @property
    def is_full(self) -> bool:
        return self.entries >= self.entries_max - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, or (NO_TIMESTAMP, base offset)."""
        self._used()
        return TimestampOffset(TimestampMs(self._last_timestamp), Offset(self._last_offset))

    @property
    def last_offset(self) -> Offset:
        """The offset of the last entry, or the base offset."""
        return self.last_entry.offset

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> bool:
        """Add an entry if `timestamp` is above the last one. Whether it did.

        ValueError if either is below the last entry, or if the index is full. `skip_full_check` opens the reserved slot.
        """
        return self._maybe_append(timestamp, offset, skip_full_check=skip_full_check, is_last=False)

    def append_last(self, timestamp: int, offset: int) -> bool:
        """The same for the last entry that the index gets, which the reserved slot is for."""
        return self._maybe_append(timestamp, offset, skip_full_check=True, is_last=True)

    def _maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool, is_last: bool) -> bool:
        used = self._used_bytes if self._loaded else self._used()
        if used and (offset < self._last_offset or timestamp < self._last_timestamp):
            raise ValueError(
                f"{self.path} cannot take ({timestamp}, {offset}) after {tuple(self.last_entry)}: neither part may fall"
            )
        if not skip_full_check and used + 24 > self._capacity_bytes:
            raise ValueError(f"{self.path} is full: it has {self.entries} entries, and the last slot is reserved")
        if timestamp <= self._last_timestamp:
            return False
        relative = offset - self.base_offset
        if not 0 <= relative <= INT32_MAX:
            raise ValueError(f"{self.path} cannot take offset {offset}: it is too far from {self.base_offset}")
        mapping = self._mapping
        if mapping is not None and used + 12 <= self._writable_bytes:
            _pack_into(mapping.view, used, timestamp, relative)
        elif is_last and not self._writable_bytes:
            self._write_last(ENTRY.pack(timestamp, relative))
        else:
            _pack_into(self._room(), used, timestamp, relative)
        self._last_timestamp = timestamp
        self._last_offset = offset
        self._used_bytes = used + 12
        return True

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or below `timestamp`, or (NO_TIMESTAMP, base offset): the record looked for is not before it."""
        used = self._used()
        if used and timestamp >= self._last_timestamp:
            return self.last_entry
        if used:
            view = self._view()
            slot = bisect_right(range(used // 12), timestamp, key=lambda slot: _unpack_from(view, slot * 12)[0]) - 1
            if slot >= 0:
                return self._entry(view, slot)
        return TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> TimestampOffset:
        """The entry in a slot, counted from 0. IndexError if there is none."""
        if not 0 <= slot < self.entries:
            raise IndexError(f"{self.path} has {self.entries} entries, none in slot {slot}")
        return self._entry(self._view(), slot)

    def each_entry(self) -> Iterator[TimestampOffset]:
        """All entries in order."""
        for slot in range(self.entries):
            yield self._entry(self._view(), slot)

    def sanity_check(self) -> str | None:
        """What is plainly wrong, in one sentence. Reads the first and the last entry only."""
        if (damage := self._damage()) is not None:
            return damage
        if self._used_bytes:
            if self._last_offset < self.base_offset:
                return f"{self.path} ends at offset {self._last_offset}, before its first offset {self.base_offset}"
            first = self.entry(0)
            if self._last_timestamp < first.timestamp:
                return f"{self.path} begins at time {first.timestamp} but ends at time {self._last_timestamp}"
        return None

    def _entry(self, view: memoryview, slot: int) -> TimestampOffset:
        timestamp, relative = _unpack_from(view, slot * 12)
        return TimestampOffset(TimestampMs(timestamp), Offset(self.base_offset + relative))

    def _remember_last(self, entry: bytes) -> None:
        timestamp, relative = ENTRY.unpack(entry) if entry else (NO_TIMESTAMP, 0)
        self._last_timestamp, self._last_offset = timestamp, self.base_offset + relative

    def _slot_of_offset(self, view: memoryview, offset: int) -> int:
        slots = range(self._used_bytes // 12)
        return bisect_left(slots, offset - self.base_offset, key=lambda slot: _unpack_from(view, slot * 12)[1])
