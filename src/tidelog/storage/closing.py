"""The clean stop of many logs: the disk is waited for by several threads at once, everything else happens on the logs' own.

A stop is mostly waiting: five forced writes of some milliseconds each for every log that was written to. A journalling file
system commits what several threads force at the same time together, so that a few dozen logs take hardly longer than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.model.pending import Pending
from tidelog.model.slow_work import SlowWork
from tidelog.storage.errors import StorageError
from tidelog.storage.partition_log import PartitionLog

# So many logs wait for the disk at a time, with up to six descriptors each.
UNDER_WAY_MAX = 32


class Closing:
    """Closes logs, each by itself and some at a time. `done` completes when nothing is under way any more.

    `on_fault` is told of every fault of the disk; after the first no further log is begun.
    """

    def __init__(
        self, logs: Iterable[PartitionLog], slow_work: SlowWork, on_fault: Callable[[StorageError], None]
    ) -> None:
        self.done: Pending[None] = Pending()
        self._left = iter(list(logs))
        self._slow_work = slow_work
        self._on_fault = on_fault
        self._under_way = 0
        self._is_beginning = False
        self._begin_more()

    def _begin_more(self) -> None:
        if self._is_beginning:
            # Slow work that is done at once ends up here; the loop below goes on.
            return
        self._is_beginning = True
        while self._under_way < UNDER_WAY_MAX:
            log = next(self._left, None)
            if log is None:
                break
            self._begin(log)
        self._is_beginning = False
        if not self._under_way:
            self.done.complete(None)

    def _begin(self, log: PartitionLog) -> None:
        try:
            work = log.prepare_close()
        except StorageError as error:
            self._failed(error)
            return
        if work is None:
            log.release()
            return
        self._under_way += 1
        self._slow_work.submit(work, lambda outcome: self._synced(log, outcome))

    def _synced(self, log: PartitionLog, outcome: BaseException | None) -> None:
        self._under_way -= 1
        if isinstance(outcome, StorageError):
            self._failed(outcome)
        elif outcome is not None:
            raise outcome
        elif log.fault is None:
            log.note_closed()
        self._begin_more()

    def _failed(self, error: StorageError) -> None:
        self._left = iter(())
        self._on_fault(error)
