# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What has to happen at some time unless something else happens first: sessions, rebalances, expiries.

    deadlines.set(("session", group, member), now_ms + 45_000, expire_member)
    deadlines.cancel(("session", group, member))

No clock and no timer of its own: the host asks for `next_ms`, and takes what is due. A heartbeat moves the deadline of a session
many times for each time that one is reached, so that must be cheap: the heap keeps the old entry, to be looked at again when
it is due.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from tidelog.coordination.decision import Decision


Action: TypeAlias = "Callable[[int], Decision[Any] | None]"
"""Given the present time in ms; returns what is to be appended, or None."""


class _Set:
    """A deadline. `heap_ms` is when the heap entry that carries `number` comes up, which is not after `at_ms`."""

    __slots__ = ("action", "at_ms", "heap_ms", "number")

    def __init__(self, at_ms: int, number: int, action: Action) -> None:
        self.at_ms = self.heap_ms = at_ms
        self.number = number
        self.action = action


# Stale heap entries are removed once they outnumber the deadlines that are set by this many.
_LEFT_OVERS_MAX = 1_000


class Deadlines:
    """Deadlines by key; a key has one at most."""

    __slots__ = ("_by_key", "_heap", "number")

    def __init__(self) -> None:
        # The heap entry of a key is the one with its number; all others are stale and skipped.
        self._by_key: dict[Hashable, _Set] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self.number = 0
        """Rises whenever the earliest deadline may have changed, so that the caller knows when to set its timer again."""

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._by_key

    def set(self, key: Hashable, at_ms: int, action: Action) -> None:
        """Do `action` at `at_ms`, in place of what was set for this key before."""
        known = self._by_key.get(key)
        if known is not None and known.heap_ms <= at_ms:
            known.at_ms = at_ms
            known.action = action
            return
        self.number += 1
        self._by_key[key] = _Set(at_ms, self.number, action)
        heappush(self._heap, (at_ms, self.number, key))
        if len(self._heap) > 2 * len(self._by_key) + _LEFT_OVERS_MAX:
            self._sweep()

    def move(self, key: Hashable, at_ms: int) -> bool:
        """Move a deadline to a later time. False where none is set, or where it would come sooner: it is as it was then."""
        known = self._by_key.get(key)
        if known is None or known.heap_ms > at_ms:
            return False
        known.at_ms = at_ms
        return True

    def cancel(self, key: Hashable) -> bool:
        """Do nothing for this key. False where nothing was set."""
        return self._by_key.pop(key, None) is not None

    @property
    def next_ms(self) -> int | None:
        """When to look: never after the first deadline, perhaps before it. None where nothing is set."""
        heap = self._heap
        while heap and not self._is_current(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now_ms: int) -> tuple[Hashable, Action] | None:
        """The next action whose time has come, with its key, which has none then; None where there is none (any more)."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)
            if not self._is_current(entry):
                continue
            known = self._by_key[entry[2]]
            if known.at_ms > now_ms:
                known.heap_ms = known.at_ms
                heappush(heap, (known.at_ms, known.number, entry[2]))
                continue
            del self._by_key[entry[2]]
            return entry[2], known.action
        return None

    def clear(self) -> None:
        self._by_key.clear()
        self._heap.clear()

    def _is_current(self, entry: tuple[int, int, Hashable]) -> bool:
        known = self._by_key.get(entry[2])
        return known is not None and known.number == entry[1]

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if self._is_current(entry)]
        heapify(self._heap)
