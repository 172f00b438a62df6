"""A topology on the topics that a cluster has: how many tasks there are, which internal topics are missing, or why it cannot run.

    configured = configure(topology, image)     pure; whoever asks creates what is missing

Counts of partitions come in this order: external topics have theirs; a repartition topic has the one that it asks for, or the
largest of what the subtopology reads that writes it, which may depend on another one (`partition_counts`); topics that are joined
have to agree; a changelog has as many as the most that its subtopology reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tidelog.coordination.streams.partition_counts import InvalidTopologyError, PartitionCounts, TopicsProblemError
from tidelog.coordination.streams.topology import InternalTopic, Subtopology, Topology
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.ids import TopicName
from tidelog.wire.messages.streams_groups import Status as StatusAnswer, StreamsGroupDescribeTopology

_SHOWN_MAX = 3
# What one member has is one record, which has to fit into a batch; and a few bytes of topology stand for thousands of tasks.
TASKS_MAX = 100_000


class StatusCode(IntEnum):
    """What a member is told beside its tasks."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    code: StatusCode
    detail: str

    def answered(self) -> StatusAnswer:
        return StatusAnswer(status_code=self.code, status_detail=self.detail)


class ConfiguredSubtopology(Struct, frozen=True):
    """A subtopology whose topics all have a number of partitions."""

    part: Subtopology
    task_count: int

    @property
    def is_stateful(self) -> bool:
        return bool(self.part.state_changelog_topics)


class ConfiguredTopology(Struct, frozen=True):
    """`problem` is why nothing can be assigned; without one, all topics are there."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology]
    """In ascending order of their ids; none where already the counts cannot be known."""
    missing: Mapping[TopicName, InternalTopic]
    problem: Status | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None

    def described(self) -> StreamsGroupDescribeTopology:
        parts = [each.part.described() for each in self.subtopologies.values()]
        return StreamsGroupDescribeTopology(epoch=self.epoch, subtopologies=parts)


def configure(topology: Topology, topics: TopicsView) -> ConfiguredTopology:
    """The topology on these topics. InvalidTopologyError where it could run on none."""
    missing = sorted(
        {
            name
            for part in topology.subtopologies.values()
            for name in part.source_topics
            if name not in topics.topic_ids
        }
    )
    if missing:
        detail = f"Source topics {_summary(missing)} are missing."
        return _impossible(topology, Status(StatusCode.MISSING_SOURCE_TOPICS, detail))
    try:
        counts = PartitionCounts(topology, topics)
        _check_size(topology, counts)
        configured = {name: _configured(part, counts) for name, part in sorted(topology.subtopologies.items())}
        created = _missing_topics(configured, topics)
    except TopicsProblemError as problem:
        return _impossible(topology, Status(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, str(problem)))
    status = None
    if created:
        detail = f"Internal topics are missing: {_summary(list(created))}"
        status = Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, configured, created, status)


def _check_size(topology: Topology, counts: PartitionCounts) -> None:
    task_count = sum(counts.most_read(part) for part in topology.subtopologies.values())
    if task_count > TASKS_MAX:
        raise InvalidTopologyError(f"The topology has {task_count} tasks, and may have {TASKS_MAX}.")


def _impossible(topology: Topology, status: Status) -> ConfiguredTopology:
    return ConfiguredTopology(topology.epoch, {}, {}, status)


def _configured(part: Subtopology, counts: PartitionCounts) -> ConfiguredSubtopology:
    def counted(internal: tuple[InternalTopic, ...]) -> tuple[InternalTopic, ...]:
        return tuple(
            topic if topic.partitions else replace(topic, partitions=counts.decided[topic.name]) for topic in internal
        )

    concrete = replace(
        part,
        state_changelog_topics=counted(part.state_changelog_topics),
        repartition_source_topics=counted(part.repartition_source_topics),
    )
    return ConfiguredSubtopology(concrete, counts.most_read(part))


def _missing_topics(
    configured: Mapping[str, ConfiguredSubtopology], topics: TopicsView
) -> dict[TopicName, InternalTopic]:
    missing: dict[TopicName, InternalTopic] = {}
    for each in configured.values():
        for topic in (*each.part.repartition_source_topics, *each.part.state_changelog_topics):
            topic_id = topics.topic_ids.get(topic.name)
            if topic_id is None:
                missing[topic.name] = topic
                continue
            found = len(topics.topics[topic_id].partitions)
            if found != topic.partitions:
                raise TopicsProblemError(
                    f"Existing topic {topic.name} has different number of partitions: expected {topic.partitions}, "
                    f"found {found}"
                )
    return dict(sorted(missing.items()))


def _summary(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_SHOWN_MAX])
    more = len(names) - _SHOWN_MAX
    return f"{shown} and {more} additional topics" if more > 0 else shown
