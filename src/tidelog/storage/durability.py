"""How much of a log is on disk, and how more of it gets there.

The recovery point is the offset before which everything has been forced to disk. It moves forward when a sync is done, and
back when the log is truncated. A sync may run on another thread meanwhile: it works on handles of its own, so the log may go
on, and rename, truncate or remove what they are handles of.

Of the active segment only the batches are forced to disk. Its indexes are built again from them after a crash, because the
recovery point is in it or at its end; they are forced when it is rolled or closed. That is one sync instead of three for every
record that must be durable, as those of the metadata are.
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
    """Syncs open files, then a directory where new names must be durable too. Closes the files whatever happens.

    `first` is done before, and has to be durable by itself.
    """

    __slots__ = ("_directory", "_files", "_first", "_handles")

    def __init__(
        self,
        files: Files,
        handles: Sequence[File],
        directory: str | None,
        first: Callable[[], None] | None = None,
    ) -> None:
        self._files = files
        self._handles = handles
        self._directory = directory
        self._first = first

    def with_directory(self, directory: str, first: Callable[[], None] | None) -> SyncWork:
        """The same work, and the names in a directory."""
        return SyncWork(self._files, self._handles, directory, first)

    def __call__(self) -> None:
        try:
            if self._first is not None:
                self._first()
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
        # The base offsets of segments whose predecessor's last index entries are not on disk yet.
        self._rolls_under_way: list[int] = []

    def waited_ms(self) -> int:
        """How long ago the recovery point last moved."""
        return self._seams.clock.monotonic_ms() - self._last_flush_ms

    def flush(self, up_to: Offset) -> None:
        """Force all that is not yet on disk there, and wait for it. `up_to` is the end of the log."""
        self._seams.flush_times_ms.observe(self._timed(self._work(self._segments.active.base_offset + 1)))
        self.note_flushed(up_to)

    def flush_in_background(
        self,
        up_to: Offset,
        *,
        snapshot: str | None = None,
        is_roll: bool = False,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Force what lies before `up_to` to disk, without waiting for it. A fault is told to `on_fault`, success to `then`.

        A roll has its producer `snapshot` synced with it. Until that is done the recovery point stays in the old segment.
        """
        truncations = self._truncations
        self._syncs_under_way += 1
        if is_roll:
            self._rolls_under_way.append(up_to)

        work = self._work(up_to, snapshot)
        took_ms: list[float] = []

        def synced(outcome: BaseException | None) -> None:
            self._syncs_under_way -= 1
            if outcome is None:
                self._seams.flush_times_ms.observe(took_ms[0])
                if truncations == self._truncations:
                    if is_roll:
                        # It has synced the segments of the rolls before it, too.
                        self._rolls_under_way = [base for base in self._rolls_under_way if base > up_to]
                    self._mark(up_to)
                if then is not None:
                    then()
            elif not isinstance(outcome, StorageError):
                raise outcome
            elif then is not None or not outcome.is_missing:
                # A missing directory was renamed or deleted meanwhile, which is no fault of the disk; unless somebody waits.
                self._on_fault(outcome)

        self._seams.slow_work.submit(lambda: took_ms.append(self._timed(work)), synced)

    def work_of_close(self, snapshot: str, first: Callable[[], None] | None) -> SyncWork:
        """What forces all that is not yet on disk there, the producers' `snapshot` and every name in the directory with it."""
        files = self._seams.files
        named = snapshot if files.exists(snapshot) else None
        work = self._work(self._segments.active.base_offset + 1, named, with_active_indexes=True)
        return work.with_directory(self.directory, first)

    def note_flushed(self, up_to: Offset) -> None:
        """Everything before `up_to`, which is the end of the log, is on disk."""
        self._rolls_under_way.clear()
        self._mark(up_to)

    def prepare_roll(self, rolled: Segment, log_end_offset: Offset) -> None:
        """Before a segment is added behind `rolled`, which is finished: a crash must not leave the new one without the old.

        The name of the old one must be durable. So must its indexes, if the recovery point is at its end already: with a
        segment that begins there, recovery would not look at the old one again.
        """
        files = self._seams.files
        if self.recovery_point >= log_end_offset:
            SyncWork(files, rolled.open_for_sync(), self.directory)()
        elif self._syncs_under_way:
            files.sync_directory(self.directory)

    def truncated_to(self, offset: Offset) -> None:
        """The log ends at `offset` now: nothing behind it is durable any more."""
        self._truncations += 1
        self._rolls_under_way = [base for base in self._rolls_under_way if base <= offset]
        self.recovery_point = min(self.recovery_point, offset)

    def _mark(self, up_to: Offset) -> None:
        if self._rolls_under_way and up_to >= self._rolls_under_way[0]:
            up_to = Offset(self._rolls_under_way[0] - 1)
        self.recovery_point = max(self.recovery_point, up_to)
        self._last_flush_ms = self._seams.clock.monotonic_ms()

    def _timed(self, work: SyncWork) -> float:
        """Do it, on whatever thread. How many milliseconds that took."""
        begun_ns = self._seams.clock.monotonic_ns()
        work()
        return (self._seams.clock.monotonic_ns() - begun_ns) / 1_000_000

    def _work(self, before_offset: int, snapshot: str | None = None, *, with_active_indexes: bool = False) -> SyncWork:
        """What syncs the segments that begin before an offset, as far as they hold anything new."""
        files = self._seams.files
        handles = [files.open(snapshot)] if snapshot is not None else []
        segments = self._segments.from_offset(self.recovery_point)
        active = self._segments.active
        for segment in segments:
            if segment.base_offset < before_offset:
                handles += segment.open_for_sync(with_indexes=with_active_indexes or segment is not active)
        has_new_names = segments[-1].base_offset >= self.recovery_point
        return SyncWork(files, handles, self.directory if has_new_names else None)
