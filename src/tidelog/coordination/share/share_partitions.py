"""Of which partitions a share group has state with the share coordinator, and of which it is about to have.

    (nothing)       a member subscribes to the topic
    initialising    the share coordinator is asked to begin a state         a failure: back to nothing
    initialised     it has one: members may be given the partition          offsets or group deleted: deleting
    deleting        it is asked to forget them, topic by topic              done: nothing; a failure: still deleting

All of it is one record, written anew at each step, so that another coordinator goes on from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from tidelog.model.ids import TopicId

# In place of the name of a topic that is gone, as Kafka writes it.
NO_NAME = "<UNKNOWN>"

Partitions = Mapping[TopicId, Collection[int]]


class TopicPartitions(Struct, frozen=True):
    """Some partitions of a topic, in ascending order."""

    name: str
    partitions: tuple[int, ...]
    since_ms: int = 0
    """When the record that says so was taken in."""


TopicsPartitions = Mapping[TopicId, TopicPartitions]


class SharePartitions(Struct, frozen=True):
    """Never changed: each step makes another one."""

    initialising: TopicsPartitions = {}
    initialised: TopicsPartitions = {}
    deleting: Mapping[TopicId, str] = {}
    """By topic its name."""

    def beginning(self, topics: TopicsPartitions) -> SharePartitions:
        """The share coordinator is about to be asked for states of these."""
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topics}
        return replace(self, initialising=_with(self.initialising, topics), deleting=deleting)

    def begun(self, topics: TopicsPartitions) -> SharePartitions:
        """It has states of these."""
        left = _without(self.initialising, {topic_id: each.partitions for topic_id, each in topics.items()})
        return replace(self, initialising=left, initialised=_with(self.initialised, topics))

    def not_begun(self, partitions: Partitions) -> SharePartitions:
        """It could not begin states of these."""
        return replace(self, initialising=_without(self.initialising, partitions))

    def ending(self, topics: Mapping[TopicId, str]) -> SharePartitions:
        """It is about to be asked to forget its states of these topics."""
        left = {topic_id: each for topic_id, each in self.initialised.items() if topic_id not in topics}
        return replace(self, initialised=left, deleting={**self.deleting, **topics})

    def ended(self, topic_ids: Collection[TopicId]) -> SharePartitions:
        """It has forgotten them."""
        left = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids}
        return replace(self, deleting=left)

    def without(self, topic_ids: Collection[TopicId]) -> SharePartitions:
        """These topics are gone, and their states with them."""
        return SharePartitions(
            {topic_id: each for topic_id, each in self.initialising.items() if topic_id not in topic_ids},
            {topic_id: each for topic_id, each in self.initialised.items() if topic_id not in topic_ids},
            {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topic_ids},
        )

    @property
    def topic_ids(self) -> set[TopicId]:
        return {*self.initialising, *self.initialised, *self.deleting}

    def is_begun(self, topic_id: TopicId, partition_count: int) -> bool:
        """Whether there is a state of every partition of a topic."""
        known = self.initialised.get(topic_id)
        return known is not None and len(known.partitions) >= partition_count

    def missing_of(self, topic_id: TopicId, partition_count: int, began_before_ms: int) -> tuple[int, ...]:
        """Partitions of a topic that have no state. One that was asked for is missing again where that is too long ago."""
        there: set[int] = set()
        known, asked_for = self.initialised.get(topic_id), self.initialising.get(topic_id)
        if known is not None:
            there.update(known.partitions)
        if asked_for is not None and asked_for.since_ms > began_before_ms:
            there.update(asked_for.partitions)
        return tuple(index for index in range(partition_count) if index not in there)


NO_PARTITIONS = SharePartitions()


def _with(known: TopicsPartitions, added: TopicsPartitions) -> TopicsPartitions:
    both = {**known}
    for topic_id, each in added.items():
        before = known.get(topic_id)
        partitions = each.partitions if before is None else _sorted([*before.partitions, *each.partitions])
        both[topic_id] = TopicPartitions(each.name, partitions, each.since_ms)
    return both


def _without(known: TopicsPartitions, removed: Partitions) -> TopicsPartitions:
    left = {}
    for topic_id, each in known.items():
        gone = removed.get(topic_id, ())
        partitions = tuple(index for index in each.partitions if index not in gone)
        if partitions:
            left[topic_id] = TopicPartitions(each.name, partitions, each.since_ms)
    return left


def _sorted(partitions: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(partitions)))
