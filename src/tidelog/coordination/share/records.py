"""What a share group writes down, in the versions that Kafka 4.3 writes, and how it is read again.

10 member               what the member said of itself
11 group                epoch, metadata hash
12 target assignment    its epoch, and when it was computed
13 target assignment    of one member
14 current assignment   of one member: epochs, partitions
15 share partitions     of which partitions there is state, of which there is about to be or not to be any
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tidelog.coordination.consumer.assignors.subscription import Assignment, sort_by_topic
from tidelog.coordination.consumer.records import names_of
from tidelog.coordination.decision import record, tombstone
from tidelog.coordination.share.member import ShareMember
from tidelog.coordination.share.share_partitions import (
    SharePartitions,
    TopicPartitions as StatePartitions,
    TopicsPartitions,
)
from tidelog.model.ids import TopicId
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)

VERSION = 0
# The only state that a member of a share group has.
_STABLE = 0


def group_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return record(ShareGroupMetadataKey(group_id=group_id), value, VERSION)


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_names),
    )
    return record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value, VERSION)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value, VERSION)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    topics = [TopicPartition(topic_id=topic, partitions=list(parts)) for topic, parts in assignment.items()]
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return record(key, ShareGroupTargetAssignmentMemberValue(topic_partitions=topics), VERSION)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=_STABLE,
        assigned_partitions=[
            TopicPartitions(topic_id=topic, partitions=list(parts)) for topic, parts in member.assigned.items()
        ],
    )
    return record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value, VERSION)


def share_partitions_record(group_id: str, partitions: SharePartitions) -> CoordinatorRecord:
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_written(partitions.initialising),
        initialized_topics=_written(partitions.initialised),
        deleting_topics=[
            TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in partitions.deleting.items()
        ],
    )
    return record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value, VERSION)


def member_tombstones(group_id: str, member_id: str) -> tuple[CoordinatorRecord, ...]:
    """A member is gone."""
    return (
        tombstone(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        tombstone(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        tombstone(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    )


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> tuple[CoordinatorRecord, ...]:
    """A group is gone, with all that was written down about it."""
    ids = list(member_ids)
    return (
        *(tombstone(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each)) for each in ids),
        *(tombstone(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each)) for each in ids),
        tombstone(ShareGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(tombstone(ShareGroupMemberMetadataKey(group_id=group_id, member_id=each)) for each in ids),
        tombstone(ShareGroupStatePartitionMetadataKey(group_id=group_id)),
        tombstone(ShareGroupMetadataKey(group_id=group_id)),
    )


def with_metadata(member: ShareMember, value: ShareGroupMemberMetadataValue) -> ShareMember:
    """The member as it described itself."""
    return replace(
        member,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_names=names_of(value.subscribed_topic_names),
    )


def with_current(member: ShareMember, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
    """The member with the epoch and the partitions that were written down."""
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        assigned=_assignment(value.assigned_partitions),
    )


def target_of(value: ShareGroupTargetAssignmentMemberValue) -> Assignment:
    return _assignment(value.topic_partitions)


def share_partitions_of(value: ShareGroupStatePartitionMetadataValue, now_ms: int) -> SharePartitions:
    return SharePartitions(
        _read(value.initializing_topics, now_ms),
        _read(value.initialized_topics, now_ms),
        {TopicId(topic.topic_id): topic.topic_name for topic in value.deleting_topics},
    )


def _assignment(topics: Iterable[TopicPartition | TopicPartitions]) -> Assignment:
    return sort_by_topic({TopicId(topic.topic_id): list(topic.partitions) for topic in topics})


def _written(topics: TopicsPartitions) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=each.name, partitions=list(each.partitions))
        for topic_id, each in topics.items()
    ]


def _read(topics: Iterable[TopicPartitionsInfo], now_ms: int) -> TopicsPartitions:
    return {
        TopicId(topic.topic_id): StatePartitions(topic.topic_name, tuple(sorted(topic.partitions)), now_ms)
        for topic in topics
    }
