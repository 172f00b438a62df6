"""The assignor `simple`: every partition is with enough members that each of them has one, and all have about as many.

A partition is taken records from by ceil(members / partitions) members. Members' shares differ by one at most; of the assignments
that are so balanced, one is chosen in which members keep much of what they had. Where members read different topics, this is so
for each topic and the members that read it.

Where the members' number does not divide evenly the members with the larger shares are those who have more already, which costs
fewer moves than Kafka's choice by order. Where a partition wants a member and all that have room have it already, Kafka leaves it
at that; here one of them takes a partition off another member's hands, which takes this one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tidelog.coordination.consumer.assignors.subscription import Assignment, sort_by_topic
from tidelog.model.ids import TopicId

NAME = "simple"


class ShareSubscription(NamedTuple):
    """A member, as far as its share depends on it."""

    topics: frozenset[TopicId]
    """Those that exist."""
    assignment: Assignment
    """What it was meant to have so far."""


Place = tuple[TopicId, int]


def assign_simply(
    members: Mapping[str, ShareSubscription], assignable: Mapping[TopicId, Collection[int]]
) -> dict[str, Assignment]:
    """An assignment for each member, of partitions that may be given to members."""
    topics = sorted({topic_id for member in members.values() for topic_id in member.topics})
    places = {topic_id: [(topic_id, each) for each in sorted(assignable.get(topic_id, ()))] for topic_id in topics}
    if all(len(member.topics) == len(topics) for member in members.values()):
        groups = [([place for topic_id in topics for place in places[topic_id]], sorted(members))]
    else:
        groups = [
            (places[topic_id], sorted(each for each, member in members.items() if topic_id in member.topics))
            for topic_id in topics
        ]
    assigned: dict[str, dict[TopicId, list[int]]] = {member_id: {} for member_id in members}
    had = {
        member_id: {(topic_id, each) for topic_id, partitions in member.assignment.items() for each in partitions}
        for member_id, member in members.items()
    }
    for together, member_ids in groups:
        for member_id, taken in _spread(together, member_ids, had).items():
            for topic_id, partition in taken:
                assigned[member_id].setdefault(topic_id, []).append(partition)
    return {member_id: sort_by_topic(partitions) for member_id, partitions in assigned.items()}


def _spread(
    places: Sequence[Place], member_ids: Sequence[str], had: Mapping[str, Collection[Place]]
) -> dict[str, set[Place]]:
    """Share out places among members that may have any of them."""
    if not places:
        return {}
    sharing = -(-len(member_ids) // len(places))
    taken = {member_id: {place for place in places if place in had[member_id]} for member_id in member_ids}
    holders = _holders(places, taken)
    wanted = _wanted(sharing * len(places), taken)
    for member_id in member_ids:
        # What most others have too is what is missed least.
        surplus = sorted(taken[member_id], key=lambda place: (-len(holders[place]), place))
        for place in surplus[: max(0, len(taken[member_id]) - wanted[member_id])]:
            _take_away(member_id, place, taken, holders)
    for place in places:
        while len(holders[place]) > sharing:
            fullest = max(holders[place], key=lambda member_id: (len(taken[member_id]) - wanted[member_id], member_id))
            _take_away(fullest, place, taken, holders)
    unfilled = [member_id for member_id in member_ids if len(taken[member_id]) < wanted[member_id]]
    for place in places:
        for _ in range(sharing - len(holders[place])):
            free = [member_id for member_id in unfilled if member_id not in holders[place]]
            if free:
                neediest = min(free, key=lambda member_id: (len(taken[member_id]) - wanted[member_id], member_id))
                _give(neediest, place, taken, holders)
            else:
                neediest = unfilled[0]
                _pass_on(neediest, place, member_ids, taken, holders)
            if len(taken[neediest]) == wanted[neediest]:
                unfilled.remove(neediest)
    return taken


def _wanted(total: int, taken: Mapping[str, Collection[Place]]) -> dict[str, int]:
    """How many places each member is to have."""
    base, larger = divmod(total, len(taken))
    by_count = sorted(taken, key=lambda member_id: (-len(taken[member_id]), member_id))
    return {member_id: base + (position < larger) for position, member_id in enumerate(by_count)}


def _holders(places: Iterable[Place], taken: Mapping[str, set[Place]]) -> dict[Place, set[str]]:
    holders: dict[Place, set[str]] = {place: set() for place in places}
    for member_id, mine in taken.items():
        for place in mine:
            holders[place].add(member_id)
    return holders


def _pass_on(
    member_id: str,
    place: Place,
    member_ids: Sequence[str],
    taken: Mapping[str, set[Place]],
    holders: Mapping[Place, set[str]],
) -> None:
    """One more place for a member that has this one already: one of a member that has not, and gets it instead.

    There is one: whoever has not this place has as many as it is to have, so not fewer than the member, and not all the same.
    """
    other = next(each for each in member_ids if each not in holders[place])
    spare = min(taken[other] - taken[member_id])
    _take_away(other, spare, taken, holders)
    _give(other, place, taken, holders)
    _give(member_id, spare, taken, holders)


def _give(member_id: str, place: Place, taken: Mapping[str, set[Place]], holders: Mapping[Place, set[str]]) -> None:
    taken[member_id].add(place)
    holders[place].add(member_id)


def _take_away(
    member_id: str, place: Place, taken: Mapping[str, set[Place]], holders: Mapping[Place, set[str]]
) -> None:
    taken[member_id].discard(place)
    holders[place].discard(member_id)
