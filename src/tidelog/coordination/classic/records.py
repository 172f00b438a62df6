"""How a classic group is written down: one record with all members of a generation and their assignments."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.coordination.classic.group import ClassicGroup, GroupState
from tidelog.coordination.classic.member import ClassicMember
from tidelog.coordination.decision import record
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal.offset_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

GROUP_METADATA_VERSION = 3
_UNKNOWN = -1


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> CoordinatorRecord:
    """The group as it is, with the members' own assignments unless others are given; who is missing there has an empty one."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=_UNKNOWN if group.state_since_ms is None else group.state_since_ms,
        members=members,
    )
    return record(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VERSION)


def new_group_record(group_id: str, now_ms: int) -> CoordinatorRecord:
    """A group that exists from now on, and in which nobody has joined a generation yet."""
    value = GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=now_ms, members=[]
    )
    return record(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def replayed_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that a record holds."""
    since_ms = None if value.current_state_timestamp == _UNKNOWN else value.current_state_timestamp
    group = ClassicGroup(
        group_id, state_since_ms=since_ms, state=GroupState.STABLE if value.members else GroupState.EMPTY
    )
    group.generation_id = value.generation
    group.protocol_name = value.protocol
    for written in value.members:
        # Version 0 has one time-out for both.
        rebalance_timeout_ms = (
            written.session_timeout if written.rebalance_timeout == _UNKNOWN else written.rebalance_timeout
        )
        group.add(
            ClassicMember(
                written.member_id,
                written.group_instance_id,
                written.client_id,
                written.client_host,
                rebalance_timeout_ms=rebalance_timeout_ms,
                session_timeout_ms=written.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol or "", written.subscription),),
                assignment=written.assignment,
            )
        )
    group.protocol_type = value.protocol_type
    if value.leader in group.members:
        group.leader_id = value.leader
    group.note_subscriptions()
    return group
