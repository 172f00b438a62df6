"""Keeps the number of open files bounded, however many partitions and segments there are.

A segment opens its files when somebody reads or appends, and says so here before. Beyond `open_max` the one that was not used
for the longest time lets go of its files; it opens them again when it is needed. What is being sent stays open: see
`file_region`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

# Up to four descriptors each: the log file, the transaction index and, before Python 3.13, one for each mapped index. Systems
# allow a thousand descriptors without asking; a node passes what `segments_beside` says.
OPEN_SEGMENTS_MAX = 200
DESCRIPTORS_PER_SEGMENT = 4
DESCRIPTORS_PER_CONNECTION = 1
# For listeners, the event loop, the metadata log, checkpoints, locks, and what is being forced to disk.
DESCRIPTORS_KEPT = 100
# At the least; a process that may not even open so many files cannot run a node.
CONNECTIONS_AT_LEAST = 10
# Two mappings each, and Linux allows a process 65,530 of them.
MAPPED_SEGMENTS_MAX = 10_000


class Releasable(Protocol):
    """Something that holds files open and can let go of them at any time."""

    def release(self) -> None: ...


def segments_beside(descriptors_max: int, connections_max: int) -> int:
    """How many segments may be open in a process of so many descriptors that leaves room for so many connections.

    Where both cannot be had in full, a quarter is for segments: they open again in no time, and a connection that is not taken is
    a client that waits.
    """
    left = descriptors_max - DESCRIPTORS_KEPT - DESCRIPTORS_PER_CONNECTION * connections_max
    segments = max(left, (descriptors_max - DESCRIPTORS_KEPT) // 4) // DESCRIPTORS_PER_SEGMENT
    return min(max(1, segments), MAPPED_SEGMENTS_MAX)


def connections_beside(descriptors_max: int, segments_max: int) -> int:
    """How many connections leave the segments what they need. To run out of descriptors would look like a fault of the disk, and
    take a log directory offline."""
    left = descriptors_max - DESCRIPTORS_KEPT - DESCRIPTORS_PER_SEGMENT * segments_max
    return max(CONNECTIONS_AT_LEAST, left // DESCRIPTORS_PER_CONNECTION)


class OpenSegments:
    """The segments whose files are open, least recently used first. One for all log directories of a node."""

    def __init__(self, open_max: int = OPEN_SEGMENTS_MAX) -> None:
        self.open_max = max(1, open_max)
        self._open: OrderedDict[Releasable, None] = OrderedDict()
        self.is_crowded = False
        """Whether the order of use has to be kept, because the limit is near. Until then there is nothing to note about a
        segment that is open.
        """

    def __len__(self) -> int:
        return len(self._open)

    def used(self, segment: Releasable) -> None:
        """`segment` is about to use its files; another one may have to close its own for that."""
        if segment in self._open:
            self._open.move_to_end(segment)
            return
        self._open[segment] = None
        self.is_crowded = len(self._open) * 2 > self.open_max
        if len(self._open) > self.open_max:
            oldest, _ = self._open.popitem(last=False)
            oldest.release()

    def forget(self, segment: Releasable) -> None:
        """`segment` has closed its files."""
        self._open.pop(segment, None)
        self.is_crowded = len(self._open) * 2 > self.open_max
