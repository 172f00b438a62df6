# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True, boundscheck=True, wraparound=True
"""The segments of one log in order, found by offset with a binary search: the cost of a read does not grow with their number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tidelog.model.bugs import BugError
from tidelog.storage.segment import Segment


class SegmentList:
    """Segments by rising base offset. The last one is the active one."""

    __slots__ = ("_base_offsets", "_segments", "active")

    # Of an empty list there is none; a log has at least one segment from the end of its loading on.
    active: Segment

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._segments: list[Segment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __reversed__(self) -> Iterator[Segment]:
        return reversed(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def base_offsets(self) -> list[int]:
        return list(self._base_offsets)

    @property
    def size_bytes(self) -> int:
        """Of all log files together."""
        return sum(segment.size_bytes for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """Put a segment in its place."""
        slot = bisect_left(self._base_offsets, segment.base_offset)
        if slot < len(self._base_offsets) and self._base_offsets[slot] == segment.base_offset:
            raise BugError(f"{segment} is added where {self._segments[slot]} begins")
        self._base_offsets.insert(slot, segment.base_offset)
        self._segments.insert(slot, segment)
        self.active = self._segments[-1]

    def remove(self, segment: Segment) -> None:
        """Take a segment out."""
        slot = self._segments.index(segment)
        del self._base_offsets[slot], self._segments[slot]
        if self._segments:
            self.active = self._segments[-1]

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset`, and all after it."""
        return self._segments[max(0, bisect_right(self._base_offsets, offset) - 1) :]

    def floor(self, offset: int) -> Segment | None:
        """The last segment whose base offset is at or below `offset`: the one that holds it, if any does."""
        if not self._segments:
            return None
        # Nearly all that is read is read at the tail.
        active = self.active
        if offset >= active.base_offset:
            return active
        slot = bisect_right(self._base_offsets, offset)
        return self._segments[slot - 1] if slot > 0 else None

    def after(self, base_offset: int) -> Segment | None:
        """The first segment whose base offset is above."""
        slot = bisect_right(self._base_offsets, base_offset)
        return self._segments[slot] if slot < len(self._segments) else None
