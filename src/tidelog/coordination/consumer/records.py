"""What a consumer group writes down, in the versions that Kafka 4.3 writes, and how it is read again.

3  group                epoch, metadata hash
5  member               what the member said of itself
6  target assignment    its epoch, and when it was computed
7  target assignment    of one member
8  current assignment   of one member: epoch, state, partitions
16 regular expression   the topics that it matched
4  partition metadata   only of releases before 4.1: a tombstone takes the place of what they left
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidelog.coordination.consumer.assignors.subscription import Assignment, sort_by_topic
from tidelog.coordination.consumer.member import ConsumerMember, MemberState, OwnedPartitions
from tidelog.coordination.decision import record, tombstone
from tidelog.model.ids import TopicId, TopicName
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

VERSION = 0


class ResolvedRegex(Struct, frozen=True):
    """The topics that a regular expression matched, in ascending order, and when."""

    topics: tuple[TopicName, ...]
    version: int
    timestamp_ms: int


def group_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return record(ConsumerGroupMetadataKey(group_id=group_id), value, VERSION)


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_names),
        subscribed_topic_regex=member.subscribed_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )
    return record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value, VERSION)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value, VERSION)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    topics = [TopicPartition(topic_id=topic, partitions=list(parts)) for topic, parts in assignment.items()]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return record(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics), VERSION)


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return record(key, value, VERSION)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    value = ConsumerGroupRegularExpressionValue(
        topics=list(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return record(key, value, VERSION)


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return tombstone(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def member_tombstones(group_id: str, member_id: str) -> tuple[CoordinatorRecord, ...]:
    """A member is gone."""
    return (
        tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    )


def group_tombstones(group_id: str, member_ids: Sequence[str], regexes: Iterable[str]) -> tuple[CoordinatorRecord, ...]:
    """A group is gone, with all that was written down about it."""
    return (
        *(tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=m)) for m in member_ids),
        *(tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=m)) for m in member_ids),
        tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=m)) for m in member_ids),
        *(regex_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        tombstone(ConsumerGroupMetadataKey(group_id=group_id)),
    )


def with_metadata(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """The member as it described itself."""
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_names=names_of(value.subscribed_topic_names),
        subscribed_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def with_current(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    """The member with the epoch and the partitions that were written down."""
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_owned(value.assigned_partitions, value.member_epoch),
        pending_revocation=_owned(value.partitions_pending_revocation, value.member_epoch),
    )


def target_of(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    return sort_by_topic({TopicId(topic.topic_id): list(topic.partitions) for topic in value.topic_partitions})


def names_of(names: Iterable[str]) -> tuple[TopicName, ...]:
    """Names as a member keeps them."""
    return tuple(TopicName(name) for name in sorted(set(names)))


def _topic_partitions(owned: OwnedPartitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic, epochs in owned.items()
    ]


def _owned(topics: Iterable[TopicPartitions], member_epoch: int) -> OwnedPartitions:
    owned: dict[TopicId, dict[int, int]] = {}
    for topic in sorted(topics, key=lambda topic: topic.topic_id):
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            # Written by a release that knew no epochs of partitions.
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        if topic.partitions:
            owned[TopicId(topic.topic_id)] = dict(sorted(zip(topic.partitions, epochs, strict=True)))
    return owned
