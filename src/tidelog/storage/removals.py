"""Files that are no longer part of a log, and when they go.

A segment or directory is renamed at once (`.deleted`, `-delete`), so that no restart takes it for data, and removed after
`file.delete.delay.ms`, for the sake of readers that have its name. Whatever is left at the end of the process is removed by the
next start. Removing takes as long as the disk likes, so it is slow work.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from tidelog.storage.errors import StorageError
from tidelog.storage.seams import Seams


class DelayedRemovals:
    """What to remove and when, for one log directory. `on_fault` hears of a disk that cannot even delete."""

    def __init__(self, seams: Seams, on_fault: Callable[[StorageError], None]) -> None:
        self._seams = seams
        self._on_fault = on_fault
        self._due: list[tuple[int, int, tuple[str, ...]]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._due)

    @property
    def next_due_ms(self) -> int | None:
        """The `monotonic_ms` at which `run_due` has something to do, or None."""
        return self._due[0][0] if self._due else None

    def add(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove these files and directories, `delay_ms` from now. One that does not exist by then is no error."""
        self._count += 1
        heapq.heappush(self._due, (self._seams.clock.monotonic_ms() + delay_ms, self._count, tuple(paths)))

    def run_due(self) -> int:
        """Hand over what is due. Returns how many removals that were."""
        now_ms = self._seams.clock.monotonic_ms()
        count = 0
        while self._due and self._due[0][0] <= now_ms:
            _, _, paths = heapq.heappop(self._due)
            self._seams.slow_work.submit(_Removal(self._seams, paths), self._finished)
            count += 1
        return count

    def _finished(self, outcome: BaseException | None) -> None:
        if isinstance(outcome, StorageError):
            self._on_fault(outcome)
        elif outcome is not None:
            raise outcome


class _Removal:
    """One piece of slow work."""

    def __init__(self, seams: Seams, paths: tuple[str, ...]) -> None:
        self._files = seams.files
        self._paths = paths

    def __call__(self) -> None:
        for path in self._paths:
            if self._files.is_dir(path):
                self._files.remove_tree(path)
            else:
                self._files.remove(path)
