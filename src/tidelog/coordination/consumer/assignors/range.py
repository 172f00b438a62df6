"""`range`: each member gets consecutive partitions of each of its topics.

Topics with equally many partitions and the same subscribers are split alike, so that a member has the same numbers of each:
what a join of two topics needs. Static members come first, by instance id; then the others, by member id. Stickiness follows
only from that order. Kafka 4.3 takes no account of racks here, nor does this.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.coordination.consumer.assignors.subscription import Assignment, Subscription
from tidelog.model.ids import TopicId


def assign_ranges(
    members: Mapping[str, Subscription], partition_counts: Mapping[TopicId, int]
) -> dict[str, Assignment]:
    subscribers: dict[TopicId, int] = {}
    for subscription in members.values():
        for topic in subscription.topics:
            subscribers[topic] = subscribers.get(topic, 0) + 1
    shares = {topic: divmod(partition_counts[topic], count) for topic, count in subscribers.items()}
    served = dict.fromkeys(subscribers, 0)
    assignments: dict[str, Assignment] = {}
    for member_id in sorted(members, key=lambda member_id: _place(member_id, members[member_id])):
        ranges: dict[TopicId, tuple[int, ...]] = {}
        for topic in members[member_id].topics:
            share, extra = shares[topic]
            place = served[topic]
            served[topic] = place + 1
            start = place * share + min(place, extra)
            end = start + share + (place < extra)
            if start < end:
                ranges[topic] = tuple(range(start, end))
        assignments[member_id] = ranges
    return assignments


def _place(member_id: str, subscription: Subscription) -> tuple[bool, str, str]:
    return subscription.instance_id is None, subscription.instance_id or "", member_id
