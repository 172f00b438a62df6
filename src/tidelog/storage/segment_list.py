"""The segments of one log in order, found by offset with a binary search: the cost of a read does not grow with their number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.kernel_choice import load
from tidelog.model.bugs import BugError
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.kernels.log_kernel import SegmentListCore
else:
    SegmentListCore = load("tidelog.storage.kernels", "log_kernel").SegmentListCore


class SegmentList(SegmentListCore):
    """Segments by rising base offset. The last one is the active one."""

    __slots__ = ()

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
