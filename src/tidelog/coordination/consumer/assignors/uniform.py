"""`uniform`: members get equally many partitions, over all topics together, and keep what they have as far as that allows.

Where all members read the same topics one pass gives everybody the quota or one more. Where they do not, see
`uniform_mixed`. Kafka 4.3 takes no account of racks here, nor does this.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.coordination.consumer.assignors.subscription import Assignment, Subscription, sort_by_topic
from tidelog.coordination.consumer.assignors.uniform_mixed import assign_mixed
from tidelog.model.ids import TopicId

_Partition = tuple[TopicId, int]


def assign_uniformly(
    members: Mapping[str, Subscription], partition_counts: Mapping[TopicId, int]
) -> dict[str, Assignment]:
    if not members:
        return {}
    topics = next(iter(members.values())).topics
    if all(subscription.topics == topics for subscription in members.values()):
        return _assign_same(members, topics, partition_counts)
    return assign_mixed(members, partition_counts)


def _assign_same(
    members: Mapping[str, Subscription], topics: tuple[TopicId, ...], partition_counts: Mapping[TopicId, int]
) -> dict[str, Assignment]:
    """All members read the same topics."""
    unassigned: dict[_Partition, None] = dict.fromkeys(
        (topic, partition) for topic in topics for partition in range(partition_counts[topic])
    )
    quota, extra = divmod(len(unassigned), len(members))
    order = sorted(members)
    kept: dict[str, list[_Partition]] = {}
    for member_id in order:
        mine: list[_Partition] = []
        kept[member_id] = mine
        for topic, partitions in members[member_id].assignment.items():
            for partition in partitions:
                if (topic, partition) in unassigned:
                    del unassigned[topic, partition]
                    mine.append((topic, partition))
    # Whoever has more than the quota already keeps one of it, so that as little as possible moves.
    extras = [member_id for member_id in order if len(kept[member_id]) > quota]
    extras += [member_id for member_id in order if len(kept[member_id]) <= quota]
    has_extra = set(extras[:extra])
    for member_id in order:
        mine = kept[member_id]
        limit = quota + (member_id in has_extra)
        unassigned.update(dict.fromkeys(mine[limit:]))
        del mine[limit:]
    left = iter(unassigned)
    assignments: dict[str, Assignment] = {}
    for member_id in order:
        mine = kept[member_id]
        while len(mine) < quota + (member_id in has_extra):
            mine.append(next(left))
        by_topic: dict[TopicId, list[int]] = {}
        for topic, partition in mine:
            by_topic.setdefault(topic, []).append(partition)
        assignments[member_id] = sort_by_topic(by_topic)
    return assignments
