"""All partitions of all topics in turn, over all members; who is not subscribed to a topic is passed over."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.client.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    MemberSubscription,
    PartitionRacks,
    in_order,
    subscribed_topics,
)
from tidelog.client.consumer.topic_partition import TopicPartition


class RoundRobinAssignor(Assignor):
    """Kafka's `roundrobin`."""

    name = "roundrobin"

    def assign(self, partitions: PartitionRacks, members: Mapping[str, MemberSubscription]) -> Assignment:
        assignment: Assignment = {member: [] for member in members}
        ordered = in_order(members)
        topics_of = {member: set(members[member].topics) for member in ordered}
        turn = 0
        for topic in subscribed_topics(partitions, members):
            for partition in range(len(partitions[topic])):
                while topic not in topics_of[ordered[turn]]:
                    turn = (turn + 1) % len(ordered)
                assignment[ordered[turn]].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(ordered)
        return assignment
