"""What the versions of the classic protocol have in common: its answers, as each of them can carry them, and who leaves."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupResponse,
)

# From this version on, no protocol is null. Before, it is an empty string.
_NULL_PROTOCOL_VERSION = 7
# From this version on, LeaveGroup names several members, each with an error of its own.
_MEMBERS_VERSION = 3


def join_error(error: ErrorCode, member_id: str, api_version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=error,
        leader="",
        member_id=member_id,
        members=[],
        protocol_name=None if api_version >= _NULL_PROTOCOL_VERSION else "",
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(throttle_time_ms=0, error_code=error, assignment=b"")


def heartbeat_answer(error: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=0, error_code=error)


def leave_error(error: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(throttle_time_ms=0, error_code=error, members=[])


def leavers_of(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """Who is to leave."""
    if api_version >= _MEMBERS_VERSION:
        return request.members
    return [MemberIdentity(member_id=request.member_id)]


def leave_answer(members: list[MemberResponse], api_version: int) -> LeaveGroupResponse:
    """Each member's outcome; a version that knows one member only has it as the whole answer's."""
    if api_version >= _MEMBERS_VERSION:
        return LeaveGroupResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, members=members)
    return leave_error(members[0].error_code)
