# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What of a file that is being sent is in memory: a read of a cold file would make every connection of the loop wait.

    count = warmth.count(descriptor, position, count)     0: it is being read beside the loop; `on_warm` hears when it is there

The first and the last byte of a region are looked at, without waiting, and each region once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.net import page_cache as _page_cache

if TYPE_CHECKING:
    from tidelog.model.slow_work import SlowWork

# What a thread brings into memory in one go before the sending goes on.
WARMED_BYTES_MAX = 1024 * 1024
_WARMED_BYTES_MAX = WARMED_BYTES_MAX


class FileWarmth:
    """Of one connection, which sends one region after the other."""

    __slots__ = ("_end", "_file", "_on_warm", "_slow_work", "is_reading")

    def __init__(self, slow_work: SlowWork, on_warm: Callable[[], None]) -> None:
        self._slow_work = slow_work
        self._on_warm = on_warm
        # What was found or made warm, up to which byte.
        self._file = -1
        self._end = 0
        self.is_reading = False
        """Whether a thread reads, so that there is nothing to send."""

    def count(self, descriptor: int, position: int, count: int) -> int:
        """How much of a region can be read without waiting for the disk."""
        if self._file == descriptor and position < self._end:
            return min(count, self._end - position)
        if self.is_reading:
            return 0
        if _page_cache.is_warm(descriptor, position) and _page_cache.is_warm(descriptor, position + count - 1):
            self._file, self._end = descriptor, position + count
            return count
        self._read_ahead(descriptor, position, min(count, _WARMED_BYTES_MAX))
        return 0

    def _read_ahead(self, descriptor: int, position: int, count: int) -> None:
        self.is_reading = True
        # Whoever asks meanwhile is to be told to wait.
        self._file = -1
        # A duplicate, because the region may be dropped, and its file closed, while the thread reads.
        duplicate = os.dup(descriptor)
        self._slow_work.submit(
            lambda: _page_cache.read_ahead(duplicate, position, count),
            lambda _outcome: self._warmed(descriptor, position + count),
        )

    def _warmed(self, descriptor: int, end: int) -> None:
        """The region is in memory, or could not be read, which whoever sends it will find out and say."""
        self.is_reading = False
        self._file, self._end = descriptor, end
        self._on_warm()
