"""JoinGroup (11), v0-9: become a member, or stay one in the next generation.

v0 has no rebalance time-out, the session's counts · v4 a new member is first given its id, and joins with it (KIP-394)
v5 static members, who keep their place under a name of their own (KIP-345) · v9 a static leader that comes back is told to leave
the assignment as it is (KIP-814); before, it is told that the id that it had leads, so that it does not assign.

Deviations from Kafka: a first join with protocols that cannot be used creates no group; a join that the same member repeats
answers the one before it; a member that is turned away because the group is full does not hold up the others.
"""

from __future__ import annotations

from random import Random
from uuid import UUID

from tidelog.coordination.classic.answers import join_error
from tidelog.coordination.classic.group import ClassicGroup, GroupState
from tidelog.coordination.classic.member import ClassicMember, ParkedJoin, Protocols, protocols_of
from tidelog.coordination.classic.rebalances import Rebalances, Records, answer_parked, log
from tidelog.coordination.classic.records import group_record, new_group_record
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.coordination.group_settings import GroupSettings
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import JoinGroupRequest, JoinGroupResponse

Joined = Decision[JoinGroupResponse]

_MEMBER_ID_REQUIRED_VERSION = 4
_SKIP_ASSIGNMENT_VERSION = 9

# A new member may not know its id, so that neither heartbeats nor a lost connection tell whether it still waits. One that
# does comes again; one that does not is forgotten after this time.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000

# What a string of the older versions can hold, and a record of the group. A client's name may be as long by itself; Kafka, which
# takes all of it, cannot answer such a client.
_MEMBER_ID_BYTES_MAX = 2**15 - 1
_CHARACTER_BYTES_MAX = 4
_NAME_BYTES_MAX = _MEMBER_ID_BYTES_MAX - len("-") - len(str(UUID(int=0)))


class _Joiner:
    """One request: what the caller says of itself."""

    __slots__ = ("caller", "instance_id", "member_id", "protocols", "rebalance_timeout_ms", "request")

    def __init__(self, request: JoinGroupRequest, caller: Caller) -> None:
        self.request = request
        self.caller = caller
        self.member_id = request.member_id
        self.instance_id = request.group_instance_id
        self.protocols: Protocols = protocols_of(request.protocols)
        self.rebalance_timeout_ms = (
            request.session_timeout_ms if caller.api_version == 0 else request.rebalance_timeout_ms
        )

    def refused(self, error: ErrorCode, member_id: str | None = None) -> Joined:
        told = self.member_id if member_id is None else member_id
        return Decision(join_error(error, told, self.caller.api_version))

    def because(self, what: str) -> str:
        return f"{what}; the client's reason: {self.request.reason or 'not provided'!r}"


class Joining:
    """Decides about JoinGroup."""

    def __init__(
        self, groups: dict[str, Group], rebalances: Rebalances, settings: GroupSettings, random: Random
    ) -> None:
        self._groups = groups
        self._rebalances = rebalances
        self._settings = settings
        self._random = random

    def join(self, request: JoinGroupRequest, caller: Caller, now_ms: int) -> Joined:
        joiner = _Joiner(request, caller)
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self._join(group, joiner, now_ms)
        if group is not None and not (group.is_empty and group.gives_way):
            return joiner.refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        if joiner.member_id:
            return joiner.refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._join_new_group(group, joiner, now_ms)

    def _join_new_group(self, before: Group | None, joiner: _Joiner, now_ms: int) -> Joined:
        """The first member makes the group, in place of an empty one of another kind that there may be."""
        group_id = joiner.request.group_id
        group = ClassicGroup(group_id, state_since_ms=now_ms)
        if not group.supports(joiner.request.protocol_type, joiner.protocols):
            return joiner.refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        ended = before.tombstones() if before is not None else ()
        self._groups[group_id] = group
        self._rebalances.sessions.watch(group)
        joined = self._join(group, joiner, now_ms)

        def settled(error: ErrorCode) -> None:
            if not error or self._groups.get(group_id) is not group or group.generation_id:
                return
            log.warning("group %s could not be written: %s", group_id, error.name)
            if before is None:
                del self._groups[group_id]
            else:
                self._groups[group_id] = before
            group.transition_to(GroupState.DEAD, now_ms)
            self._rebalances.dissolve(group, error)

        records = (*ended, new_group_record(group_id, now_ms), *joined.records)
        return Decision(joined.answer, records, replays=False, settled=settled)

    def _join(self, group: ClassicGroup, joiner: _Joiner, now_ms: int) -> Joined:
        if not self._has_room(group, joiner.member_id):
            self._rebalances.take_out(group, joiner.member_id)
            records = self._rebalances.complete_if_all_joined(group, now_ms)
            answer = join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, "", joiner.caller.api_version)
            return Decision(answer, records, replays=False)
        if group.state is GroupState.DEAD:
            return joiner.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group.supports(joiner.request.protocol_type, joiner.protocols):
            return joiner.refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not joiner.member_id:
            return self._join_as_new(group, joiner, now_ms)
        if joiner.member_id in group.pending_joins:
            if joiner.instance_id is not None:
                # An id is only given out in advance to those who have no name of their own.
                return joiner.refused(ErrorCode.UNKNOWN_SERVER_ERROR, "")
            return self._add(group, joiner, joiner.member_id, now_ms)
        error = group.check_member(joiner.member_id, joiner.instance_id)
        if error:
            return joiner.refused(error)
        return self._join_again(group, group.members[joiner.member_id], joiner, now_ms)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether the group may have this member. While it rebalances the first to come stay, should it be too large already."""
        max_size = self._settings.max_size
        if group.state in {GroupState.EMPTY, GroupState.DEAD}:
            return True
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.awaits_join) or group.awaiting_joins_count < max_size
        return member is not None or len(group.members) < max_size

    # New members

    def _join_as_new(self, group: ClassicGroup, joiner: _Joiner, now_ms: int) -> Joined:
        api_version = joiner.caller.api_version
        name = joiner.caller.client_id if joiner.instance_id is None else joiner.instance_id
        if len(name) > _NAME_BYTES_MAX // _CHARACTER_BYTES_MAX:
            name = name.encode()[:_NAME_BYTES_MAX].decode(errors="ignore")
        member_id = f"{name}-{UUID(int=self._random.getrandbits(128), version=4)}"
        if joiner.instance_id is not None:
            known = group.static_member_ids.get(joiner.instance_id)
            if known is not None:
                return self._replace(group, known, member_id, joiner, now_ms)
        elif api_version >= _MEMBER_ID_REQUIRED_VERSION:
            group.pending_joins[member_id] = None
            self._rebalances.sessions.expect(group.group_id, member_id, now_ms + joiner.request.session_timeout_ms)
            return joiner.refused(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._add(group, joiner, member_id, now_ms)

    def _add(self, group: ClassicGroup, joiner: _Joiner, member_id: str, now_ms: int) -> Joined:
        member = ClassicMember(
            member_id,
            joiner.instance_id,
            joiner.caller.client_id,
            joiner.caller.client_host,
            rebalance_timeout_ms=joiner.rebalance_timeout_ms,
            session_timeout_ms=joiner.request.session_timeout_ms,
            protocol_type=joiner.request.protocol_type,
            protocols=joiner.protocols,
        )
        member.is_new = True
        if group.is_initial_rebalance:
            group.new_member_added = True
        parked = ParkedJoin(joiner.caller.api_version)
        group.add(member, parked)
        self._rebalances.sessions.renew(group, member, now_ms, NEW_MEMBER_JOIN_TIMEOUT_MS)
        reason = joiner.because(f"new member {member_id!r}")
        return _parked(parked, self._rebalances.start_or_complete(group, reason, now_ms))

    # Known members

    def _join_again(self, group: ClassicGroup, member: ClassicMember, joiner: _Joiner, now_ms: int) -> Joined:
        if group.state is GroupState.PREPARING_REBALANCE:
            return self._rejoin(group, member, joiner, "has joined again", now_ms)
        if member.protocols != joiner.protocols:
            return self._rejoin(group, member, joiner, "has changed its protocols", now_ms)
        if group.state is GroupState.STABLE and group.leader_id == member.member_id:
            # How a leader says that it has to assign anew, for example because a topic has more partitions now.
            return self._rejoin(group, member, joiner, "leads and has joined again", now_ms)
        # It has not received the answer to its join: here it is again.
        return Decision(self._rebalances.joined(group, member))

    def _rejoin(self, group: ClassicGroup, member: ClassicMember, joiner: _Joiner, what: str, now_ms: int) -> Joined:
        group.update(member, joiner.protocols, joiner.rebalance_timeout_ms, joiner.request.session_timeout_ms)
        parked = ParkedJoin(joiner.caller.api_version)
        repeated = group.park_join(member, parked)
        reason = joiner.because(f"{member.member_id!r} {what}")
        records = self._rebalances.start_or_complete(group, reason, now_ms)
        if repeated is not None:
            again = join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, repeated.api_version)
            repeated.answer.complete(again)
        return _parked(parked, records)

    # A static member under a new id

    def _replace(self, group: ClassicGroup, old_id: str, new_id: str, joiner: _Joiner, now_ms: int) -> Joined:
        """A static member has started again, or two have the same name: the later one has it, the other is fenced."""
        leader_before = group.leader_id
        old = group.members[old_id]
        member = group.replace_static(old_id, new_id)
        group.update(member, joiner.protocols, joiner.rebalance_timeout_ms, joiner.request.session_timeout_ms)
        self._rebalances.sessions.end(group.group_id, old_id)
        self._rebalances.sessions.renew(group, member, now_ms)
        parked = ParkedJoin(joiner.caller.api_version)
        group.park_join(member, parked)
        if group.state is GroupState.STABLE and group.protocol_name == group.select_protocol():
            decision = self._replaced_in_stable_group(group, old, member, leader_before)
        else:
            # A leader that assigns right now does so for the old id, so that a group that syncs has to join again.
            reason = joiner.because(f"static member {joiner.instance_id!r} is {new_id!r} now")
            decision = _parked(parked, self._rebalances.start_or_complete(group, reason, now_ms))
        answer_parked(old, ErrorCode.FENCED_INSTANCE_ID, old_id)
        return decision

    def _replaced_in_stable_group(
        self, group: ClassicGroup, old: ClassicMember, member: ClassicMember, leader_before: str | None
    ) -> Joined:
        """No rebalance: the new id takes over the assignment once that is written down."""
        parked = member.parked_join
        if parked is None:
            raise RuntimeError("a member that joins has nothing parked")

        def settled(error: ErrorCode) -> None:
            if member.parked_join is not parked or group.state is not GroupState.STABLE:
                return  # A rebalance has begun since: its end answers.
            group.park_join(member, None)
            if error:
                self._revert(group, old, member)
                refusal = join_error(error, "", parked.api_version)
                parked.answer.complete(refusal)
                return
            answer = self._rebalances.joined(group, member)
            if parked.api_version >= _SKIP_ASSIGNMENT_VERSION:
                answer.skip_assignment = bool(answer.members)
            else:
                answer.members = []
                answer.leader = leader_before or ""
            parked.answer.complete(answer)

        return Decision(parked.answer, (group_record(group),), replays=False, settled=settled)

    def _revert(self, group: ClassicGroup, old: ClassicMember, member: ClassicMember) -> None:
        restored = group.replace_static(member.member_id, old.member_id)
        group.update(restored, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        sessions = self._rebalances.sessions
        sessions.end(group.group_id, member.member_id)
        sessions.renew(group, restored, self._rebalances.latest_ms)


def _parked(parked: ParkedJoin, records: Records) -> Joined:
    return Decision(parked.answer, records, replays=False)
