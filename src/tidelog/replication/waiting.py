# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""Who waits for a partition, and how they are told: by the event itself, once, never by looking again and again.

Two kinds wait. A write with acks=all, or a deletion of records, waits for an offset (`OffsetWaiters`). A fetch that found too
little waits for anything that might change its answer (`Watcher`): an append, a moved high watermark, a lost leadership.

A request may append to many partitions. Who watches several of them should see all of its records at once, so watchers are told
when the request is through: `hold`, the appends, `release`. Without a hold they are told at once.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending

if TYPE_CHECKING:
    from tidelog.model.ids import NodeId
    from tidelog.replication.partition import Partition

# A member that is reached through its class costs more, and every commit tells this one.
_NONE = ErrorCode.NONE


class Watcher(Protocol):
    """Something that wants to know when a partition has changed. It is told again until it is taken off."""

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for the change. What is appended then is kept for its read."""
        ...

    def partition_changed(self, partition: Partition) -> None:
        """More may be readable, or nothing any more. It may take itself off, or others, from within."""
        ...


class OffsetWaiters:
    """Those who wait for one offset of a partition to get somewhere. Each gets NONE then, or the error that came between."""

    __slots__ = ("_number", "heap")

    def __init__(self) -> None:
        # Empty where nobody waits. The number keeps those of one offset in their order, and pending answers from being compared.
        self.heap: list[tuple[int, int, Pending[ErrorCode]]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self.heap)

    def wait_for(self, offset: int) -> Pending[ErrorCode]:
        """Completes when `offset` is reached."""
        outcome: Pending[ErrorCode] = Pending()
        self._number += 1
        heappush(self.heap, (offset, self._number, outcome))
        return outcome

    def reached(self, offset: int, error: ErrorCode = _NONE) -> None:
        """All up to `offset` have what they waited for; `error` is what they are told instead of NONE."""
        heap = self.heap
        try:
            while heap and heap[0][0] <= offset:
                heappop(heap)[2].complete(error)
        except Exception as bug:
            raise BugError("telling those who wait for an offset broke off") from bug

    def fail(self, error: ErrorCode) -> None:
        """What they wait for will not come."""
        heap = self.heap
        self.heap = []
        # No two have the same number, so that nothing behind it is compared.
        for _, _, outcome in sorted(heap):
            outcome.complete(error)


class Wakeups:
    """Tells the watchers of partitions that have changed. One for all partitions of a node."""

    __slots__ = ("_changed", "_holds", "on_caught_up")

    def __init__(self) -> None:
        self._holds = 0
        # Told of a follower that is not in sync and has all that is committed, with every fetch of it.
        self.on_caught_up: Callable[[Partition, NodeId], None] | None = None
        # A dict for its order: watchers are told in the order of the changes.
        self._changed: dict[Partition, None] = {}

    def changed(self, partition: Partition) -> None:
        """`partition`, which has watchers, is not what it was."""
        if self._holds:
            self._changed[partition] = None
        else:
            partition.tell_watchers()

    def untold(self) -> list[Partition]:
        """Partitions that have changed and whose watchers are still to be told."""
        return list(self._changed)

    def hold(self) -> None:
        """Tell nobody until `release`, which must follow. Holds nest."""
        self._holds += 1

    def release(self) -> None:
        """Tell those who were to be told meanwhile."""
        self._holds -= 1
        # Who is told may cause a change itself, which then comes after.
        while self._changed and not self._holds:
            partition = next(iter(self._changed))
            del self._changed[partition]
            partition.tell_watchers()
