"""`uniform` where members read different topics: nobody could take over a partition and leave both better balanced.

First everyone keeps what it may, then each free partition goes to the subscriber that has least, the topics with most partitions
for each subscriber first. At last partitions move from those who have most to those who have least, topic by topic, until a
round moves nothing. Each move makes the loads more equal, so the rounds end; there is a limit all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from tidelog.coordination.consumer.assignors.subscription import Assignment, Subscription, sort_by_topic
from tidelog.model.ids import TopicId

# Each round costs a look at every subscription; the gain of later rounds is small. As many as Kafka makes.
ROUNDS_MAX = 16


def assign_mixed(members: Mapping[str, Subscription], partition_counts: Mapping[TopicId, int]) -> dict[str, Assignment]:
    sharing = _Sharing(members, partition_counts)
    sharing.keep()
    sharing.share_out()
    sharing.balance()
    return sharing.assignments()


class _Sharing:
    """Members are numbered in the order of their ids; `owned[topic][member]` are partitions, the last one moves first."""

    def __init__(self, members: Mapping[str, Subscription], partition_counts: Mapping[TopicId, int]) -> None:
        self._order = sorted(members)
        self._members = [members[member_id] for member_id in self._order]
        self._load = [0] * len(self._order)
        self._subscribers: dict[TopicId, list[int]] = {}
        for number, subscription in enumerate(self._members):
            for topic in subscription.topics:
                self._subscribers.setdefault(topic, []).append(number)
        self._topics = sorted(
            self._subscribers,
            key=lambda topic: (
                -partition_counts[topic] / len(self._subscribers[topic]),
                len(self._subscribers[topic]),
                topic,
            ),
        )
        self._free = {topic: dict.fromkeys(range(partition_counts[topic])) for topic in self._topics}
        self._owned: dict[TopicId, dict[int, list[int]]] = {topic: {} for topic in self._topics}

    def keep(self) -> None:
        for number, subscription in enumerate(self._members):
            topics = set(subscription.topics)
            for topic, partitions in subscription.assignment.items():
                if topic not in topics:
                    continue
                free = self._free[topic]
                for partition in partitions:
                    if partition in free:
                        del free[partition]
                        self._give(topic, partition, number)

    def share_out(self) -> None:
        for topic in self._topics:
            if not self._free[topic]:
                continue
            least = [(self._load[number], number) for number in self._subscribers[topic]]
            heapify(least)
            for partition in self._free[topic]:
                load, number = heappop(least)
                self._give(topic, partition, number)
                heappush(least, (load + 1, number))

    def balance(self) -> None:
        topics = [topic for topic in self._topics if len(self._subscribers[topic]) > 1]
        for _ in range(ROUNDS_MAX):
            if not sum(self._balance_topic(topic) for topic in topics):
                return

    def assignments(self) -> dict[str, Assignment]:
        by_member: list[dict[TopicId, list[int]]] = [{} for _ in self._order]
        for topic, owners in self._owned.items():
            for number, partitions in owners.items():
                by_member[number][topic] = partitions
        return {
            member_id: sort_by_topic(partitions) for member_id, partitions in zip(self._order, by_member, strict=True)
        }

    def _give(self, topic: TopicId, partition: int, number: int) -> None:
        self._owned[topic].setdefault(number, []).append(partition)
        self._load[number] += 1

    def _balance_topic(self, topic: TopicId) -> int:
        load = self._load
        owners = self._owned[topic]
        least = [(load[number], number) for number in self._subscribers[topic]]
        most = [(-load[number], -number) for number, partitions in owners.items() if partitions]
        heapify(least)
        heapify(most)
        moves = 0
        while most:
            negative_load, negative_number = most[0]
            giver = -negative_number
            if -negative_load != load[giver] or not owners[giver]:
                heappop(most)
                continue
            while least[0][0] != load[least[0][1]]:
                heappop(least)
            taker = least[0][1]
            if load[giver] - load[taker] <= 1:
                break
            partition = owners[giver].pop()
            load[giver] -= 1
            self._give(topic, partition, taker)
            moves += 1
            for number in (giver, taker):
                heappush(least, (load[number], number))
                heappush(most, (-load[number], -number))
        return moves
