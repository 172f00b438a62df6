"""Keeps the number of open files bounded, however many partitions and segments there are.

A segment opens its files when somebody reads or appends, and reports it here. Beyond `open_max` the one that was not used for the
longest time lets go of its files; it opens them again when it is needed. What is being sent stays open: see `file_region`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

# Up to three descriptors each: the log file and, before Python 3.13, one for each mapped index. Systems allow a thousand or more
# descriptors without asking; a node that leads many partitions should be given more of both.
OPEN_SEGMENTS_MAX = 256


class Releasable(Protocol):
    """Something that holds files open and can let go of them at any time."""

    def release(self) -> None: ...


class OpenSegments:
    """The segments whose files are open, least recently used first. One for all log directories of a node."""

    def __init__(self, open_max: int = OPEN_SEGMENTS_MAX) -> None:
        self._open_max = max(1, open_max)
        self._open: OrderedDict[Releasable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, segment: Releasable) -> None:
        """`segment` has opened its files; another one may have to close its own for that."""
        self._open[segment] = None
        while len(self._open) > self._open_max:
            oldest, _ = self._open.popitem(last=False)
            oldest.release()

    def used(self, segment: Releasable) -> None:
        """`segment`, which is open, was used again."""
        self._open.move_to_end(segment)

    def closed(self, segment: Releasable) -> None:
        """`segment` has closed its files by itself."""
        self._open.pop(segment, None)
