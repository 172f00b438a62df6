"""How many partitions the topics of a topology have, or are to have."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidelog.coordination.streams.topology import InternalTopic, Subtopology, Topology
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.ids import TopicName


class InvalidTopologyError(Exception):
    """A topology that could not run on any topics."""


class TopicsProblemError(Exception):
    """Topics that are there have other numbers of partitions than the topology needs."""


class PartitionCounts:
    """`decided` has the counts of internal topics. InvalidTopologyError or TopicsProblemError where they cannot be decided.

    All external source topics have to be there.
    """

    def __init__(self, topology: Topology, topics: TopicsView) -> None:
        self._topics = topics
        self._parts = list(topology.subtopologies.values())
        self.decided = self._repartition_counts()
        self._make_agree()
        for part in self._parts:
            if not list(part.read_topics):
                raise InvalidTopologyError(f"No source topics found for subtopology {part.subtopology_id}")
            for topic in part.state_changelog_topics:
                self.decided[topic.name] = self.most_read(part)

    def most_read(self, part: Subtopology) -> int:
        """The number of tasks: the largest count of what a subtopology reads."""
        return max(self._of(name) for name in part.read_topics)

    def _of(self, name: TopicName) -> int:
        found = self._existing(name)
        if found is None:
            # A changelog, which some subtopology claims to read.
            found = self.decided.get(name)
        if found is None:
            raise InvalidTopologyError(f"No partition count for source topic {name}")
        return found

    def _existing(self, name: TopicName) -> int | None:
        topic_id = self._topics.topic_ids.get(name)
        return None if topic_id is None else len(self._topics.topics[topic_id].partitions)

    # Repartition topics

    def _repartition_counts(self) -> dict[TopicName, int]:
        counts: dict[TopicName, int] = {}
        for part in self._parts:
            for topic in part.repartition_source_topics:
                if topic.partitions < 0:
                    raise InvalidTopologyError(f"The number of partitions of {topic.name} must not be negative.")
                if topic.partitions:
                    counts[topic.name] = topic.partitions
        waiting = True
        while waiting:
            waiting, progressed = False, False
            for part in self._parts:
                for sink in part.repartition_sink_topics:
                    if sink in counts:
                        continue
                    count = self._largest_known(part, counts)
                    if count is None:
                        waiting = True
                    else:
                        counts[sink] = count
                        progressed = True
            if waiting and not progressed:
                raise InvalidTopologyError(
                    "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                    "that cannot be resolved."
                )
        for part in self._parts:
            if any(topic.name not in counts for topic in part.repartition_source_topics):
                raise InvalidTopologyError(
                    "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
                    "never used as a sink topic."
                )
        return counts

    def _largest_known(self, part: Subtopology, counts: Mapping[TopicName, int]) -> int | None:
        known = [counts[topic.name] for topic in part.repartition_source_topics if topic.name in counts]
        known += [count for name in part.source_topics if (count := self._existing(name)) is not None]
        return max(known, default=None)

    # Topics that are joined

    def _make_agree(self) -> None:
        repartitioned: dict[TopicName, InternalTopic] = {
            topic.name: topic for part in self._parts for topic in part.repartition_source_topics
        }
        fixed = sorted(name for name, topic in repartitioned.items() if topic.partitions)
        for part in self._parts:
            try:
                groups = part.copartitioned()
            except IndexError:
                raise InvalidTopologyError(
                    f"A copartition group of subtopology {part.subtopology_id} names a topic that is not there."
                ) from None
            for group in groups:
                if group:
                    self.decided.update(self._agreed(group, repartitioned, fixed))

    def _agreed(
        self, group: Collection[TopicName], repartitioned: Collection[TopicName], fixed: Collection[TopicName]
    ) -> dict[TopicName, int]:
        internal = {name: self._of(name) for name in sorted(group) if name in repartitioned}
        external = {name: self._of(name) for name in sorted(group) if name not in repartitioned}
        if external:
            count = _same(external, external)
        elif fixed:
            # Kafka looks at all repartition topics that ask for a count here, also those of other groups.
            count = _same({name: self._of(name) for name in fixed}, internal)
        else:
            count = max(internal.values())
        for name, asked in internal.items():
            if name in fixed and asked != count:
                raise TopicsProblemError(
                    f"Number of partitions [{asked}] of repartition topic [{name}] doesn't match number of partitions "
                    f"[{count}] of the source topic."
                )
        return dict.fromkeys(internal, count)


def _same(counts: Mapping[TopicName, int], told: Mapping[TopicName, int]) -> int:
    """The one count that all have; the error tells of some of them."""
    found = next(iter(counts.values()))
    if any(count != found for count in counts.values()):
        text = ", ".join(f"{name}={count}" for name, count in told.items())
        raise TopicsProblemError(f"Following topics do not have the same number of partitions: [{{{text}}}]")
    return found
