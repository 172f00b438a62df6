"""New logs reach the disk: whose they are, and the names of their directories.

A log that was just made can be used at once, but its topic id must be on disk before its first record is: without it a restart
takes the records for somebody else's. Thousands may be made at once, and each costs several forced writes. So slow work does
that for many at a time, in three steps, of which only the middle one is the log's own thread's:

    made        the directory holds its empty files, and the topic id under a temporary name
    forced      the content of that file is on disk          (slow work)
    named       the file has its name                        (the log's thread)
    settled     the names are on disk                        (slow work)

A log that is appended to before that settles at once by itself (`PartitionLog.settle`), whatever slow work is doing: both only
force what is there, so it does not matter who comes first. What a crash leaves is a log without a record and without an owner,
which its topic takes over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from tidelog.storage.errors import StorageError
from tidelog.storage.files import Files
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.partition_metadata import force_partition_metadata
from tidelog.storage.seams import Seams

# What is forced one after the other. A journalling file system commits the rest of a group together with its first.
GROUP_MAX = 64
# So many groups at a time: more threads would be taken from flushes that somebody waits for.
GROUPS_UNDER_WAY_MAX = 4


class Settling:
    """Settles the new logs of one log directory. `on_fault` hears of a disk that cannot."""

    def __init__(self, seams: Seams, path: str, on_fault: Callable[[StorageError], None]) -> None:
        self._seams = seams
        self._path = path
        self._on_fault = on_fault
        self._waiting: deque[PartitionLog] = deque()
        self._under_way = 0

    def __len__(self) -> int:
        """How many logs wait for `begin`, or for their turn."""
        return len(self._waiting)

    def add(self, log: PartitionLog) -> None:
        """A new log. Nothing happens before `begin`, so that logs that are made together are settled together."""
        self._waiting.append(log)

    def begin(self) -> None:
        """Have slow work settle what was added."""
        while self._waiting and self._under_way < GROUPS_UNDER_WAY_MAX:
            group: list[tuple[PartitionLog, str]] = []
            while self._waiting and len(group) < GROUP_MAX:
                log = self._waiting.popleft()
                if not log.is_settled:
                    group.append((log, log.directory))
            if not group:
                continue
            self._under_way += 1
            directories = [directory for _, directory in group]
            self._seams.slow_work.submit(_Forcing(self._seams.files, directories), partial(self._forced, group))

    def _forced(self, group: Sequence[tuple[PartitionLog, str]], outcome: BaseException | None) -> None:
        if outcome is not None:
            self._failed(outcome)
            return
        left = [(log, directory) for log, directory in group if _is_to_settle(log, directory)]
        try:
            for log, _ in left:
                log.name_topic_id()
        except StorageError:
            # The log has told its directory.
            self._under_way -= 1
            return
        directories = [directory for _, directory in left]
        self._seams.slow_work.submit(_Naming(self._seams.files, [*directories, self._path]), partial(self._named, left))

    def _named(self, group: Sequence[tuple[PartitionLog, str]], outcome: BaseException | None) -> None:
        if outcome is not None:
            self._failed(outcome)
            return
        self._under_way -= 1
        for log, directory in group:
            if _is_to_settle(log, directory):
                log.note_settled()
        self.begin()

    def _failed(self, outcome: BaseException) -> None:
        self._under_way -= 1
        if not isinstance(outcome, StorageError):
            raise outcome
        self._on_fault(outcome)


def _is_to_settle(log: PartitionLog, directory: str) -> bool:
    """Not one that has been deleted, or appended to, meanwhile."""
    return not log.is_settled and log.fault is None and log.directory == directory


class _Forcing:
    """Slow work: the contents."""

    def __init__(self, files: Files, directories: Sequence[str]) -> None:
        self._files = files
        self._directories = directories

    def __call__(self) -> None:
        for directory in self._directories:
            force_partition_metadata(self._files, directory)


class _Naming:
    """Slow work: the names. A directory that is gone was deleted meanwhile."""

    def __init__(self, files: Files, directories: Sequence[str]) -> None:
        self._files = files
        self._directories = directories

    def __call__(self) -> None:
        for directory in self._directories:
            try:
                self._files.sync_directory(directory)
            except StorageError as error:
                if not error.is_missing:
                    raise
