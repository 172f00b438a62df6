"""What an assignor is given, and what it answers with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tidelog.client.consumer.topic_partition import TopicPartition

PartitionRacks: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
"""Of each topic that exists, and each of its partitions in order, the racks that hold a replica of it."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""Of each member what it gets, also where that is nothing."""

NO_GENERATION = -1


class MemberSubscription(NamedTuple):
    """What a member of a group tells the leader about itself."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    """What it holds on to during the rebalance: only cooperative members do."""
    generation_id: int = NO_GENERATION
    """The last one in which it was assigned something."""
    rack_id: str | None = None
    group_instance_id: str | None = None


class LastAssignment(NamedTuple):
    """What a member was assigned last, by which a sticky assignor recognises it."""

    partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION


class Assignor(ABC):
    """A way to share out partitions. Without state: all that is remembered travels in the subscriptions."""

    name: str
    """By which the members of a group agree on one, whatever language they are written in."""
    is_cooperative = False
    """Whether members keep what they have while the group rebalances."""

    def user_data(self, _last: LastAssignment) -> bytes | None:
        """What a member adds to its subscription for this assignor alone."""
        return None

    @abstractmethod
    def assign(self, partitions: PartitionRacks, members: Mapping[str, MemberSubscription]) -> Assignment:
        """Every partition of a subscribed topic to exactly one of its subscribers."""


def in_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Member ids as Kafka's assignors sort them: static members by instance id first, so that a restart changes nothing."""

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].group_instance_id
        return (True, member_id) if instance_id is None else (False, instance_id)

    return sorted(members, key=rank)


def subscribed_topics(partitions: PartitionRacks, members: Mapping[str, MemberSubscription]) -> list[str]:
    """The topics that somebody is subscribed to and that exist, in order."""
    return sorted({topic for each in members.values() for topic in each.topics if partitions.get(topic)})


def matters(partition_racks: Iterable[frozenset[str]], member_racks: Iterable[str | None]) -> bool:
    """Whether racks make a difference: some are shared, and not every partition is in every rack (KIP-881)."""
    racks_of_members = {rack for rack in member_racks if rack}
    racks_of_partitions = list(partition_racks)
    everywhere = frozenset[str]().union(*racks_of_partitions)
    return not racks_of_members.isdisjoint(everywhere) and any(racks != everywhere for racks in racks_of_partitions)
