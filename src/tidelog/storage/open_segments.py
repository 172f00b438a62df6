"""Keeps the number of open files bounded, however many partitions and segments there are.

A segment opens its files when somebody reads or appends, and says so here before. Beyond `open_max` the one that was not used
for the longest time lets go of its files; it opens them again when it is needed. What is being sent stays open: see
`file_region`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

# Up to four descriptors each: the log file, the transaction index and, before Python 3.13, one for each mapped index. Systems
# allow a thousand descriptors without asking; a node that is allowed more passes what `segments_within` says.
OPEN_SEGMENTS_MAX = 200
DESCRIPTORS_PER_SEGMENT = 4


class Releasable(Protocol):
    """Something that holds files open and can let go of them at any time."""

    def release(self) -> None: ...


def segments_within(descriptors: int) -> int:
    """How many segments may be open in a process that may spend this many descriptors on them."""
    return max(1, descriptors // DESCRIPTORS_PER_SEGMENT)


class OpenSegments:
    """The segments whose files are open, least recently used first. One for all log directories of a node."""

    def __init__(self, open_max: int = OPEN_SEGMENTS_MAX) -> None:
        self._open_max = max(1, open_max)
        self._open: OrderedDict[Releasable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def used(self, segment: Releasable) -> None:
        """`segment` is about to use its files; another one may have to close its own for that."""
        if segment in self._open:
            self._open.move_to_end(segment)
            return
        self._open[segment] = None
        if len(self._open) > self._open_max:
            oldest, _ = self._open.popitem(last=False)
            oldest.release()

    def forget(self, segment: Releasable) -> None:
        """`segment` has closed its files."""
        self._open.pop(segment, None)
