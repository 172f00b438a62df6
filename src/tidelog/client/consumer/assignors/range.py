"""Runs of each topic's partitions, and the same runs of topics that have as many partitions and the same subscribers.

With five partitions and two members the first gets 0, 1 and 2, the second 3 and 4. So partition 3 of two topics that are
partitioned alike is always with the same member, who can join them. Where racks matter (KIP-881), partitions go first to
members in a rack that has a replica, as far as sizes and that promise allow; the rest is dealt out as if there were no racks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidelog.client.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    MemberSubscription,
    PartitionRacks,
    in_order,
    matters,
    subscribed_topics,
)
from tidelog.client.consumer.topic_partition import TopicPartition


class RangeAssignor(Assignor):
    """Kafka's `range`."""

    name = "range"

    def assign(self, partitions: PartitionRacks, members: Mapping[str, MemberSubscription]) -> Assignment:
        ordered = in_order(members)
        shares = [
            _TopicShares(
                topic, partitions[topic], [member for member in ordered if topic in members[member].topics], members
            )
            for topic in subscribed_topics(partitions, members)
        ]
        if any(each.racks_matter for each in shares):
            _assign_by_rack(shares)
        for each in shares:
            each.assign_runs(lambda _member, _partition: True)
        return {
            member: sorted(
                TopicPartition(each.topic, partition) for each in shares for partition in each.assigned.get(member, ())
            )
            for member in members
        }


def _assign_by_rack(shares: Sequence[_TopicShares]) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_TopicShares]] = {}
    for each in shares:
        alike.setdefault((tuple(each.subscribers), len(each.racks)), []).append(each)
    for together in alike.values():
        if len(together) > 1:
            _assign_together_by_rack(together)
        elif together[0].racks_matter:
            together[0].assign_runs(together[0].is_near)


def _assign_together_by_rack(shares: Sequence[_TopicShares]) -> None:
    """The same partition of all these topics to a member that is near a replica of each."""
    left = list(shares[0].subscribers)
    for partition in range(len(shares[0].racks)):
        for member in left:
            if all(each.is_near(member, partition) and each.room_of(member) for each in shares):
                for each in shares:
                    each.give(member, [partition])
                if not any(each.room_of(member) for each in shares):
                    left.remove(member)
                break


class _TopicShares:
    """One topic while it is shared out: who has how much of it, and what is left."""

    def __init__(
        self,
        topic: str,
        racks: Sequence[frozenset[str]],
        subscribers: list[str],
        members: Mapping[str, MemberSubscription],
    ) -> None:
        self.topic = topic
        self.racks = racks
        self.subscribers = subscribers
        self.assigned: dict[str, list[int]] = {member: [] for member in subscribers}
        self.racks_matter = matters(racks, [members[member].rack_id for member in subscribers])
        self._members = members
        self._left = list(range(len(racks)))
        self._size, self._larger = divmod(len(racks), len(subscribers))

    def room_of(self, member: str) -> int:
        """How many more partitions the member may get; as long as the larger shares last, one more."""
        return max(0, self._size + (self._larger > 0) - len(self.assigned[member]))

    def is_near(self, member: str, partition: int) -> bool:
        rack = self._members[member].rack_id
        return not rack or rack in self.racks[partition]

    def give(self, member: str, partitions: list[int]) -> None:
        mine = self.assigned[member]
        mine.extend(partitions)
        if len(mine) > self._size:
            self._larger -= 1
        taken = set(partitions)
        self._left = [each for each in self._left if each not in taken]

    def assign_runs(self, may_have: Callable[[str, int], bool]) -> None:
        for member in self.subscribers:
            fitting = [each for each in self._left if may_have(member, each)][: self.room_of(member)]
            if fitting:
                self.give(member, fitting)
