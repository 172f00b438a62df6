"""The assignor `sticky`: who had a task keeps it, as far as the load stays even.

1  an active task goes to the member that had it, and then to one that was its standby, as long as that one has fewer tasks than
   its share
2  the other active tasks go, one subtopology after the other, to the process with the least load, and its least busy member
3  standbys go to whoever had the task active or as a standby, and then to the least loaded process that has not the task at all;
   where there are too few processes for the standbys that are wanted, there are fewer

A share is the number of tasks by the number of members, rounded up, of those that are not full yet. A process never has the same
task twice: its members share a disk and a fate.

The tasks of every member are those that Kafka 4.3 gives out for members and processes in this order, including where several are
equally busy. Kafka goes through them in the order of its hash tables; here it is the order of their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.coordination.streams.process_load import LeastFirst, ProcessLoad, TaskId
from tidelog.coordination.streams.tasks import Tasks, TaskSets, sort_tasks

NAME = "sticky"


class AssignedMember(NamedTuple):
    """A member, as far as its tasks depend on it."""

    process_id: str
    had: TaskSets
    """What it was meant to have so far."""


class SubtopologyTasks(NamedTuple):
    task_count: int
    is_stateful: bool


class _Holder(NamedTuple):
    process_id: str
    member_id: str


class _Share:
    """How many tasks a member should have: what is left by who is left."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.each = _rounded_up(tasks, members)

    def given(self, count: int) -> None:
        """A member has this many now. One that has its share is out of the reckoning."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = _rounded_up(self._tasks, self._members)


def assign_stickily(
    members: Mapping[str, AssignedMember], subtopologies: Mapping[str, SubtopologyTasks], standby_count: int
) -> dict[str, TaskSets]:
    """The tasks of each member. There is at least one member."""
    return _Assigning(members, subtopologies, standby_count).assigned()


class _Assigning:
    """One assignment in the making."""

    def __init__(
        self, members: Mapping[str, AssignedMember], subtopologies: Mapping[str, SubtopologyTasks], standby_count: int
    ) -> None:
        self._member_ids = sorted(members)
        self._subtopologies = dict(sorted(subtopologies.items()))
        self._standby_count = standby_count
        active = sum(each.task_count for each in subtopologies.values())
        standbys = standby_count * sum(each.task_count for each in subtopologies.values() if each.is_stateful)
        self._active_share = _Share(active, len(members))
        self._share = _Share(active + standbys, len(members))
        self._had_active: dict[TaskId, _Holder] = {}
        self._had_standby: dict[TaskId, list[_Holder]] = {}
        processes: dict[str, ProcessLoad] = {}
        for member_id in self._member_ids:
            member = members[member_id]
            holder = _Holder(member.process_id, member_id)
            processes.setdefault(member.process_id, ProcessLoad()).add_member(member_id)
            for task in _each(member.had.active):
                self._had_active[task] = holder
            for task in _each(member.had.standby):
                self._had_standby.setdefault(task, []).append(holder)
        self._processes = dict(sorted(processes.items()))

    def assigned(self) -> dict[str, TaskSets]:
        self._assign_active()
        if self._standby_count:
            self._assign_standbys()
        assigned = {}
        for process in self._processes.values():
            for member_id in process.counts:
                active, standby = process.active.get(member_id, ()), process.standby.get(member_id, ())
                assigned[member_id] = TaskSets(_compact(active), _compact(standby))
        return {member_id: assigned[member_id] for member_id in self._member_ids}

    def _all_tasks(self, *, only_stateful: bool = False) -> list[TaskId]:
        return [
            TaskId(name, partition)
            for name, each in self._subtopologies.items()
            if each.is_stateful or not only_stateful
            for partition in range(each.task_count)
        ]

    # Active tasks

    def _assign_active(self) -> None:
        # By partition first: what reads the same partitions has been together so far, and is looked at together.
        waiting = sorted(self._all_tasks(), key=lambda task: (task.partition, task.subtopology_id))
        waiting = [task for task in waiting if not self._keeps_active(task, self._had_active.get(task))]
        waiting = [
            task for task in waiting if not self._keeps_active(task, self._least_loaded(self._had_standby.get(task)))
        ]
        by_load = self._by_load()
        for task in sorted(waiting):
            process = by_load.take()
            assert process is not None
            count = process.give_to_least_loaded(task, is_active=True)
            self._active_share.given(count)
            self._share.given(count)
            by_load.add(process)

    def _keeps_active(self, task: TaskId, holder: _Holder | None) -> bool:
        if holder is None:
            return False
        process = self._processes[holder.process_id]
        if process.counts[holder.member_id] >= self._active_share.each:
            return False
        count = process.give(holder.member_id, task, is_active=True)
        self._active_share.given(count)
        self._share.given(count)
        return True

    # Standbys

    def _assign_standbys(self) -> None:
        waiting: list[tuple[TaskId, int]] = []
        tasks = self._all_tasks(only_stateful=True)
        for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology_id), reverse=True):
            for done in range(self._standby_count):
                if not self._keeps_standby(task):
                    waiting.append((task, self._standby_count - done))
                    break
        by_load = self._by_load()
        for task, wanted in sorted(waiting, reverse=True):
            for _ in range(wanted):
                if not self._give_standby(task, by_load):
                    break

    def _keeps_standby(self, task: TaskId) -> bool:
        holder = self._had_active.get(task)
        if holder is not None and not self._has(holder, task) and self._give_standby_to(holder, task):
            return True
        holder = self._least_loaded(self._had_standby.get(task), without=task)
        return holder is not None and self._give_standby_to(holder, task)

    def _give_standby_to(self, holder: _Holder, task: TaskId) -> bool:
        process = self._processes[holder.process_id]
        if process.counts[holder.member_id] >= self._share.each:
            return False
        self._share.given(process.give(holder.member_id, task, is_active=False))
        return True

    def _give_standby(self, task: TaskId, by_load: LeastFirst[ProcessLoad]) -> bool:
        """To the least loaded process that has not the task; False where all have it."""
        passed: list[ProcessLoad] = []
        found = False
        while not found and (process := by_load.take()) is not None:
            passed.append(process)
            if task not in process.tasks:
                self._share.given(process.give_to_least_loaded(task, is_active=False))
                found = True
        for process in reversed(passed):
            by_load.add(process)
        return found

    # Who had a task

    def _has(self, holder: _Holder, task: TaskId) -> bool:
        return task in self._processes[holder.process_id].tasks

    def _least_loaded(self, holders: Sequence[_Holder] | None, without: TaskId | None = None) -> _Holder | None:
        """The least loaded of those who had a task as a standby; `without` a task, which its process must not have.

        As in Kafka nobody is found where the process of the first has it, whoever else there is.
        """
        if not holders:
            return None
        first = chosen = holders[0]
        process = self._processes[first.process_id]
        process_load, member_load = process.load, process.counts[first.member_id]
        for holder in holders[1:]:
            process = self._processes[holder.process_id]
            if process.load >= process_load or (without is not None and without in process.tasks):
                continue
            if process.counts[holder.member_id] < member_load:
                chosen, process_load, member_load = holder, process.load, process.counts[holder.member_id]
        return chosen if without is None or not self._has(first, without) else None

    def _by_load(self) -> LeastFirst[ProcessLoad]:
        return LeastFirst(self._processes.values(), lambda process: process.load)


def _each(tasks: Tasks) -> Iterable[TaskId]:
    return (TaskId(name, partition) for name, partitions in tasks.items() for partition in partitions)


def _compact(tasks: Iterable[TaskId]) -> Tasks:
    by_subtopology: dict[str, list[int]] = {}
    for task in tasks:
        by_subtopology.setdefault(task.subtopology_id, []).append(task.partition)
    return sort_tasks(by_subtopology)


def _rounded_up(tasks: int, members: int) -> int:
    return -(-tasks // members) if members else 0
