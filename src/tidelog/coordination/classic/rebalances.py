"""How a group gets from one generation to the next: members join, the join ends, they sync, or fail to.

A member may hold up the others for as long as the longest rebalance time-out in the group, once for joining and once for
syncing. The first rebalance of an empty group waits a little for others (`group.initial.rebalance.delay.ms`), anew while more
come, so that a fleet that starts does not rebalance with each of its members.

Answers leave last: whoever gets one may send its next request before the call that answered it returns.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from tidelog.coordination.classic.answers import join_error, sync_error
from tidelog.coordination.classic.group import ClassicGroup, GroupState
from tidelog.coordination.classic.member import ClassicMember, ParkedJoin
from tidelog.coordination.classic.records import group_record
from tidelog.coordination.classic.sessions import Sessions
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.groups_classic import JoinGroupResponse, SyncGroupResponse

log = logging.getLogger(__name__)

Records = tuple[CoordinatorRecord, ...]
"""What has to be written down: the group itself if it has become empty, otherwise nothing."""


class Rebalances:
    """The rebalances of all classic groups of a coordinator."""

    def __init__(self, groups: dict[str, Group], deadlines: Deadlines, settings: GroupSettings) -> None:
        self._groups = groups
        self._deadlines = deadlines
        self._settings = settings
        self.sessions = Sessions(deadlines, self._expire_session)
        self.latest_ms = 0
        """The latest time that a caller has passed in. Callbacks that run when a record is committed take it for the present."""

    # Joining

    def start_or_complete(self, group: ClassicGroup, reason: str, now_ms: int) -> Records:
        """A member came, changed or went: all have to join again, unless they are doing so already."""
        if group.can_rebalance:
            return self.start(group, reason, now_ms)
        return self.complete_if_all_joined(group, now_ms)

    def start(self, group: ClassicGroup, reason: str, now_ms: int) -> Records:
        """Let everybody join again."""
        unsynced = self._reset_assignments(group, now_ms) if group.state is GroupState.COMPLETING_REBALANCE else []
        group.pending_syncs.clear()
        self._deadlines.cancel(_sync_key(group))
        is_initial = group.is_empty
        group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
        log.info("group %s rebalances after generation %d: %s", group.group_id, group.generation_id, reason)
        records: Records = ()
        if is_initial:
            group.new_member_added = False
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._await_others(group.group_id, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now_ms)
        elif group.have_all_joined:
            records = self.complete(group, now_ms)
        else:
            self._await_joins(group, now_ms)
        for parked in unsynced:
            parked.complete(sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        return records

    def complete_if_all_joined(self, group: ClassicGroup, now_ms: int) -> Records:
        """End the joining if nobody is missing. The first rebalance always takes its time."""
        if group.state is not GroupState.PREPARING_REBALANCE or group.is_initial_rebalance or not group.have_all_joined:
            return ()
        return self.complete(group, now_ms)

    def complete(self, group: ClassicGroup, now_ms: int) -> Records:
        """End the joining: who has not joined is out, unless it is a static member; the others are the next generation."""
        self._deadlines.cancel(_join_key(group.group_id))
        late = [member for member in group.members.values() if not (member.awaits_join or member.is_static)]
        for member in late:
            self.take_out(group, member.member_id)
        if group.members and not group.elect_leader():
            # Only static members are left, and none of them has come: their sessions decide.
            self._await_joins(group, now_ms)
            return ()
        group.next_generation(now_ms)
        if group.is_empty:
            log.info("group %s is empty in generation %d", group.group_id, group.generation_id)
            return (group_record(group),)
        log.info("group %s: generation %d has %d members", group.group_id, group.generation_id, len(group.members))
        joined: list[tuple[ParkedJoin, JoinGroupResponse]] = []
        for member in group.members.values():
            parked = group.park_join(member, None)
            if parked is not None:
                joined.append((parked, self.joined(group, member)))
            self.sessions.renew(group, member, now_ms)
            member.is_new = False
            group.pending_syncs[member.member_id] = None
        expiry = partial(self._expire_sync, group.group_id, group.generation_id)
        self._deadlines.set(_sync_key(group), now_ms + group.rebalance_timeout_ms, expiry)
        for parked, answer in joined:
            parked.answer.complete(answer)
        return ()

    @staticmethod
    def joined(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
        """That a member belongs to the present generation. The leader is told of all members."""
        is_leader = group.leader_id == member.member_id
        return JoinGroupResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            member_id=member.member_id,
            members=group.members_for_leader() if is_leader else [],
        )

    # Syncing

    def has_synced(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_syncs.pop(member_id, None)
        if not group.pending_syncs:
            self._deadlines.cancel(_sync_key(group))

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes], now_ms: int) -> None:
        """The generation is complete: its assignments are written down, and each member that waits gets its own."""
        answers: list[tuple[Pending[SyncGroupResponse], SyncGroupResponse]] = []
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            parked, member.parked_sync = member.parked_sync, None
            if parked is not None:
                answers.append((parked, self.assigned(group, member)))
                # While it waited its session was not enforced.
                self.sessions.renew(group, member, now_ms)
        group.transition_to(GroupState.STABLE, now_ms)
        for parked, answer in answers:
            parked.complete(answer)

    def abandon_sync(self, group: ClassicGroup, error: ErrorCode, now_ms: int) -> Records:
        """The assignments could not be written down: those who wait are told why, and all join again."""
        unsynced = self._reset_assignments(group, now_ms)
        records = self.start(group, f"its assignments could not be written ({error.name})", now_ms)
        for parked in unsynced:
            parked.complete(sync_error(error))
        return records

    @staticmethod
    def assigned(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
        return SyncGroupResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignment=member.assignment,
        )

    # Members that go

    def take_out(self, group: ClassicGroup, member_id: str) -> None:
        """End a membership, a pending one too. What the member waits for is answered."""
        self.sessions.end(group.group_id, member_id)
        member = group.remove(member_id)
        if member is not None:
            # If it is alive after all it begins anew.
            answer_parked(member, ErrorCode.UNKNOWN_MEMBER_ID, member_id="")

    def dissolve(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Cancel all that is to happen in a group that is one no longer, and answer all that wait in it."""
        self._deadlines.cancel(_join_key(group.group_id))
        self._deadlines.cancel(_sync_key(group))
        for member_id in (*group.pending_joins, *group.members):
            self.sessions.end(group.group_id, member_id)
        members = list(group.members.values())
        parked_joins = [(member, group.park_join(member, None)) for member in members]
        for member, parked in parked_joins:
            if parked is not None:
                parked.answer.complete(join_error(error, member.member_id, parked.api_version))
            answer_parked(member, error, member.member_id)

    # Time

    def _await_joins(self, group: ClassicGroup, now_ms: int) -> None:
        at_ms = now_ms + group.rebalance_timeout_ms
        self._deadlines.set(_join_key(group.group_id), at_ms, partial(self._expire_join, group.group_id))

    def _await_others(self, group_id: str, delay_ms: int, remaining_ms: int, now_ms: int) -> None:
        action = partial(self._expire_initial_delay, group_id, delay_ms, remaining_ms)
        self._deadlines.set(_join_key(group_id), now_ms + delay_ms, action)

    def _expire_initial_delay(
        self, group_id: str, delay_ms: int, remaining_ms: int, now_ms: int
    ) -> Decision[None] | None:
        self.latest_ms = now_ms
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup) or group.state is not GroupState.PREPARING_REBALANCE:
            return None
        if not group.new_member_added or remaining_ms == 0:
            return _decided(self.complete(group, now_ms))
        group.new_member_added = False
        next_ms = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
        self._await_others(group_id, next_ms, max(remaining_ms - delay_ms, 0), now_ms)
        return None

    def _expire_join(self, group_id: str, now_ms: int) -> Decision[None] | None:
        self.latest_ms = now_ms
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup) or group.state is not GroupState.PREPARING_REBALANCE:
            return None
        return _decided(self.complete(group, now_ms))

    def _expire_sync(self, group_id: str, generation_id: int, now_ms: int) -> Decision[None] | None:
        self.latest_ms = now_ms
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup) or group.generation_id != generation_id or not group.pending_syncs:
            return None
        late = list(group.pending_syncs)
        for member_id in late:
            self.take_out(group, member_id)
        return _decided(self.start_or_complete(group, f"{len(late)} members have not synced in time", now_ms))

    def _expire_session(self, group_id: str, member_id: str, now_ms: int) -> Decision[None] | None:
        self.latest_ms = now_ms
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return None
        member = group.members.get(member_id)
        if member is None:
            if member_id not in group.pending_joins:
                return None
            self.take_out(group, member_id)
        elif member.is_alive:
            return None
        else:
            self.take_out(group, member_id)
            if group.state is not GroupState.PREPARING_REBALANCE:
                reason = f"the session of {member_id!r} has expired"
                return _decided(self.start_or_complete(group, reason, now_ms))
        if group.state is GroupState.PREPARING_REBALANCE and group.have_all_joined:
            return _decided(self.complete(group, now_ms))
        return None

    def _reset_assignments(self, group: ClassicGroup, now_ms: int) -> list[Pending[SyncGroupResponse]]:
        """Take all assignments back. Returns what those who wait for theirs have parked, for the caller to answer."""
        parked = []
        for member in group.members.values():
            member.assignment = b""
            if member.parked_sync is not None:
                parked.append(member.parked_sync)
                member.parked_sync = None
                self.sessions.renew(group, member, now_ms)
        return parked


def answer_parked(member: ClassicMember, error: ErrorCode, member_id: str) -> None:
    """Answer all that somebody waits for who is no member (of this name, of this coordinator) any more."""
    join, member.parked_join = member.parked_join, None
    sync, member.parked_sync = member.parked_sync, None
    if join is not None:
        join.answer.complete(join_error(error, member_id, join.api_version))
    if sync is not None:
        sync.complete(sync_error(error))


def _decided(records: Iterable[CoordinatorRecord]) -> Decision[None] | None:
    written = tuple(records)
    return Decision(None, written, replays=False) if written else None


def _join_key(group_id: str) -> tuple[str, str]:
    return ("classic-join", group_id)


def _sync_key(group: ClassicGroup) -> tuple[str, str]:
    return ("classic-sync", group.group_id)
