"""How a member comes from the tasks that it has to those that it should have.

    what it has, and keeps               stays assigned
    what it has, and should not have     is to be revoked: the member stays in its epoch until it says that it let go
    what it should have, and is free     is assigned, together with the target's epoch
    what it should have, and is not free waits until it is

An active task is free if no process has it, and the member's own has it in no role. A standby is free if the member's own process
has the task in no role. The rules that follow, and for which all of this is made: no task is active twice, and no process has a
task twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.streams.member import MemberState, StreamsMember
from tidelog.coordination.streams.tasks import (
    NOTHING_OWNED,
    OwnedTasks,
    Tasks,
    TaskSets,
    TasksSince,
    shares_any,
    sort_tasks,
)
from tidelog.model.errors import ErrorCode


class TaskHolders(Protocol):
    """Which processes have a task, or have yet to let go of it."""

    def active_process(self, subtopology_id: str, partition: int) -> str | None: ...

    def is_standby_at(self, process_id: str, subtopology_id: str, partition: int) -> bool: ...

    def is_warmup_at(self, process_id: str, subtopology_id: str, partition: int) -> bool: ...


class Goal(Struct, frozen=True):
    """Where a member is to go."""

    epoch: int
    target: TaskSets
    holders: TaskHolders


def reconcile(member: StreamsMember, goal: Goal, claimed: TaskSets | None) -> StreamsMember:
    """The member's next step; the same object where there is none. `claimed` is what it says it has; None: it does not say."""
    if member.state is MemberState.STABLE:
        if member.member_epoch == goal.epoch:
            return member
        return _next_assignment(member, member.member_epoch, goal, claimed)
    if member.state is MemberState.UNREVOKED_TASKS:
        if claimed is None or shares_any(claimed, member.pending_revocation):
            return member
        # One more although the target may be further: what it has yet to revoke is of another assignment now.
        return _next_assignment(member, member.member_epoch + 1, goal, claimed)
    if member.state is MemberState.UNKNOWN:
        if claimed is None or not claimed.is_empty:
            raise RefusedError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
            )
        return _next_assignment(member, goal.epoch, goal, claimed)
    return _next_assignment(member, member.member_epoch, goal, claimed)


class _Step(NamedTuple):
    """Of the tasks in one role."""

    keeps: Tasks
    revokes: Tasks
    gains: Tasks
    is_waiting: bool


def _next_assignment(member: StreamsMember, epoch: int, goal: Goal, claimed: TaskSets | None) -> StreamsMember:
    """`epoch` is the member's until it has let go of what it should not have."""
    holders, process_id, has = goal.holders, member.process_id, member.assigned

    def is_copied_here(name: str, partition: int) -> bool:
        return holders.is_standby_at(process_id, name, partition) or holders.is_warmup_at(process_id, name, partition)

    def is_active_somewhere(name: str, partition: int) -> bool:
        return holders.active_process(name, partition) is not None or is_copied_here(name, partition)

    def is_here(name: str, partition: int) -> bool:
        return holders.active_process(name, partition) == process_id or is_copied_here(name, partition)

    active = _step(has.active, goal.target.active, is_active_somewhere)
    standby = _step(has.standby, goal.target.standby, is_here)
    warmup = _step(has.warmup, goal.target.warmup, is_here)
    keeps = OwnedTasks(_since(active.keeps, has.active), standby.keeps, warmup.keeps)
    revokes = OwnedTasks(_since(active.revokes, has.active), standby.revokes, warmup.revokes)
    if not revokes.is_empty and (claimed is None or shares_any(claimed, revokes)):
        return _moved(member, MemberState.UNREVOKED_TASKS, epoch, keeps, revokes)
    gained: dict[str, dict[int, int]] = {name: dict(since) for name, since in keeps.active.items()}
    for name, partitions in active.gains.items():
        gained.setdefault(name, {}).update(dict.fromkeys(partitions, goal.epoch))
    assigned = OwnedTasks(
        {name: dict(sorted(since.items())) for name, since in sorted(gained.items())},
        _merged(standby.keeps, standby.gains),
        _merged(warmup.keeps, warmup.gains),
    )
    is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
    state = MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE
    return _moved(member, state, goal.epoch, assigned, NOTHING_OWNED)


def _step(has: Mapping[str, Iterable[int]], target: Tasks, is_held: Callable[[str, int], bool]) -> _Step:
    keeps: dict[str, set[int]] = {}
    revokes: dict[str, set[int]] = {}
    gains: dict[str, set[int]] = {}
    is_waiting = False
    for name in {*has, *target}:
        mine, wanted = set(has.get(name, ())), set(target.get(name, ()))
        keeps[name] = mine & wanted
        revokes[name] = mine - wanted
        free = {partition for partition in wanted - mine if not is_held(name, partition)}
        gains[name] = free
        is_waiting = is_waiting or len(free) < len(wanted - mine)
    return _Step(sort_tasks(keeps), sort_tasks(revokes), sort_tasks(gains), is_waiting)


def _since(tasks: Tasks, known: TasksSince) -> TasksSince:
    return {name: {partition: known[name][partition] for partition in each} for name, each in tasks.items()}


def _merged(some: Tasks, others: Tasks) -> Tasks:
    return sort_tasks({name: {*some.get(name, ()), *others.get(name, ())} for name in {*some, *others}})


def _moved(
    member: StreamsMember, state: MemberState, epoch: int, assigned: OwnedTasks, revokes: OwnedTasks
) -> StreamsMember:
    return replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
        pending_revocation=revokes,
    )
