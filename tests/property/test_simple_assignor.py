"""The assignor of share groups: how even its assignments are, and how much of them stays when a group changes."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, strategies as st

from tests.support.examples import examples
from tidelog.coordination.consumer.assignors.subscription import Assignment
from tidelog.coordination.share.simple_assignor import ShareSubscription, assign_simply
from tidelog.model.ids import TopicId

TOPICS = [TopicId(bytes([number]) * 16) for number in range(4)]
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 8), min_size=1)
MEMBERS = st.lists(st.sampled_from([f"m{number}" for number in range(12)]), min_size=1, unique=True)


def _assign(
    reads: Mapping[str, frozenset[TopicId]], counts: Mapping[TopicId, int], before: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    members = {member: ShareSubscription(topics, before.get(member, {})) for member, topics in reads.items()}
    return assign_simply(members, {topic: range(count) for topic, count in counts.items()})


def _sizes(assigned: Mapping[str, Assignment]) -> list[int]:
    return [sum(map(len, each.values())) for each in assigned.values()]


def _places(assignment: Assignment) -> set[tuple[TopicId, int]]:
    return {(topic, partition) for topic, partitions in assignment.items() for partition in partitions}


@examples(200)
@given(MEMBERS, COUNTS)
def test_a_new_group_of_equal_members_is_shared_out_evenly(members: list[str], counts: dict[TopicId, int]) -> None:
    reads = dict.fromkeys(members, frozenset(counts))

    assigned = _assign(reads, counts, {})

    total = sum(counts.values())
    sharing = -(-len(members) // total)
    assert sum(_sizes(assigned)) == sharing * total
    assert max(_sizes(assigned)) - min(_sizes(assigned)) <= 1
    for topic, count in counts.items():
        for partition in range(count):
            assert sum(partition in each.get(topic, ()) for each in assigned.values()) == sharing


@examples(300)
@given(st.lists(st.tuples(MEMBERS, COUNTS), min_size=2, max_size=5))
def test_whatever_a_group_went_through_it_is_shared_out_evenly_and_then_stays(
    steps: list[tuple[list[str], dict[TopicId, int]]],
) -> None:
    before: dict[str, Assignment] = {}
    for members, counts in steps:
        assigned = _assign(dict.fromkeys(members, frozenset(counts)), counts, before)
        total = sum(counts.values())
        sharing = -(-len(members) // total)
        assert max(_sizes(assigned)) - min(_sizes(assigned)) <= 1
        for topic, count in counts.items():
            for partition in range(count):
                assert sum(partition in each.get(topic, ()) for each in assigned.values()) == sharing
        assert _assign(dict.fromkeys(members, frozenset(counts)), counts, assigned) == assigned
        before = assigned


@examples(200)
@given(MEMBERS, COUNTS)
def test_when_a_member_leaves_the_others_keep_what_they_may(members: list[str], counts: dict[TopicId, int]) -> None:
    total = sum(counts.values())
    before = _assign(dict.fromkeys(members, frozenset(counts)), counts, {})
    stay = members[1:]
    if not stay or len(members) > total:
        # Where partitions are with several members, some may have to be passed on.
        return

    after = _assign(dict.fromkeys(stay, frozenset(counts)), counts, {member: before[member] for member in stay})

    assert all(_places(before[member]) <= _places(after[member]) for member in stay)


SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(8)]),
    st.frozensets(st.sampled_from(TOPICS), min_size=1),
    min_size=1,
)


@examples(300)
@given(SUBSCRIPTIONS, SUBSCRIPTIONS, st.tuples(*[st.integers(1, 6)] * len(TOPICS)))
def test_members_that_read_different_topics_share_each_topic_evenly(
    first: dict[str, frozenset[TopicId]], second: dict[str, frozenset[TopicId]], sizes: tuple[int, ...]
) -> None:
    counts = dict(zip(TOPICS, sizes, strict=True))
    before = _assign(first, counts, {})

    assigned = _assign(second, counts, before)

    for member, assignment in assigned.items():
        assert assignment.keys() <= second[member]
    is_mixed = len(set(second.values())) > 1
    for topic in {topic for topics in second.values() for topic in topics}:
        readers = [member for member, topics in second.items() if topic in topics]
        holders = [
            sum(partition in assigned[member].get(topic, ()) for member in readers)
            for partition in range(counts[topic])
        ]
        assert min(holders) >= 1
        if is_mixed:
            shares = [len(assigned[member].get(topic, ())) for member in readers]
            assert set(holders) == {-(-len(readers) // counts[topic])}
            assert max(shares) - min(shares) <= 1
