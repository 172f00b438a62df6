"""The sparse map from offsets to file positions of one segment (`.index`).

An entry is (offset - base_offset: int32, position: int32), big-endian, 8 bytes. Offsets and positions rise strictly. The
offset is the last one of a batch, the position is where that batch begins; there is one entry for each
`index.interval.bytes` of log at most, and never one for the first batch. `mapped_index` tells how the file lives.

`lookup` finds the last entry at or below an offset; the caller scans the log from there, at most `index.interval.bytes`
and one batch.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from tidelog.model.ids import Offset
from tidelog.storage.mapped_index import INT32_MAX, MappedIndex

ENTRY = struct.Struct(">ii")
_pack_into = ENTRY.pack_into
_unpack_from = ENTRY.unpack_from


class OffsetPosition(NamedTuple):
    """An offset, and where in the segment's log file its batch begins."""

    offset: Offset
    position: int


class OffsetIndex(MappedIndex):
    """The `.index` of one segment."""

    ENTRY_BYTES: ClassVar[int] = ENTRY.size

    _last = (0, 0)

    @property
    def last_offset(self) -> Offset:
        """The offset of the last entry, or the base offset."""
        self._used()
        return Offset(self.base_offset + self._last[0])

    @property
    def last_position(self) -> int:
        """The position of the last entry, or 0."""
        self._used()
        return self._last[1]

    def append(self, offset: int, position: int) -> None:
        """Add an entry. ValueError if the index is full, or `offset` is not above the last or too far from the base."""
        end = self._used_bytes + 8
        mapping = self._mapping
        view = mapping.view if mapping is not None and end <= self._writable_bytes else self._room()
        relative = offset - self.base_offset
        used = self._used_bytes
        if (relative <= self._last[0] and used) or not 0 <= relative <= INT32_MAX:
            raise ValueError(
                f"{self.path} cannot take offset {offset} after {self.last_offset}: offsets rise, by 2^31 at most"
            )
        _pack_into(view, used, relative, position)
        self._last = (relative, position)
        self._used_bytes = used + 8

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below `offset`; the start of the segment if there is none."""
        used = self._used()
        relative = offset - self.base_offset
        if used == 0:
            return OffsetPosition(self.base_offset, 0)
        if relative >= self._last[0]:
            # Most readers are at the tail, and this touches no page of the file.
            return OffsetPosition(Offset(self.base_offset + self._last[0]), self._last[1])
        view = self._view()
        # By hand: every fetch of a reader that is behind comes here, and `bisect` would call back for each step.
        low, high = 0, used >> 3
        while low < high:
            middle = (low + high) >> 1
            if _unpack_from(view, middle << 3)[0] <= relative:
                low = middle + 1
            else:
                high = middle
        return self._entry(view, low - 1) if low else OffsetPosition(self.base_offset, 0)

    def upper_bound(self, position: int) -> OffsetPosition | None:
        """The first entry whose position is at or above `position`: an offset surely outside of a read that ends there."""
        used = self._used()
        if used == 0 or position > self._last[1]:
            return None
        view = self._view()
        return self._entry(
            view, bisect_left(range(used >> 3), position, key=lambda slot: _unpack_from(view, slot << 3)[1])
        )

    def entry(self, slot: int) -> OffsetPosition:
        """The entry in a slot, counted from 0. IndexError if there is none."""
        if not 0 <= slot < self.entries:
            raise IndexError(f"{self.path} has {self.entries} entries, none in slot {slot}")
        return self._entry(self._view(), slot)

    def each_entry(self) -> Iterator[OffsetPosition]:
        """All entries in order."""
        for slot in range(self.entries):
            yield self._entry(self._view(), slot)

    def sanity_check(self) -> str | None:
        """What is plainly wrong, in one sentence. Reads the last entry only."""
        if (damage := self._damage()) is not None:
            return damage
        if self._used_bytes and (self._last[0] < 0 or self._last[1] < 0):
            return f"{self.path} ends in the entry {self._last}: neither part can be negative"
        return None

    def _entry(self, view: memoryview, slot: int) -> OffsetPosition:
        relative, position = _unpack_from(view, slot << 3)
        return OffsetPosition(Offset(self.base_offset + relative), position)

    def _remember_last(self, entry: bytes) -> None:
        self._last = ENTRY.unpack(entry) if entry else (0, 0)

    def _slot_of_offset(self, view: memoryview, offset: int) -> int:
        slots = range(self._used_bytes >> 3)
        return bisect_left(slots, offset - self.base_offset, key=lambda slot: _unpack_from(view, slot << 3)[0])
