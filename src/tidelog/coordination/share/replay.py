"""Takes in the records of share groups.

The log may be compacted: of each key only the last record is certain to be there, at its own place. Each record therefore stands
on its own, and the state after the last one is what counts.
"""

from __future__ import annotations

from msgspec.structs import replace

from tidelog.coordination.consumer.assignors.subscription import NOTHING
from tidelog.coordination.group import EpochOf, Group
from tidelog.coordination.share.group import ShareGroup
from tidelog.coordination.share.member import ShareMember
from tidelog.coordination.share.records import share_partitions_of, target_of, with_current, with_metadata
from tidelog.coordination.share.share_partitions import NO_PARTITIONS
from tidelog.coordination.timeline import Timeline
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
)

_KEYS = (
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupStatePartitionMetadataKey,
)
# Epochs of what has been taken away, as Kafka has them.
_GONE = -1


def replay(groups: dict[str, Group], record: CoordinatorRecord, timeline: Timeline, now_ms: int) -> None:
    """Change the group that a record is about; records of other kinds are not for this package."""
    key, value = record.key, record.value
    if not isinstance(key, _KEYS):
        return
    group = groups.get(key.group_id)
    if not isinstance(group, ShareGroup):
        if value is None:
            return
        group = groups[key.group_id] = ShareGroup(key.group_id)
    if timeline.is_noting:
        _note(group, record, timeline)
    # Only a few records leave both as they were, and none comes often.
    group.has_nothing_to_assign = group.has_nothing_to_begin = False
    if value is None:
        _take_away(groups, group, record)
    else:
        _put(group, record, now_ms)


def _note(group: ShareGroup, record: CoordinatorRecord, timeline: Timeline) -> None:
    """Keep what the record is about to replace, as far as others are told of it."""
    match record.key:
        case ShareGroupMetadataKey():
            timeline.note(group.earlier_epochs, EpochOf.GROUP, group.epoch)
        case ShareGroupTargetAssignmentMetadataKey():
            timeline.note(group.earlier_epochs, EpochOf.ASSIGNMENT, group.assignment_epoch)
        case ShareGroupMemberMetadataKey() | ShareGroupCurrentMemberAssignmentKey() as key:
            timeline.note(group.earlier_members, key.member_id, group.members.get(key.member_id))


def _put(group: ShareGroup, record: CoordinatorRecord, now_ms: int) -> None:
    match record.key, record.value:
        case ShareGroupMetadataKey(), ShareGroupMetadataValue() as value:
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        case ShareGroupMemberMetadataKey() as key, ShareGroupMemberMetadataValue() as value:
            group.set_member(with_metadata(_member(group, key.member_id), value))
        case ShareGroupTargetAssignmentMetadataKey(), ShareGroupTargetAssignmentMetadataValue() as value:
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
        case ShareGroupTargetAssignmentMemberKey() as key, ShareGroupTargetAssignmentMemberValue() as value:
            group.targets[key.member_id] = target_of(value)
        case ShareGroupCurrentMemberAssignmentKey() as key, ShareGroupCurrentMemberAssignmentValue() as value:
            group.set_member(with_current(_member(group, key.member_id), value))
        case ShareGroupStatePartitionMetadataKey(), ShareGroupStatePartitionMetadataValue() as value:
            group.partitions = share_partitions_of(value, now_ms)


def _take_away(groups: dict[str, Group], group: ShareGroup, record: CoordinatorRecord) -> None:
    match record.key:
        case ShareGroupMetadataKey():
            del groups[group.group_id]
        case ShareGroupMemberMetadataKey() as key:
            group.remove_member(key.member_id)
        case ShareGroupTargetAssignmentMetadataKey():
            group.assignment_epoch = _GONE
            group.assignment_timestamp_ms = 0
        case ShareGroupTargetAssignmentMemberKey() as key:
            group.targets.pop(key.member_id, None)
        case ShareGroupCurrentMemberAssignmentKey() as key:
            member = group.members.get(key.member_id)
            if member is not None:
                group.set_member(replace(member, member_epoch=_GONE, previous_member_epoch=_GONE, assigned=NOTHING))
        case ShareGroupStatePartitionMetadataKey():
            group.partitions = NO_PARTITIONS


def _member(group: ShareGroup, member_id: str) -> ShareMember:
    return group.members.get(member_id) or ShareMember(member_id)
