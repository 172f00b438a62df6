# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The classic groups of one shard of the group coordinator. Decides purely; see `group` for the states of a group.

    decision = classic.join(request, caller, now_ms)
    append decision.records, decision.settled(error), decision.answer

What is wrong with a request whatever the group, such as the length of a session, is checked before it comes here.
Only what survives a restart is in records: the members and assignments of a stable generation, or that there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tidelog.coordination.classic.answers import heartbeat_answer
from tidelog.coordination.classic.group import ClassicGroup, GroupState
from tidelog.coordination.classic.joining import Joining
from tidelog.coordination.classic.leaving import Leaving
from tidelog.coordination.classic.rebalances import Rebalances
from tidelog.coordination.classic.records import replayed_group
from tidelog.coordination.classic.syncing import Syncing
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.group_admin import DescribedGroup, DescribedGroupMember
from tidelog.wire.messages.groups_classic import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tidelog.wire.messages.internal.offset_records import GroupMetadataKey, GroupMetadataValue
from tidelog.wire.typed.groups_classic import HeartbeatRequest, HeartbeatResponse

# Enum members as module constants, since every heartbeat needs them: see docs/style.md.
_DEAD, _PREPARING_REBALANCE = GroupState.DEAD, GroupState.PREPARING_REBALANCE

# What nearly all heartbeats come to: one decision for all of them, which nobody changes.
_STAY = Decision(heartbeat_answer(ErrorCode.NONE))
_JOIN_AGAIN = Decision(heartbeat_answer(ErrorCode.REBALANCE_IN_PROGRESS))


class ClassicGroups:
    """All classic groups in `groups`, which others share for groups of other kinds."""

    def __init__(self, groups: dict[str, Group], deadlines: Deadlines, settings: GroupSettings, random: Random) -> None:
        self._groups = groups
        self._settings = settings
        self._rebalances = Rebalances(groups, deadlines, settings)
        self._sessions = self._rebalances.sessions
        self._joining = Joining(groups, self._rebalances, settings, random)
        self._syncing = Syncing(groups, self._rebalances)
        self._leaving = Leaving(groups, self._rebalances)

    # Requests

    def join(self, request: JoinGroupRequest, caller: Caller, now_ms: int) -> Decision[JoinGroupResponse]:
        """Answers when all members have joined. A group that is no classic one must be empty; it becomes one."""
        self._rebalances.latest_ms = now_ms
        return self._joining.join(request, caller, now_ms)

    def sync(self, request: SyncGroupRequest, caller: Caller, now_ms: int) -> Decision[SyncGroupResponse]:
        """Answers when the leader's assignments are committed."""
        del caller
        self._rebalances.latest_ms = now_ms
        return self._syncing.sync(request)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Decision[HeartbeatResponse]:
        """A sign of life; the answer says whether the member has to join again."""
        self._rebalances.latest_ms = now_ms
        known = self._groups.get(request.group_id)
        if not isinstance(known, ClassicGroup):
            return Decision(heartbeat_answer(ErrorCode.UNKNOWN_MEMBER_ID))
        group = known
        state = group.state
        if state is _DEAD:
            return Decision(heartbeat_answer(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return Decision(heartbeat_answer(error))
        if request.generation_id != group.generation_id:
            return Decision(heartbeat_answer(ErrorCode.ILLEGAL_GENERATION))
        self._sessions.renew(group, group.members[request.member_id], now_ms)
        return _JOIN_AGAIN if state is _PREPARING_REBALANCE else _STAY

    def leave(self, request: LeaveGroupRequest, caller: Caller, now_ms: int) -> Decision[LeaveGroupResponse]:
        """Answers for each member whether it has left; those who stay join again."""
        self._rebalances.latest_ms = now_ms
        return self._leaving.leave(request, caller, now_ms)

    def describe(self, group: ClassicGroup) -> DescribedGroup:
        """What DescribeGroups says of a group. Members' subscriptions and the protocol only hold while it is stable."""
        is_stable = group.state is GroupState.STABLE
        return DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group.group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=(group.protocol_name or "") if is_stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    # Groups that begin and end elsewhere

    def group_for_offsets(self, group_id: str, now_ms: int) -> ClassicGroup:
        """The classic group of this id; where there is none, a simple one, which lives by its offsets and has no record."""
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group
        if group is not None:
            raise RuntimeError(f"group {group_id} is not a classic one")
        created = ClassicGroup(group_id, state_since_ms=now_ms)
        self._take_in(created)
        return created

    def adopt(self, group: ClassicGroup, now_ms: int, *, rebalances: bool) -> tuple[CoordinatorRecord, ...]:
        """Take in a group that was of another kind, in its place. The members' sessions begin; they join again if so wanted.

        The caller has the group's own record written (`records.group_record`), before those that are returned.
        """
        self._rebalances.latest_ms = now_ms
        self._take_in(group)
        for member in group.members.values():
            self._sessions.renew(group, member, now_ms)
        return self._rebalances.start(group, "it was of another kind before", now_ms) if rebalances else ()

    def release(self, group: ClassicGroup) -> None:
        """Drop a group that is converted to another kind: no session and no time-out is left, and whoever waits is told to join
        again.
        """
        self._rebalances.dissolve(group, ErrorCode.REBALANCE_IN_PROGRESS)

    # Loading

    def replay_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None, now_ms: int) -> None:
        """Make the group what a record says; without a value it ends."""
        del now_ms  # Sessions begin once everything is loaded.
        known = self._groups.get(key.group)
        if isinstance(known, ClassicGroup):
            del self._groups[key.group]
            self._rebalances.dissolve(known, ErrorCode.UNKNOWN_MEMBER_ID)
        if value is not None:
            self._take_in(replayed_group(key.group, value))

    def loaded(self, now_ms: int) -> Sequence[Decision[None]]:
        """All has been replayed. Every member has a whole session to come back in; groups that are too large now rebalance."""
        self._rebalances.latest_ms = now_ms
        decisions = []
        for group in [group for group in self._groups.values() if isinstance(group, ClassicGroup)]:
            for member in group.members.values():
                self._sessions.renew(group, member, now_ms)
            if len(group.members) > self._settings.max_size:
                reason = f"it has {len(group.members)} members, and may have {self._settings.max_size}"
                records = self._rebalances.start(group, reason, now_ms)
                decisions.append(Decision(None, records, replays=False))
        return decisions

    def unload(self) -> None:
        """Another node leads now: waiting requests are answered, and outcomes that arrive later are ignored."""
        for group in [group for group in self._groups.values() if isinstance(group, ClassicGroup)]:
            group.transition_to(GroupState.DEAD, self._rebalances.latest_ms)
            self._rebalances.dissolve(group, ErrorCode.NOT_COORDINATOR)

    def _take_in(self, group: ClassicGroup) -> None:
        self._groups[group.group_id] = group
        self._sessions.watch(group)
