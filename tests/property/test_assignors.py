"""What every assignor promises, for any group: complete, disjoint, balanced; the sticky ones move little, and settle."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from tidelog.client.consumer.assignors import ASSIGNORS, Assignor
from tidelog.client.consumer.assignors.assignor import Assignment, LastAssignment, MemberSubscription, PartitionRacks
from tidelog.client.consumer.topic_partition import TopicPartition

STICKY = [ASSIGNORS["sticky"], ASSIGNORS["cooperative-sticky"]]
RACKS = st.sampled_from(["a", "b", "c"])
TOPICS = ["t0", "t1", "t2", "t3"]

clusters = st.dictionaries(
    st.sampled_from(TOPICS),
    st.lists(st.frozensets(RACKS, max_size=3), min_size=1, max_size=9),
    max_size=4,
)
subscriptions = st.builds(
    MemberSubscription,
    topics=st.lists(st.sampled_from(TOPICS), max_size=4, unique=True).map(tuple),
    rack_id=st.none() | RACKS,
    group_instance_id=st.none(),
)
groups = st.dictionaries(st.sampled_from([f"m{each}" for each in range(7)]), subscriptions, min_size=1, max_size=7)
uniform_groups = st.builds(
    lambda members, topics: {member: MemberSubscription(topics) for member in members},
    st.sets(st.sampled_from([f"m{each}" for each in range(7)]), min_size=1),
    st.lists(st.sampled_from(TOPICS), min_size=1, max_size=4, unique=True).map(tuple),
)


def check_complete(partitions: PartitionRacks, members: Mapping[str, MemberSubscription], made: Assignment) -> None:
    assert set(made) == set(members)
    given_out = [each for assigned in made.values() for each in assigned]
    assert len(given_out) == len(set(given_out)), "a partition went to two members"
    wanted = {topic for each in members.values() for topic in each.topics}
    assert set(given_out) == {
        TopicPartition(topic, index)
        for topic, racks in partitions.items()
        if topic in wanted
        for index in range(len(racks))
    }
    for member, assigned in made.items():
        assert {each.topic for each in assigned} <= set(members[member].topics)


def check_balanced(members: Mapping[str, MemberSubscription], made: Assignment) -> None:
    for member, assigned in made.items():
        for other, others in made.items():
            if len(assigned) > len(others) + 1:
                takeable = {each.topic for each in assigned} & set(members[other].topics)
                assert not takeable, f"{member} has {len(assigned)} and could give to {other}, which has {len(others)}"


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=lambda each: each.name)
@given(clusters, groups)
def test_everything_goes_to_exactly_one_subscriber(
    assignor: Assignor, partitions: PartitionRacks, members: dict[str, MemberSubscription]
) -> None:
    check_complete(partitions, members, assignor.assign(partitions, members))


@given(clusters, groups)
def test_range_gives_everybody_a_fair_part_of_every_topic(
    partitions: PartitionRacks, members: dict[str, MemberSubscription]
) -> None:
    made = ASSIGNORS["range"].assign(partitions, members)

    for topic in partitions:
        sizes = [
            sum(each.topic == topic for each in made[member]) for member in members if topic in members[member].topics
        ]
        assert not sizes or max(sizes) - min(sizes) <= 1


@given(clusters, uniform_groups)
def test_round_robin_is_balanced_where_all_want_the_same(
    partitions: PartitionRacks, members: dict[str, MemberSubscription]
) -> None:
    sizes = [len(each) for each in ASSIGNORS["roundrobin"].assign(partitions, members).values()]

    assert max(sizes) - min(sizes) <= 1


def joining_again(
    assignor: Assignor, members: Mapping[str, MemberSubscription], made: Assignment, generation_id: int
) -> dict[str, MemberSubscription]:
    """The members as they join the next rebalance, with what they were assigned."""
    again = {}
    for member, subscription in members.items():
        last = LastAssignment(tuple(made.get(member, ())), generation_id if member in made else -1)
        again[member] = subscription._replace(
            owned=last.partitions if assignor.is_cooperative else (),
            generation_id=last.generation_id,
            user_data=assignor.user_data(last),
        )
    return again


@pytest.mark.parametrize("assignor", STICKY, ids=lambda each: each.name)
@given(clusters, groups)
def test_sticky_is_balanced_and_stays_as_it_is(
    assignor: Assignor, partitions: PartitionRacks, members: dict[str, MemberSubscription]
) -> None:
    made = assignor.assign(partitions, members)
    check_balanced(members, made)

    again = assignor.assign(partitions, joining_again(assignor, members, made, 1))

    assert {member: sorted(each) for member, each in again.items()} == {
        member: sorted(each) for member, each in made.items()
    }


@pytest.mark.parametrize("assignor", STICKY, ids=lambda each: each.name)
@given(clusters, groups, groups)
def test_sticky_after_members_came_and_went_moves_no_more_than_balance_asks_for(
    assignor: Assignor,
    partitions: PartitionRacks,
    before: dict[str, MemberSubscription],
    after: dict[str, MemberSubscription],
) -> None:
    first = assignor.assign(partitions, before)

    joined = joining_again(assignor, after, first, 1)
    second = assignor.assign(partitions, joined)
    # A cooperative group joins once more when something has to be given up, and then has settled.
    third = assignor.assign(partitions, joining_again(assignor, after, second, 2))

    check_complete(partitions, after, third)
    check_balanced(after, third)
    if assignor.is_cooperative:
        for member, owned in joined.items():
            others = {each for other, had in joined.items() if other != member for each in had.owned}
            assert not others & set(second[member]) - set(owned.owned), "given away before its owner gave it up"


@pytest.mark.parametrize("assignor", STICKY, ids=lambda each: each.name)
@given(clusters, uniform_groups, st.sets(st.sampled_from([f"m{each}" for each in range(7)]), min_size=1))
def test_sticky_keeps_what_fits_into_everybodys_share(
    assignor: Assignor, partitions: PartitionRacks, before: dict[str, MemberSubscription], names: set[str]
) -> None:
    first = assignor.assign(partitions, before)
    after = {member: next(iter(before.values())) for member in names}

    joined = joining_again(assignor, after, first, 1)
    second = assignor.assign(partitions, joined)

    total = sum(len(each) for each in first.values())
    share, larger = divmod(total, len(after))
    # Nobody has to give up more than what is over the share, and as many as there are larger shares keep one more.
    had = sorted((len(first.get(member, ())) for member in after), reverse=True)
    keepable = sum(min(size, share + (index < larger)) for index, size in enumerate(had))
    kept = sum(len(set(second[member]) & set(first.get(member, ()))) for member in after)
    assert kept == keepable
