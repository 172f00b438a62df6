"""Takes in the records of streams groups.

The log may be compacted: of each key only the last record is certain to be there, at its own place. Each record therefore stands
on its own, and the state after the last one is what counts.
"""

from __future__ import annotations

from msgspec.structs import replace

from tidelog.coordination.group import EpochOf, Group
from tidelog.coordination.streams.group import TOPOLOGY, StreamsGroup
from tidelog.coordination.streams.member import StreamsMember
from tidelog.coordination.streams.records import (
    assignment_configs_of,
    target_of,
    topology_of,
    with_current,
    with_metadata,
)
from tidelog.coordination.streams.tasks import NOTHING_OWNED
from tidelog.coordination.timeline import Timeline
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
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
)

_KEYS = (
    StreamsGroupMetadataKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupTopologyKey,
)
# Epochs of what has been taken away, as Kafka has them.
_GONE = -1


def replay(groups: dict[str, Group], record: CoordinatorRecord, timeline: Timeline) -> None:
    """Change the group that a record is about; records of other kinds are not for this package."""
    key, value = record.key, record.value
    if not isinstance(key, _KEYS):
        return
    group = groups.get(key.group_id)
    if not isinstance(group, StreamsGroup):
        if value is None:
            return
        # A classic group that only held offsets, or whose tombstone compaction took: this is the newer.
        group = groups[key.group_id] = StreamsGroup(key.group_id)
    if timeline.is_noting:
        _note(group, record, timeline)
    if value is None:
        _take_away(groups, group, record)
    else:
        _put(group, record)


def _note(group: StreamsGroup, record: CoordinatorRecord, timeline: Timeline) -> None:
    """Keep what the record is about to replace, as far as others are told of it."""
    match record.key:
        case StreamsGroupMetadataKey():
            timeline.note(group.earlier_epochs, EpochOf.GROUP, group.epoch)
            timeline.note(group.earlier_epochs, EpochOf.VALIDATED_TOPOLOGY, group.validated_topology_epoch)
        case StreamsGroupTargetAssignmentMetadataKey():
            timeline.note(group.earlier_epochs, EpochOf.ASSIGNMENT, group.assignment_epoch)
        case StreamsGroupTargetAssignmentMemberKey() as key:
            timeline.note(group.earlier_targets, key.member_id, group.targets.get(key.member_id))
        case StreamsGroupMemberMetadataKey() | StreamsGroupCurrentMemberAssignmentKey() as key:
            timeline.note(group.earlier_members, key.member_id, group.members.get(key.member_id))
        case StreamsGroupTopologyKey():
            timeline.note(group.earlier_topology, TOPOLOGY, group.topology)


def _put(group: StreamsGroup, record: CoordinatorRecord) -> None:
    match record.key, record.value:
        case StreamsGroupMetadataKey(), StreamsGroupMetadataValue() as value:
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
            group.validated_topology_epoch = value.validated_topology_epoch
            group.assignment_configs = assignment_configs_of(value)
        case StreamsGroupMemberMetadataKey() as key, StreamsGroupMemberMetadataValue() as value:
            group.set_member(with_metadata(_member(group, key.member_id), value))
        case StreamsGroupTargetAssignmentMetadataKey(), StreamsGroupTargetAssignmentMetadataValue() as value:
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
        case StreamsGroupTargetAssignmentMemberKey() as key, StreamsGroupTargetAssignmentMemberValue() as value:
            group.targets[key.member_id] = target_of(value)
        case StreamsGroupCurrentMemberAssignmentKey() as key, StreamsGroupCurrentMemberAssignmentValue() as value:
            group.set_member(with_current(_member(group, key.member_id), value))
        case StreamsGroupTopologyKey(), StreamsGroupTopologyValue() as value:
            group.set_topology(topology_of(value))


def _take_away(groups: dict[str, Group], group: StreamsGroup, record: CoordinatorRecord) -> None:
    match record.key:
        case StreamsGroupMetadataKey():
            del groups[group.group_id]
        case StreamsGroupMemberMetadataKey() as key:
            group.remove_member(key.member_id)
        case StreamsGroupTargetAssignmentMetadataKey():
            group.assignment_epoch = _GONE
            group.assignment_timestamp_ms = 0
        case StreamsGroupTargetAssignmentMemberKey() as key:
            group.targets.pop(key.member_id, None)
        case StreamsGroupCurrentMemberAssignmentKey() as key:
            member = group.members.get(key.member_id)
            if member is not None:
                gone = replace(
                    member,
                    member_epoch=_GONE,
                    previous_member_epoch=_GONE,
                    assigned=NOTHING_OWNED,
                    pending_revocation=NOTHING_OWNED,
                )
                group.set_member(gone)
        case StreamsGroupTopologyKey():
            group.set_topology(None)


def _member(group: StreamsGroup, member_id: str) -> StreamsMember:
    return group.members.get(member_id) or StreamsMember(member_id)
