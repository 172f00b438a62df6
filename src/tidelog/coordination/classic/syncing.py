"""SyncGroup (14), v0-5: the leader hands in the assignments, everybody gets its own."""

from __future__ import annotations

from tidelog.coordination.classic.answers import sync_error
from tidelog.coordination.classic.group import ClassicGroup, GroupState
from tidelog.coordination.classic.rebalances import Rebalances
from tidelog.coordination.classic.records import group_record
from tidelog.coordination.decision import Decision
from tidelog.coordination.group import Group
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.wire.messages.groups_classic import SyncGroupRequest, SyncGroupResponse

Synced = Decision[SyncGroupResponse]


class Syncing:
    """Decides about SyncGroup."""

    def __init__(self, groups: dict[str, Group], rebalances: Rebalances) -> None:
        self._groups = groups
        self._rebalances = rebalances

    def sync(self, request: SyncGroupRequest) -> Synced:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ClassicGroup) or group.is_empty:
            return Decision(sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        error = _check(group, request)
        if error:
            return Decision(sync_error(error))
        member = group.members[request.member_id]
        self._rebalances.has_synced(group, member.member_id)
        if group.state is GroupState.STABLE:
            return Decision(self._rebalances.assigned(group, member))
        parked: Pending[SyncGroupResponse] = Pending()
        repeated, member.parked_sync = member.parked_sync, parked
        if repeated is not None:
            repeated.complete(sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        if group.leader_id != member.member_id:
            return Decision(parked)
        return self._write(group, request, parked)

    def _write(self, group: ClassicGroup, request: SyncGroupRequest, parked: Pending[SyncGroupResponse]) -> Synced:
        """The generation is stable once its assignments are committed. Members that the leader has left out get an empty one."""
        given = {assigned.member_id: assigned.assignment for assigned in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation_id = group.generation_id

        def settled(error: ErrorCode) -> None:
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
                return  # The members join again: what was assigned is of no use any more.
            now_ms = self._rebalances.latest_ms
            if error:
                # With members there is nothing to write, and there are: nobody can have gone without a rebalance.
                self._rebalances.abandon_sync(group, error, now_ms)
            else:
                self._rebalances.assign(group, assignments, now_ms)

        return Decision(parked, (group_record(group, assignments),), replays=False, settled=settled)


def _check(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE else ErrorCode.NONE


def _differs(said: str | None, known: str | None) -> bool:
    """A version before 5 says nothing."""
    return said is not None and bool(known) and said != known
