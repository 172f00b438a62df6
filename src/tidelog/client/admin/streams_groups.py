"""Streams groups (KIP-1071) as brokers describe them: applications of Kafka Streams, their parts, and who has which tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.wire.messages.streams_groups import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeSubtopology,
    TaskIds,
    TopicInfo,
)


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """Tasks of a member, by subtopology."""

    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]
    warmup: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StreamsMember:
    member_id: str
    epoch: int
    topology_epoch: int
    process_id: str
    """The same for all threads of one instance of the application."""
    client_id: str
    host: str
    instance_id: str | None
    rack_id: str | None
    user_endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    assignment: StreamsTasks
    target_assignment: StreamsTasks


@dataclass(frozen=True, slots=True)
class StreamsInternalTopic:
    """0 for a count: as many as fit, or as the cluster has by default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[StreamsInternalTopic, ...]
    repartition_source_topics: tuple[StreamsInternalTopic, ...]

    @property
    def read_topics(self) -> tuple[str, ...]:
        """All that its tasks read."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_source_topics))


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    group_id: str
    state: str
    """The words are Kafka's: see `GroupState`."""
    epoch: int
    assignment_epoch: int
    topology_epoch: int | None
    subtopologies: tuple[StreamsSubtopology, ...]
    coordinator: int
    members: tuple[StreamsMember, ...] = field(default=())

    def partitions_of(self, tasks: StreamsTasks) -> tuple[TopicPartition, ...]:
        """What active tasks read, as if every topic had a partition for each of them."""
        read = {part.subtopology_id: part.read_topics for part in self.subtopologies}
        return tuple(
            sorted(
                TopicPartition(topic, number)
                for part, numbers in tasks.active.items()
                for topic in read.get(part, ())
                for number in numbers
            )
        )


def streams_group(group: DescribedGroup, coordinator: int) -> StreamsGroupDescription:
    """What a coordinator has said of a group."""
    topology = group.topology
    return StreamsGroupDescription(
        group.group_id,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        None if topology is None else topology.epoch,
        () if topology is None else tuple(map(_subtopology, topology.subtopologies or ())),
        coordinator,
        tuple(map(_member, sorted(group.members, key=lambda member: member.member_id))),
    )


def _subtopology(part: StreamsGroupDescribeSubtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        part.subtopology_id,
        tuple(part.source_topics),
        tuple(part.repartition_sink_topics),
        _internal_topics(part.state_changelog_topics),
        _internal_topics(part.repartition_source_topics),
    )


def _internal_topics(topics: Iterable[TopicInfo]) -> tuple[StreamsInternalTopic, ...]:
    return tuple(
        StreamsInternalTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            {config.key: config.value for config in topic.topic_configs},
        )
        for topic in topics
    )


def _member(member: Member) -> StreamsMember:
    endpoint = member.user_endpoint
    return StreamsMember(
        member.member_id,
        member.member_epoch,
        member.topology_epoch,
        member.process_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        member.rack_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {tag.key: tag.value for tag in member.client_tags},
        _tasks(member.assignment),
        _tasks(member.target_assignment),
    )


def _tasks(assignment: Assignment) -> StreamsTasks:
    return StreamsTasks(
        _by_subtopology(assignment.active_tasks),
        _by_subtopology(assignment.standby_tasks),
        _by_subtopology(assignment.warmup_tasks),
    )


def _by_subtopology(tasks: Iterable[TaskIds]) -> dict[str, tuple[int, ...]]:
    return {each.subtopology_id: tuple(sorted(each.partitions)) for each in tasks}
