"""Takes in the records of consumer groups.

The log may be compacted: of each key only the last record is certain to be there, at its own place, so a member's assignment may
come before the member, and a tombstone for what never was. Each record therefore stands on its own, and the state after the last
one is what counts.
"""

from __future__ import annotations

from msgspec.structs import replace

from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.member import ConsumerMember
from tidelog.coordination.consumer.records import ResolvedRegex, names_of, target_of, with_current, with_metadata
from tidelog.coordination.group import EpochOf, Group
from tidelog.coordination.timeline import Timeline
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

_KEYS = (
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupRegularExpressionKey,
)
# Epochs of what has been taken away, as Kafka has them.
_GONE = -1


def replay(groups: dict[str, Group], record: CoordinatorRecord, timeline: Timeline) -> None:
    """Change the group that a record is about; records of other kinds are not for this package."""
    key, value = record.key, record.value
    if not isinstance(key, _KEYS):
        return
    group = groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        # A group of the other protocol that only held offsets, or whose tombstone compaction took: this is the newer.
        group = groups[key.group_id] = ConsumerGroup(key.group_id)
    if timeline.is_noting:
        _note(group, record, timeline)
    if value is None:
        _take_away(groups, group, record)
    else:
        _put(group, record)


def _note(group: ConsumerGroup, record: CoordinatorRecord, timeline: Timeline) -> None:
    """Keep what the record is about to replace, as far as others are told of it."""
    match record.key:
        case ConsumerGroupMetadataKey():
            timeline.note(group.earlier_epochs, EpochOf.GROUP, group.epoch)
        case ConsumerGroupTargetAssignmentMetadataKey():
            timeline.note(group.earlier_epochs, EpochOf.ASSIGNMENT, group.assignment_epoch)
        case ConsumerGroupMemberMetadataKey() | ConsumerGroupCurrentMemberAssignmentKey() as key:
            timeline.note(group.earlier_members, key.member_id, group.members.get(key.member_id))
        case ConsumerGroupTargetAssignmentMemberKey() as key:
            timeline.note(group.earlier_targets, key.member_id, group.targets.get(key.member_id))


def _put(group: ConsumerGroup, record: CoordinatorRecord) -> None:
    match record.key, record.value:
        case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue() as value:
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        case ConsumerGroupPartitionMetadataKey(), ConsumerGroupPartitionMetadataValue():
            group.has_partition_metadata = True
        case ConsumerGroupMemberMetadataKey() as key, ConsumerGroupMemberMetadataValue() as value:
            group.set_member(with_metadata(_member(group, key.member_id), value))
        case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue() as value:
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
        case ConsumerGroupTargetAssignmentMemberKey() as key, ConsumerGroupTargetAssignmentMemberValue() as value:
            group.targets[key.member_id] = target_of(value)
        case ConsumerGroupCurrentMemberAssignmentKey() as key, ConsumerGroupCurrentMemberAssignmentValue() as value:
            group.set_member(with_current(_member(group, key.member_id), value))
        case ConsumerGroupRegularExpressionKey() as key, ConsumerGroupRegularExpressionValue() as value:
            resolved = ResolvedRegex(names_of(value.topics), value.version, value.timestamp)
            group.resolved_regexes[key.regular_expression] = resolved


def _take_away(groups: dict[str, Group], group: ConsumerGroup, record: CoordinatorRecord) -> None:
    match record.key:
        case ConsumerGroupMetadataKey():
            del groups[group.group_id]
        case ConsumerGroupPartitionMetadataKey():
            group.has_partition_metadata = False
        case ConsumerGroupMemberMetadataKey() as key:
            group.remove_member(key.member_id)
        case ConsumerGroupTargetAssignmentMetadataKey():
            group.assignment_epoch = _GONE
            group.assignment_timestamp_ms = 0
        case ConsumerGroupTargetAssignmentMemberKey() as key:
            group.targets.pop(key.member_id, None)
        case ConsumerGroupCurrentMemberAssignmentKey() as key:
            member = group.members.get(key.member_id)
            if member is not None:
                gone = replace(
                    member, member_epoch=_GONE, previous_member_epoch=_GONE, assigned={}, pending_revocation={}
                )
                group.set_member(gone)
        case ConsumerGroupRegularExpressionKey() as key:
            group.resolved_regexes.pop(key.regular_expression, None)


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id)
