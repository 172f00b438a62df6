"""How much of a log is on disk, and how more of it gets there.

The recovery point is the offset before which everything has been forced to disk. It moves forward when a sync is done, and
back when the log is truncated. A sync may run on another thread meanwhile: it works on handles of its own, so the log may go
on, and rename, truncate or remove what they are handles of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.model.ids import Offset
from tidelog.storage.errors import StorageError
from tidelog.storage.files import File, Files
from tidelog.storage.seams import Seams
from tidelog.storage.segment import Segment
from tidelog.storage.segment_list import SegmentList


class SyncWork:
    """Syncs open files, then a directory where new names must be durable too. Closes the files whatever happens."""

    __slots__ = ("_directory", "_files", "_handles")

    def __init__(self, files: Files, handles: Sequence[File], directory: str | None) -> None:
        self._files = files
        self._handles = handles
        self._directory = directory

    def __call__(self) -> None:
        try:
            for handle in self._handles:
                handle.sync()
        finally:
            for handle in self._handles:
                handle.close()
        if self._directory is not None:
            self._files.sync_directory(self._directory)


class Durability:
    """The recovery point of one log, and the syncs that move it."""

    def __init__(
        self,
        seams: Seams,
        segments: SegmentList,
        directory: str,
        recovery_point: Offset,
        on_fault: Callable[[StorageError], None],
    ) -> None:
        self.directory = directory
        self.recovery_point = recovery_point
        self._seams = seams
        self._segments = segments
        self._on_fault = on_fault
        self._last_flush_ms = seams.clock.monotonic_ms()
        self._syncs_under_way = 0
        # Goes up with every truncation: a sync that was under way then says nothing about what is appended after.
        self._truncations = 0

    def waited_ms(self) -> int:
        """How long ago the recovery point last moved."""
        return self._seams.clock.monotonic_ms() - self._last_flush_ms

    def flush(self, up_to: Offset) -> None:
        """Force all that is not yet on disk there, and wait for it. `up_to` is the end of the log."""
        self._work(self._segments.active.base_offset + 1)()
        self._mark(up_to)

    def flush_in_background(
        self,
        up_to: Offset,
        *,
        rolled: Segment | None = None,
        snapshot: str | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Force what lies before `up_to` to disk, without waiting for it. A fault is told to `on_fault`, success to `then`.

        On a roll also the segment that was `rolled`, whose indexes have changed even if no batch has, and the producer snapshot
        at this path.
        """
        truncations = self._truncations
        self._syncs_under_way += 1

        def synced(outcome: BaseException | None) -> None:
            self._syncs_under_way -= 1
            if outcome is None:
                if truncations == self._truncations:
                    self._mark(up_to)
                if then is not None:
                    then()
            elif not isinstance(outcome, StorageError):
                raise outcome
            elif then is not None or not outcome.is_missing:
                # A missing directory was renamed or deleted meanwhile, which is no fault of the disk; unless somebody waits.
                self._on_fault(outcome)

        self._seams.slow_work.submit(self._work(up_to, rolled, snapshot), synced)

    def settle_names(self) -> None:
        """Make the names in the log's directory durable, unless that has been done.

        Before a segment is added: the name of the one before it must not be lost while its own is kept.
        """
        if self._syncs_under_way:
            self._seams.files.sync_directory(self.directory)

    def truncated_to(self, offset: Offset) -> None:
        """The log ends at `offset` now: nothing behind it is durable any more."""
        self._truncations += 1
        self.recovery_point = min(self.recovery_point, offset)

    def started_at(self, offset: Offset) -> None:
        """The log starts at `offset` now: nothing before it has to be recovered."""
        self.recovery_point = max(self.recovery_point, offset)

    def _mark(self, up_to: Offset) -> None:
        self.recovery_point = max(self.recovery_point, up_to)
        self._last_flush_ms = self._seams.clock.monotonic_ms()

    def _work(self, before_offset: int, rolled: Segment | None = None, snapshot: str | None = None) -> SyncWork:
        """What syncs the segments that begin before an offset, as far as they hold anything new."""
        files = self._seams.files
        handles = [files.open(snapshot)] if snapshot is not None else []
        first = self.recovery_point if rolled is None else min(self.recovery_point, rolled.base_offset)
        segments = self._segments.from_offset(first)
        for segment in segments:
            if segment.base_offset < before_offset:
                handles += segment.open_for_sync()
        has_new_names = segments[-1].base_offset >= self.recovery_point
        return SyncWork(files, handles, self.directory if has_new_names else None)
