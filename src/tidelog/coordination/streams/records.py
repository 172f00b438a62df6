"""What a streams group writes down, in the versions that Kafka 4.3 writes, and how it is read again.

17 group                epoch, metadata hash, up to which epoch the topology is validated, what the last assignment was told
19 member               what the member said of itself
20 target assignment    its epoch, and when it was computed
21 target assignment    of one member
22 current assignment   of one member: epochs, state, tasks
23 topology             of the whole group
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from tidelog.coordination.decision import record, tombstone
from tidelog.coordination.streams.member import MemberState, StreamsMember, UserEndpoint
from tidelog.coordination.streams.tasks import OwnedTasks, Tasks, TaskSets, TasksSince, tasks_of
from tidelog.coordination.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from tidelog.model.ids import TopicName
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages import streams_groups
from tidelog.wire.messages.internal import streams_group_records as written
from tidelog.wire.messages.internal.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValueTaskIds as OwnedTaskIds,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TaskIds,
)

VERSION = 0


def group_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, assignment_configs: Mapping[str, str]
) -> CoordinatorRecord:
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[
            written.LastAssignmentConfig(key=key, value=text) for key, text in sorted(assignment_configs.items())
        ],
    )
    return record(StreamsGroupMetadataKey(group_id=group_id), value, VERSION)


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    endpoint = member.user_endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else written.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[written.KeyValue(key=key, value=text) for key, text in sorted(member.client_tags.items())],
    )
    return record(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value, VERSION)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value, VERSION)


def target_record(group_id: str, member_id: str, target: TaskSets) -> CoordinatorRecord:
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_task_ids(target.active),
        standby_tasks=_task_ids(target.standby),
        warmup_tasks=_task_ids(target.warmup),
    )
    return record(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value, VERSION)


def current_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    has, revokes = member.assigned, member.pending_revocation
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        active_tasks=_owned_since(has.active),
        standby_tasks=_owned(has.standby),
        warmup_tasks=_owned(has.warmup),
        active_tasks_pending_revocation=_owned_since(revokes.active),
        standby_tasks_pending_revocation=_owned(revokes.standby),
        warmup_tasks_pending_revocation=_owned(revokes.warmup),
    )
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return record(key, value, VERSION)


def topology_record(group_id: str, topology: streams_groups.Topology) -> CoordinatorRecord:
    """As the member sent it, in its order."""
    value = StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            written.Subtopology(
                subtopology_id=part.subtopology_id,
                source_topics=part.source_topics,
                source_topic_regex=part.source_topic_regex,
                state_changelog_topics=_written_topics(part.state_changelog_topics),
                repartition_sink_topics=part.repartition_sink_topics,
                repartition_source_topics=_written_topics(part.repartition_source_topics),
                copartition_groups=[
                    written.CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in part.copartition_groups
                ],
            )
            for part in topology.subtopologies
        ],
    )
    return record(StreamsGroupTopologyKey(group_id=group_id), value, VERSION)


def member_tombstones(group_id: str, member_id: str) -> tuple[CoordinatorRecord, ...]:
    """A member is gone."""
    return (
        tombstone(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        tombstone(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        tombstone(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    )


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> tuple[CoordinatorRecord, ...]:
    """A group is gone, with all that was written down about it."""
    ids = list(member_ids)
    return (
        *(tombstone(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each)) for each in ids),
        *(tombstone(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each)) for each in ids),
        tombstone(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(tombstone(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=each)) for each in ids),
        tombstone(StreamsGroupMetadataKey(group_id=group_id)),
        tombstone(StreamsGroupTopologyKey(group_id=group_id)),
    )


# Reading


def with_metadata(member: StreamsMember, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    """The member as it described itself."""
    endpoint = value.user_endpoint
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        client_tags={tag.key: tag.value for tag in value.client_tags},
    )


def with_current(member: StreamsMember, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    """The member with the epochs and the tasks that were written down."""
    epoch = value.member_epoch
    return replace(
        member,
        member_epoch=epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=OwnedTasks(
            _since(value.active_tasks, epoch), tasks_of(value.standby_tasks), tasks_of(value.warmup_tasks)
        ),
        pending_revocation=OwnedTasks(
            _since(value.active_tasks_pending_revocation, epoch),
            tasks_of(value.standby_tasks_pending_revocation),
            tasks_of(value.warmup_tasks_pending_revocation),
        ),
    )


def target_of(value: StreamsGroupTargetAssignmentMemberValue) -> TaskSets:
    return TaskSets(tasks_of(value.active_tasks), tasks_of(value.standby_tasks), tasks_of(value.warmup_tasks))


def topology_of(value: StreamsGroupTopologyValue | streams_groups.Topology) -> Topology:
    """The topology of a record, or of a member's request. Of two subtopologies with the same id, the later one."""
    return Topology(
        value.epoch,
        {
            part.subtopology_id: Subtopology(
                part.subtopology_id,
                _names(part.source_topics),
                tuple(part.source_topic_regex),
                _internal_topics(part.state_changelog_topics),
                _names(part.repartition_sink_topics),
                _internal_topics(part.repartition_source_topics),
                tuple(
                    CopartitionGroup(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in part.copartition_groups
                ),
            )
            for part in value.subtopologies
        },
    )


def assignment_configs_of(value: StreamsGroupMetadataValue) -> dict[str, str]:
    return {each.key: each.value for each in value.last_assignment_configs or ()}


def _names(names: Iterable[str]) -> tuple[TopicName, ...]:
    return tuple(TopicName(name) for name in names)


def _internal_topics(topics: Iterable[written.TopicInfo | streams_groups.TopicInfo]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            TopicName(topic.name),
            topic.partitions,
            topic.replication_factor,
            tuple((config.key, config.value) for config in topic.topic_configs),
        )
        for topic in topics
    )


def _written_topics(topics: Iterable[streams_groups.TopicInfo]) -> list[written.TopicInfo]:
    return [
        written.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[written.TopicConfig(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in topics
    ]


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=list(each)) for name, each in tasks.items()]


def _owned(tasks: Tasks) -> list[OwnedTaskIds]:
    return [OwnedTaskIds(subtopology_id=name, partitions=list(each)) for name, each in tasks.items()]


def _owned_since(tasks: TasksSince) -> list[OwnedTaskIds]:
    return [
        OwnedTaskIds(subtopology_id=name, partitions=list(since), assignment_epochs=list(since.values()))
        for name, since in tasks.items()
    ]


def _since(tasks: Iterable[OwnedTaskIds], member_epoch: int) -> TasksSince:
    owned: dict[str, dict[int, int]] = {}
    for each in sorted(tasks, key=lambda each: each.subtopology_id):
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            # Written by a release that knew no epochs of tasks.
            epochs = [member_epoch] * len(each.partitions)
        if each.partitions:
            owned[each.subtopology_id] = dict(sorted(zip(each.partitions, epochs, strict=True)))
    return owned
