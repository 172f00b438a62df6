"""The answers of the classic protocol, as each version can carry them."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.groups_classic import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupResponse,
)

# From this version on, no protocol is null. Before, it is an empty string.
_NULL_PROTOCOL_VERSION = 7
# From this version on, LeaveGroup names several members, each with an error of its own.
_MEMBERS_VERSION = 3

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: ErrorCode) -> ErrorCode:
    """What a member is told when the group could not be written down: what it can act on, not what the log said."""
    return _APPEND_ERRORS.get(error, error)


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


def leave_answer(members: list[MemberResponse], api_version: int) -> LeaveGroupResponse:
    """Each member's outcome; a version that knows one member only has it as the whole answer's."""
    if api_version >= _MEMBERS_VERSION:
        return LeaveGroupResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, members=members)
    return leave_error(members[0].error_code)
