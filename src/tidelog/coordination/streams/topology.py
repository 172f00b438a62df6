"""What an application of Kafka Streams is made of: subtopologies, with the topics that each reads, writes, and keeps state in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tidelog.model.ids import TopicName
from tidelog.wire.messages.streams_groups import (
    KeyValue,
    StreamsGroupDescribeSubtopology,
    StreamsGroupDescribeTopology,
    TopicInfo as DescribedTopic,
)


class InternalTopic(Struct, frozen=True):
    """A topic that belongs to the application. 0 for a count: whatever fits."""

    name: TopicName
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()

    def described(self) -> DescribedTopic:
        return DescribedTopic(
            name=self.name,
            partitions=self.partitions,
            replication_factor=self.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in self.configs],
        )


class CopartitionGroup(Struct, frozen=True):
    """Topics of a subtopology that have to have as many partitions as each other, by their places in its lists."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(Struct, frozen=True):
    """A part of the application that is connected by more than topics."""

    subtopology_id: str
    source_topics: tuple[TopicName, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[InternalTopic, ...] = ()
    repartition_sink_topics: tuple[TopicName, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def read_topics(self) -> Iterable[TopicName]:
        """What its tasks read."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_source_topics))

    def copartitioned(self) -> list[set[TopicName]]:
        """The topics of each group. IndexError where a group names a place that the lists do not have."""
        return [
            {
                *(self.source_topics[_place(index)] for index in group.source_topics),
                *(self.repartition_source_topics[_place(index)].name for index in group.repartition_source_topics),
            }
            for group in self.copartition_groups
        ]

    def described(self) -> StreamsGroupDescribeSubtopology:
        return StreamsGroupDescribeSubtopology(
            subtopology_id=self.subtopology_id,
            source_topics=sorted(self.source_topics),
            repartition_sink_topics=sorted(self.repartition_sink_topics),
            state_changelog_topics=_described(self.state_changelog_topics),
            repartition_source_topics=_described(self.repartition_source_topics),
        )


class Topology(Struct, frozen=True):
    """All of an application, in one of its releases."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @property
    def required_topics(self) -> set[TopicName]:
        """What has to be there before anything can be assigned."""
        return {
            name
            for part in self.subtopologies.values()
            for name in (*part.read_topics, *(topic.name for topic in part.state_changelog_topics))
        }

    @property
    def readers(self) -> Mapping[TopicName, str]:
        """By topic the subtopology whose tasks read it."""
        return {name: part.subtopology_id for part in self.subtopologies.values() for name in part.read_topics}

    def described(self) -> StreamsGroupDescribeTopology:
        parts = sorted(self.subtopologies.values(), key=lambda part: part.subtopology_id)
        return StreamsGroupDescribeTopology(epoch=self.epoch, subtopologies=[part.described() for part in parts])


def _place(index: int) -> int:
    if index < 0:
        raise IndexError(index)
    return index


def _described(topics: Iterable[InternalTopic]) -> list[DescribedTopic]:
    return [topic.described() for topic in sorted(topics, key=lambda topic: topic.name)]
