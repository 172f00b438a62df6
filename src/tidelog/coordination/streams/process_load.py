"""How busy processes and their members are while tasks are shared out, and who of them is the least busy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class TaskId(NamedTuple):
    """One task, whatever its role."""

    subtopology_id: str
    partition: int


class LeastFirst(Generic[T]):
    """A heap that, of several that are equally small, gives back the one that Java's PriorityQueue would.

    Which one that is depends on how things moved in the heap; it decides which member gets a task, so it has to be the same in a
    coordinator of either program. The order of an item must not change while it is in here.
    """

    def __init__(self, items: Iterable[T], size_of: Callable[[T], float]) -> None:
        self._size_of = size_of
        self._heap: list[T] = []
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: T) -> None:
        heap, size = self._heap, self._size_of(item)
        heap.append(item)
        place = len(heap) - 1
        while place:
            above = (place - 1) >> 1
            if size >= self._size_of(heap[above]):
                break
            heap[place] = heap[above]
            place = above
        heap[place] = item

    def take(self) -> T | None:
        """The least, which is taken out; None where there is none."""
        heap = self._heap
        if not heap:
            return None
        least, last = heap[0], heap.pop()
        if heap:
            self._sink(last)
        return least

    def _sink(self, item: T) -> None:
        heap, size = self._heap, self._size_of(item)
        place, half = 0, len(heap) >> 1
        while place < half:
            below = 2 * place + 1
            if below + 1 < len(heap) and self._size_of(heap[below]) > self._size_of(heap[below + 1]):
                below += 1
            if size <= self._size_of(heap[below]):
                break
            heap[place] = heap[below]
            place = below
        heap[place] = item


class ProcessLoad:
    """What a process has been given so far. `load` is how many tasks that is for each of its members."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """By member the number of its tasks."""
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self.tasks: set[TaskId] = set()
        self._given = 0
        self._members: LeastFirst[tuple[str, int]] | None = None

    def add_member(self, member_id: str) -> None:
        self.counts[member_id] = 0

    @property
    def load(self) -> float:
        return self._given / len(self.counts)

    def give(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        """How many tasks the member has now."""
        self._members = None
        return self._give(member_id, task, is_active=is_active)

    def give_to_least_loaded(self, task: TaskId, *, is_active: bool) -> int:
        """The same, to the member with the fewest."""
        if len(self.counts) == 1:
            return self._give(next(iter(self.counts)), task, is_active=is_active)
        if self._members is None:
            self._members = LeastFirst(self.counts.items(), lambda member: member[1])
        least = self._members.take()
        assert least is not None
        count = self._give(least[0], task, is_active=is_active)
        self._members.add((least[0], count))
        return count

    def _give(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        self._given += 1
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]
