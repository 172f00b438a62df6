"""The assignor of streams groups: every task is active once, nobody has it twice, it is even, and what can stay stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given, strategies as st

from tests.support.examples import examples
from tidelog.coordination.streams.process_load import LeastFirst
from tidelog.coordination.streams.sticky_assignor import AssignedMember, SubtopologyTasks, assign_stickily
from tidelog.coordination.streams.tasks import NO_TASKS, Tasks, TaskSets

PROCESSES = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(8)]), st.sampled_from("pqrs"), min_size=1, max_size=8
)
PARTS = st.dictionaries(
    st.sampled_from("012"), st.builds(SubtopologyTasks, st.integers(1, 6), st.booleans()), min_size=1
)
Parts = Mapping[str, SubtopologyTasks]


def _assign(
    processes: Mapping[str, str], parts: Parts, standbys: int, before: Mapping[str, TaskSets]
) -> dict[str, TaskSets]:
    members = {name: AssignedMember(process, before.get(name, NO_TASKS)) for name, process in processes.items()}
    return assign_stickily(members, parts, standbys)


def _each(tasks: Tasks) -> list[tuple[str, int]]:
    return [(name, number) for name, numbers in tasks.items() for number in numbers]


def _check(processes: Mapping[str, str], parts: Parts, standbys: int, assigned: Mapping[str, TaskSets]) -> None:
    assert set(assigned) == set(processes)
    active = Counter(task for each in assigned.values() for task in _each(each.active))
    assert active == Counter((name, number) for name, part in parts.items() for number in range(part.task_count))
    at = Counter(
        (processes[member], task)
        for member, each in assigned.items()
        for task in (*_each(each.active), *_each(each.standby))
    )
    assert set(at.values()) <= {1}, "a process has a task twice"
    copies = Counter(task for each in assigned.values() for task in _each(each.standby))
    possible = min(standbys, len(set(processes.values())) - 1)
    wanted = {
        (name, number): possible
        for name, part in parts.items()
        if part.is_stateful and possible
        for number in range(part.task_count)
    }
    assert copies == Counter(wanted), "a standby is missing, or too many"


@examples(300)
@given(PROCESSES, PARTS, st.integers(0, 2))
def test_a_new_group_has_every_task_once_and_as_many_standbys_as_there_are_processes_for(
    processes: dict[str, str], parts: dict[str, SubtopologyTasks], standbys: int
) -> None:
    assigned = _assign(processes, parts, standbys, {})

    _check(processes, parts, standbys, assigned)
    if len(set(processes.values())) in {1, len(processes)} and not standbys:
        sizes = [len(_each(each.active)) for each in assigned.values()]
        assert max(sizes) - min(sizes) <= 1


@examples(300)
@given(st.lists(st.tuples(PROCESSES, PARTS, st.integers(0, 2)), min_size=2, max_size=5))
def test_whatever_a_group_went_through_all_tasks_are_there(
    steps: list[tuple[dict[str, str], dict[str, SubtopologyTasks], int]],
) -> None:
    before: dict[str, TaskSets] = {}
    for processes, parts, standbys in steps:
        before = _assign(processes, parts, standbys, before)
        _check(processes, parts, standbys, before)


@examples(200)
@given(PROCESSES, PARTS)
def test_where_nothing_changes_every_active_task_stays(
    processes: dict[str, str], parts: dict[str, SubtopologyTasks]
) -> None:
    processes = {member: member for member in processes}
    first = _assign(processes, parts, 0, {})

    assert _assign(processes, parts, 0, first) == first


@examples(200)
@given(PROCESSES, PARTS)
def test_where_somebody_leaves_the_others_keep_what_they_had(
    processes: dict[str, str], parts: dict[str, SubtopologyTasks]
) -> None:
    processes = {member: member for member in processes}
    first = _assign(processes, parts, 0, {})
    stay = dict(sorted(processes.items())[1:])
    if not stay:
        return
    second = _assign(stay, parts, 0, first)

    for member in stay:
        assert set(_each(first[member].active)) <= set(_each(second[member].active))


@examples(100)
@given(st.lists(st.one_of(st.none(), st.integers(0, 3))))
def test_the_heap_gives_back_the_least_first(steps: list[int | None]) -> None:
    heap: LeastFirst[int] = LeastFirst([], float)
    model: list[int] = []
    for step in steps:
        if step is None:
            assert heap.take() == (min(model) if model else None)
            if model:
                model.remove(min(model))
        else:
            heap.add(step)
            model.append(step)
        assert len(heap) == len(model)
