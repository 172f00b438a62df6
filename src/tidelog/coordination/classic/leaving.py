"""LeaveGroup (13), v0-5: end memberships. v3 several at once, static ones by their names too · v5 a reason for each."""

from __future__ import annotations

from tidelog.coordination.classic.answers import leave_answer, leave_error, leavers_of
from tidelog.coordination.classic.group import ClassicGroup, GroupState
from tidelog.coordination.classic.rebalances import Rebalances, Records, log
from tidelog.coordination.decision import Caller, Decision
from tidelog.coordination.group import Group
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse


class Leaving:
    """Decides about LeaveGroup."""

    def __init__(self, groups: dict[str, Group], rebalances: Rebalances) -> None:
        self._groups = groups
        self._rebalances = rebalances

    def leave(self, request: LeaveGroupRequest, caller: Caller, now_ms: int) -> Decision[LeaveGroupResponse]:
        group = self._groups.get(request.group_id)
        if isinstance(group, ClassicGroup) and group.state is GroupState.DEAD:
            return Decision(leave_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        known = group if isinstance(group, ClassicGroup) else None
        outcomes = [
            MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID if known is None else self._leave(known, leaver),
            )
            for leaver in leavers_of(request, caller.api_version)
        ]
        left = sum(outcome.error_code == ErrorCode.NONE for outcome in outcomes)
        records: Records = ()
        if known is not None and left and not known.is_empty:
            records = self._rebalances.start_or_complete(known, f"{left} members have left", now_ms)
        return Decision(leave_answer(outcomes, caller.api_version), records, replays=False)

    def _leave(self, group: ClassicGroup, leaver: MemberIdentity) -> ErrorCode:
        member_id = leaver.member_id
        if not member_id:
            # An administrator takes a static member out, whatever its id is at the moment.
            if leaver.group_instance_id is None or leaver.group_instance_id not in group.static_member_ids:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_member_ids[leaver.group_instance_id]
        elif member_id not in group.pending_joins:
            error = group.check_member(member_id, leaver.group_instance_id)
            if error:
                return error
        log.info("member %r leaves group %s: %r", member_id, group.group_id, leaver.reason or "not provided")
        self._rebalances.take_out(group, member_id)
        return ErrorCode.NONE
