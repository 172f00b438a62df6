"""How many partitions the topics of a topology have, or are to have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heappop, heappush

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
        self._spread(counts)
        for part in self._parts:
            if any(topic.name not in counts for topic in part.repartition_source_topics):
                raise InvalidTopologyError(
                    "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
                    "never used as a sink topic."
                )
        return counts

    def _spread(self, counts: dict[TopicName, int]) -> None:
        """Give the repartition topics that each subtopology writes the largest count that is known of what it reads.

        As Kafka goes through all subtopologies, round after round, until nothing is open; but one that cannot tell yet is looked
        at again only when something that it reads is known, where it comes in that round or in the next.
        """
        readers: dict[TopicName, list[int]] = {}
        for index, part in enumerate(self._parts):
            for topic in part.repartition_source_topics:
                readers.setdefault(topic.name, []).append(index)
        # By round and place. Each is in here once for the first round, and once for each topic that it reads.
        due = [(0, index) for index in range(len(self._parts))]
        while due:
            turn, index = heappop(due)
            part = self._parts[index]
            open_sinks = [sink for sink in part.repartition_sink_topics if sink not in counts]
            count = self._largest_known(part, counts) if open_sinks else None
            if count is None:
                continue
            for sink in dict.fromkeys(open_sinks):
                counts[sink] = count
                for reader in readers.get(sink, ()):
                    heappush(due, (turn if reader > index else turn + 1, reader))
        if any(sink not in counts for part in self._parts for sink in part.repartition_sink_topics):
            raise InvalidTopologyError(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that "
                "cannot be resolved."
            )

    def _largest_known(self, part: Subtopology, counts: Mapping[TopicName, int]) -> int | None:
        known = [counts[topic.name] for topic in part.repartition_source_topics if topic.name in counts]
        known += [count for name in part.source_topics if (count := self._existing(name)) is not None]
        return max(known, default=None)

    # Topics that are joined

    def _make_agree(self) -> None:
        repartitioned: dict[TopicName, InternalTopic] = {
            topic.name: topic for part in self._parts for topic in part.repartition_source_topics
        }
        # Kafka looks at all repartition topics that ask for a count, also at those of other groups.
        fixed = {name: self._of(name) for name, topic in sorted(repartitioned.items()) if topic.partitions}
        fixed_count = next(iter(fixed.values()), None)
        if any(count != fixed_count for count in fixed.values()):
            fixed_count = None
        for part in self._parts:
            try:
                groups = part.copartitioned()
            except IndexError:
                raise InvalidTopologyError(
                    f"A copartition group of subtopology {part.subtopology_id} names a topic that is not there."
                ) from None
            for group in groups:
                if group:
                    self.decided.update(self._agreed(group, repartitioned, fixed, fixed_count))

    def _agreed(
        self,
        group: Collection[TopicName],
        repartitioned: Collection[TopicName],
        fixed: Collection[TopicName],
        fixed_count: int | None,
    ) -> dict[TopicName, int]:
        """The count of each repartition topic of a group. `fixed_count` is what all `fixed` ones have, None where they differ."""
        internal = {name: self._of(name) for name in sorted(group) if name in repartitioned}
        external = {name: self._of(name) for name in sorted(group) if name not in repartitioned}
        if external:
            count = next(iter(external.values()))
            if any(each != count for each in external.values()):
                raise _differing(external)
        elif not fixed:
            count = max(internal.values())
        elif fixed_count is None:
            raise _differing(internal)
        else:
            count = fixed_count
        for name, asked in internal.items():
            if name in fixed and asked != count:
                raise TopicsProblemError(
                    f"Number of partitions [{asked}] of repartition topic [{name}] doesn't match number of partitions "
                    f"[{count}] of the source topic."
                )
        return dict.fromkeys(internal, count)


def _differing(counts: Mapping[TopicName, int]) -> TopicsProblemError:
    text = ", ".join(f"{name}={count}" for name, count in counts.items())
    return TopicsProblemError(f"Following topics do not have the same number of partitions: [{{{text}}}]")
