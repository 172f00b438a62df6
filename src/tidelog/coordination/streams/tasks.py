"""Tasks of a topology: a subtopology and the number of a partition of what it reads, in one of three roles.

An active task processes records; a standby keeps a copy of its state; a warm-up is on its way to be active. Kafka 4.3 has room
for warm-ups in every message and record, and no assignor that gives one out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct

Tasks = Mapping[str, tuple[int, ...]]
"""By subtopology the tasks, in ascending order. No subtopology without tasks."""

TasksSince = Mapping[str, Mapping[int, int]]
"""The same, each task with the epoch in which its member got it."""


class NamesTasks(Protocol):
    """Tasks of one subtopology, as messages and records have them."""

    subtopology_id: str
    partitions: list[int]


class TaskSets(Struct, frozen=True):
    """What a member should have, or says it has."""

    active: Tasks = {}
    standby: Tasks = {}
    warmup: Tasks = {}

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class OwnedTasks(Struct, frozen=True):
    """What a member has."""

    active: TasksSince = {}
    standby: Tasks = {}
    warmup: Tasks = {}

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


NO_TASKS = TaskSets()
NOTHING_OWNED = OwnedTasks()


def tasks_of(named: Iterable[NamesTasks]) -> Tasks:
    """Tasks as they are kept. A subtopology that is named twice has all tasks of both."""
    found: dict[str, set[int]] = {}
    for each in named:
        found.setdefault(each.subtopology_id, set()).update(each.partitions)
    return sort_tasks(found)


def sort_tasks(tasks: Mapping[str, Iterable[int]]) -> Tasks:
    """The same tasks in order, without subtopologies that have none."""
    return {name: tuple(sorted(numbers)) for name, numbers in sorted(tasks.items()) if numbers}


def is_within(tasks: Tasks, owned: Mapping[str, Iterable[int]]) -> bool:
    """Whether all of these tasks are among the others."""
    return all(set(numbers) <= set(owned.get(name, ())) for name, numbers in tasks.items())


def shares_any(tasks: TaskSets, owned: OwnedTasks) -> bool:
    """Whether a task is in both, in the same role."""
    return (
        _overlap(tasks.active, owned.active)
        or _overlap(tasks.standby, owned.standby)
        or _overlap(tasks.warmup, owned.warmup)
    )


def _overlap(tasks: Tasks, owned: Mapping[str, Iterable[int]]) -> bool:
    return any(not set(numbers).isdisjoint(owned.get(name, ())) for name, numbers in tasks.items())
