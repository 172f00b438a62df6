"""Balanced first, then as little movement as possible.

Balanced: no member has two partitions more than another one that could take one of them. Sticky: a partition leaves its member
only where balance asks for it, or because the member is not subscribed any more.

A member says what it had and in which generation. Of two that name the same partition the later generation is believed, and of
two in the same generation neither: one of them must be wrong. The claims are what there is to keep:

1. Members keep what they claim; all alike subscribed, no more than their share of it.
2. What nobody keeps goes to the member with the least, in the same rack where racks matter.
3. Where subscriptions differ, partitions move from the fullest members to emptier ones until that helps no more.

The member's word travels as user data, in the format of Kafka's Java client: topics with partitions, then the generation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from heapq import heapify, heappop, heappush
from struct import Struct as Layout, error as struct_error

from tidelog.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    Assignor,
    LastAssignment,
    MemberSubscription,
    PartitionRacks,
    matters,
    subscribed_topics,
)
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic

_INT16 = Layout(">h")
_INT32 = Layout(">i")


class StickyAssignor(Assignor):
    """Kafka's `sticky`."""

    name = "sticky"

    def user_data(self, last: LastAssignment) -> bytes | None:
        return encode_last_assignment(last) if last.generation_id != NO_GENERATION else None

    def claim_of(self, member: MemberSubscription) -> LastAssignment:
        """What the member says that it had."""
        return decode_last_assignment(member.user_data or b"")

    def assign(self, partitions: PartitionRacks, members: Mapping[str, MemberSubscription]) -> Assignment:
        topics = subscribed_topics(partitions, members)
        claims = believed_claims(
            {member: self.claim_of(each) for member, each in members.items()},
            {member: {topic for topic in each.topics if topic in partitions} for member, each in members.items()},
            partitions,
        )
        sharing = _Sharing(partitions, topics, members, claims)
        if len({frozenset(each.topics).intersection(topics) for each in members.values()}) == 1:
            sharing.keep_shares()
        else:
            sharing.keep_all()
        sharing.assign_rest()
        sharing.balance()
        return sharing.assignment()


def believed_claims(
    claims: Mapping[str, LastAssignment], topics_of: Mapping[str, Collection[str]], partitions: PartitionRacks
) -> dict[str, list[TopicPartition]]:
    """Of each member the partitions that were its own, exist, and that it is still subscribed to."""
    owner: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in sorted(claims):
        generation = claims[member].generation_id
        for partition in set(claims[member].partitions):
            known = owner.get(partition)
            if known is None or known[0] < generation:
                owner[partition] = (generation, member)
            elif known[0] == generation:
                owner[partition] = (generation, None)
    believed: dict[str, list[TopicPartition]] = {member: [] for member in claims}
    for partition in sorted(owner):
        member_or_none = owner[partition][1]
        if (
            member_or_none is not None
            and partition.topic in topics_of[member_or_none]
            and 0 <= partition.partition < len(partitions[partition.topic])
        ):
            believed[member_or_none].append(partition)
    return believed


class _Sharing:
    """The partitions while they are shared out."""

    def __init__(
        self,
        partitions: PartitionRacks,
        topics: list[str],
        members: Mapping[str, MemberSubscription],
        claims: Mapping[str, list[TopicPartition]],
    ) -> None:
        self._racks = {
            TopicPartition(topic, index): racks for topic in topics for index, racks in enumerate(partitions[topic])
        }
        self._members = members
        self._claims = claims
        # Ordered sets: who has what, and whose each partition is.
        self._assigned: dict[str, dict[TopicPartition, None]] = {member: {} for member in sorted(members)}
        self._owner: dict[TopicPartition, str] = {}
        self._subscribers = {
            topic: [member for member in self._assigned if topic in members[member].topics] for topic in topics
        }
        self._racks_matter = matters(self._racks.values(), [each.rack_id for each in members.values()])

    def assignment(self) -> Assignment:
        return {member: sorted(self._assigned[member]) for member in self._members}

    def keep_all(self) -> None:
        """Everybody keeps what was theirs; balancing takes from those who have too much."""
        for member, claimed in self._claims.items():
            for partition in claimed:
                self._give(partition, member)

    def keep_shares(self) -> None:
        """All are subscribed alike, so that everybody's share is known: nobody keeps more."""
        share, larger = divmod(len(self._racks), len(self._members))
        for member in sorted(self._claims, key=lambda each: (-len(self._claims[each]), each)):
            # What is near is kept before what is not; then the low numbers of all topics before the high ones.
            claimed = sorted(
                self._claims[member], key=lambda each: (not self._is_near(member, each), each.partition, each.topic)
            )
            kept = share
            if larger and len(claimed) > share:
                larger -= 1
                kept += 1
            for partition in claimed[:kept]:
                self._give(partition, member)

    def assign_rest(self) -> None:
        """What nobody has goes to the emptiest subscriber; where few could have it, earlier."""
        left = [each for each in self._racks if each not in self._owner]
        left.sort(key=lambda each: (len(self._subscribers[each.topic]), each))
        if self._racks_matter:
            left = self._assign_near(left)
        queues: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        for partition in left:
            subscribers = tuple(self._subscribers[partition.topic])
            queue = queues.get(subscribers)
            if queue is None:
                queue = queues[subscribers] = [(len(self._assigned[member]), member) for member in subscribers]
                heapify(queue)
            while True:
                size, member = heappop(queue)
                if size == len(self._assigned[member]):
                    break
                # The member got something from another topic's subscribers meanwhile.
                heappush(queue, (len(self._assigned[member]), member))
            self._give(partition, member)
            heappush(queue, (size + 1, member))

    def _assign_near(self, left: list[TopicPartition]) -> list[TopicPartition]:
        """Give each partition to the emptiest member near one of its replicas, if that unbalances nothing; returns the rest."""
        share = -(-len(self._racks) // len(self._members))
        rest = []
        for partition in left:
            near = [
                member
                for member in self._subscribers[partition.topic]
                if self._members[member].rack_id in self._racks[partition] and len(self._assigned[member]) < share
            ]
            if near:
                self._give(partition, min(near, key=lambda each: (len(self._assigned[each]), each)))
            else:
                rest.append(partition)
        return rest

    def balance(self) -> None:
        """Move partitions until none can go from a member to one that has at least two fewer."""
        # Every move makes the sum of the squares of all sizes smaller, so this ends.
        while any([self._relieve(member) for member in self._fullest_first()]):  # noqa: C419 - all members, not the first
            pass

    def _fullest_first(self) -> list[str]:
        return sorted(self._assigned, key=lambda each: (-len(self._assigned[each]), each))

    def _relieve(self, member: str) -> bool:
        """Move what the member has too much to the emptiest that can take it; what it did not claim goes first."""
        claimed = set(self._claims[member])
        moved = False
        for partition in sorted(self._assigned[member], key=lambda each: (each in claimed, each)):
            size = len(self._assigned[member])
            emptier = [other for other in self._subscribers[partition.topic] if len(self._assigned[other]) + 1 < size]
            if emptier:
                self._give(partition, min(emptier, key=lambda other: self._attraction(partition, other)))
                moved = True
        return moved

    def _attraction(self, partition: TopicPartition, member: str) -> tuple[int, bool, bool, str]:
        return (
            len(self._assigned[member]),
            partition not in self._claims[member],
            not self._is_near(member, partition),
            member,
        )

    def _is_near(self, member: str, partition: TopicPartition) -> bool:
        return not self._racks_matter or self._members[member].rack_id in self._racks[partition]

    def _give(self, partition: TopicPartition, member: str) -> None:
        before = self._owner.get(partition)
        if before is not None:
            del self._assigned[before][partition]
        self._owner[partition] = member
        self._assigned[member][partition] = None


def encode_last_assignment(last: LastAssignment) -> bytes:
    """The user data of Kafka's sticky assignor: topics with their partitions, and the generation."""
    grouped = by_topic(last.partitions)
    parts = [_INT32.pack(len(grouped))]
    for topic, indexes in grouped.items():
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name, _INT32.pack(len(indexes)), *map(_INT32.pack, indexes)]
    parts.append(_INT32.pack(last.generation_id))
    return b"".join(parts)


def decode_last_assignment(data: bytes) -> LastAssignment:
    """What `encode_last_assignment` wrote, or an old client without the generation. Nothing where it cannot be read."""
    try:
        partitions, position = _read_partitions(data)
        generation_id = _INT32.unpack_from(data, position)[0] if len(data) - position >= 4 else NO_GENERATION
    except (struct_error, UnicodeDecodeError):
        return LastAssignment()
    return LastAssignment(tuple(partitions), generation_id)


def _read_partitions(data: bytes) -> tuple[list[TopicPartition], int]:
    partitions: list[TopicPartition] = []
    (topic_count,) = _INT32.unpack_from(data, 0)
    position = 4
    for _ in range(topic_count):
        (length,) = _INT16.unpack_from(data, position)
        topic = data[position + 2 : position + 2 + length].decode()
        position += 2 + length
        (count,) = _INT32.unpack_from(data, position)
        position += 4
        partitions.extend(TopicPartition(topic, index) for index in _each_index(data, position, count))
        position += 4 * max(0, count)
    return partitions, position


def _each_index(data: bytes, position: int, count: int) -> Iterator[int]:
    for each in range(count):
        yield _INT32.unpack_from(data, position + 4 * each)[0]
