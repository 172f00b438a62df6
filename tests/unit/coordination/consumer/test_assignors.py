"""Each assignor: complete, disjoint, balanced, sticky, and linear in members and partitions."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tidelog.coordination.consumer.assignors import ASSIGNORS
from tidelog.coordination.consumer.assignors.range import assign_ranges
from tidelog.coordination.consumer.assignors.subscription import Assignment, Assignor, Subscription
from tidelog.coordination.consumer.assignors.uniform import assign_uniformly
from tidelog.model.ids import TopicId

Members = dict[str, Subscription]
Counts = dict[TopicId, int]


def _id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def _subscription(*topics: int, has: Assignment | None = None, instance_id: str | None = None) -> Subscription:
    return Subscription(instance_id, tuple(_id(topic) for topic in sorted(topics)), has or {})


def _with(members: Members, assignments: dict[str, Assignment]) -> Members:
    return {m: s._replace(assignment=assignments.get(m, {})) for m, s in members.items()}


def _pairs(assignment: Assignment) -> set[tuple[TopicId, int]]:
    return {(topic, partition) for topic, partitions in assignment.items() for partition in partitions}


def _check_complete(members: Members, counts: Counts, assignments: dict[str, Assignment]) -> None:
    assert set(assignments) == set(members)
    given_out = [pair for assignment in assignments.values() for pair in sorted(_pairs(assignment))]
    read = {topic for subscription in members.values() for topic in subscription.topics}
    assert sorted(given_out) == sorted((topic, p) for topic in read for p in range(counts[topic]))
    for member_id, assignment in assignments.items():
        assert set(assignment) <= set(members[member_id].topics)
        assert all(partitions and list(partitions) == sorted(partitions) for partitions in assignment.values())


def _loads(assignments: dict[str, Assignment]) -> dict[str, int]:
    return {member_id: len(_pairs(assignment)) for member_id, assignment in assignments.items()}


counts_of = st.lists(st.integers(1, 12), min_size=1, max_size=5).map(
    lambda sizes: {_id(number): size for number, size in enumerate(sizes)}
)


@st.composite
def mixed(draw: st.DrawFn) -> tuple[Members, Counts]:
    counts = draw(counts_of)
    members = {}
    for number in range(draw(st.integers(1, 8))):
        topics = tuple(sorted(draw(st.sets(st.sampled_from(sorted(counts))))))
        instance_id = draw(st.none() | st.just(f"i{number}"))
        members[f"m{number}"] = Subscription(instance_id, topics, {})
    return members, counts


@pytest.mark.parametrize("name", ["uniform", "range"])
@settings(deadline=None)
@given(case=mixed(), later=mixed())
def test_every_partition_has_one_owner_that_reads_it(
    name: str, case: tuple[Members, Counts], later: tuple[Members, Counts]
) -> None:
    assignor = ASSIGNORS[name]
    members, counts = case
    assignments = assignor(members, counts)
    _check_complete(members, counts, assignments)
    # Whatever it was before: members, topics and partitions may have come and gone since.
    members, counts = _with(later[0], assignments), later[1]
    _check_complete(members, counts, assignor(members, counts))


@settings(deadline=None)
@given(counts=counts_of, size=st.integers(1, 9))
def test_uniform_balances_equal_subscriptions_within_one(counts: Counts, size: int) -> None:
    members: Members = {f"m{number}": Subscription(None, tuple(sorted(counts)), {}) for number in range(size)}
    loads = _loads(assign_uniformly(members, counts)).values()
    assert max(loads) - min(loads) <= 1


@settings(deadline=None)
@given(case=mixed())
def test_uniform_leaves_no_move_that_would_balance_better(case: tuple[Members, Counts]) -> None:
    members, counts = case
    assignments = assign_uniformly(members, counts)
    loads = _loads(assignments)
    for giver, assignment in assignments.items():
        for taker, subscription in members.items():
            if set(assignment) & set(subscription.topics):
                assert loads[giver] - loads[taker] <= 1


@settings(deadline=None)
@given(case=mixed())
def test_uniform_changes_nothing_where_nothing_has_changed(case: tuple[Members, Counts]) -> None:
    members, counts = case
    assignments = assign_uniformly(members, counts)
    assert assign_uniformly(_with(members, assignments), counts) == assignments


@settings(deadline=None)
@given(counts=counts_of, size=st.integers(1, 8))
def test_uniform_moves_only_what_a_new_member_gets(counts: Counts, size: int) -> None:
    topics = tuple(sorted(counts))
    members: Members = {f"m{number}": Subscription(None, topics, {}) for number in range(size)}
    before = assign_uniformly(members, counts)
    after = assign_uniformly(_with(members, before) | {"new": Subscription(None, topics, {})}, counts)
    kept = sum(len(_pairs(before[member]) & _pairs(after[member])) for member in members)
    assert kept == sum(counts.values()) - len(_pairs(after["new"]))


@settings(deadline=None)
@given(counts=counts_of, size=st.integers(2, 8))
def test_uniform_moves_only_what_a_member_left_behind(counts: Counts, size: int) -> None:
    topics = tuple(sorted(counts))
    members: Members = {f"m{number}": Subscription(None, topics, {}) for number in range(size)}
    before = assign_uniformly(members, counts)
    del members["m0"]
    after = assign_uniformly(_with(members, before), counts)
    assert all(_pairs(before[member]) <= _pairs(after[member]) for member in members)


def test_range_gives_consecutive_partitions_and_the_same_of_each_topic() -> None:
    members = {"b": _subscription(1, 2), "a": _subscription(1, 2), "c": _subscription(1, 2)}
    assert assign_ranges(members, {_id(1): 7, _id(2): 7}) == {
        "a": {_id(1): (0, 1, 2), _id(2): (0, 1, 2)},
        "b": {_id(1): (3, 4), _id(2): (3, 4)},
        "c": {_id(1): (5, 6), _id(2): (5, 6)},
    }


def test_range_puts_static_members_first_by_instance_id() -> None:
    members = {
        "a": _subscription(1),
        "z": _subscription(1, instance_id="i1"),
        "y": _subscription(1, instance_id="i2"),
    }
    assert assign_ranges(members, {_id(1): 3}) == {"z": {_id(1): (0,)}, "y": {_id(1): (1,)}, "a": {_id(1): (2,)}}


def test_range_leaves_members_without_where_partitions_run_out() -> None:
    members = {"a": _subscription(1), "b": _subscription(1)}
    assert assign_ranges(members, {_id(1): 1}) == {"a": {_id(1): (0,)}, "b": {}}


@pytest.mark.parametrize("name", ["uniform", "range"])
def test_nobody_and_nothing(name: str) -> None:
    assert ASSIGNORS[name]({}, {}) == {}
    assert ASSIGNORS[name]({"a": _subscription()}, {}) == {"a": {}}


def _lines(assignor: Assignor, members: Members, counts: Counts) -> int:
    """How many lines of Python an assignment takes: work, counted without a clock."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        assignor(members, counts)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("name", ["uniform", "range"])
@pytest.mark.parametrize("is_mixed", [False, True])
def test_work_grows_with_members_and_partitions_not_with_their_product(name: str, is_mixed: bool) -> None:
    size, topics, partitions = 1_000, 10, 1_000
    members = {
        f"m{number:04}": _subscription(*range(topics - (number % 2 if is_mixed else 0))) for number in range(size)
    }
    counts = {_id(number): partitions for number in range(topics)}
    assignor = ASSIGNORS[name]
    joined = _with(members, assignor(members, counts)) | {"new": members["m0000"]}
    subscriptions = size * topics
    assert _lines(assignor, joined, counts) < 25 * (subscriptions + topics * partitions)
