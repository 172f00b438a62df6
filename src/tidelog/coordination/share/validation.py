"""What is wrong with a heartbeat: Kafka's checks, in Kafka's order, with Kafka's sentences."""

from __future__ import annotations

from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.share.group import ShareGroup
from tidelog.coordination.share.member import JOINING_EPOCH, LEAVING_EPOCH, ShareMember
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.share_groups import ShareGroupHeartbeatRequest


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """RefusedError where no group could grant this."""
    for name, text in (("Member", request.member_id), ("Group", request.group_id), ("Rack", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{name}Id can't be empty.")
    if request.member_epoch == JOINING_EPOCH:
        if not request.subscribed_topic_names:
            raise _invalid("SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def check_room(group: ShareGroup, member_id: str, members_max: int) -> None:
    """RefusedError where a new member does not fit in."""
    if len(group.members) >= members_max and member_id not in group.members:
        message = f"The share group has reached its maximum capacity of {members_max} members."
        raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def known_member(group: ShareGroup, member_id: str) -> ShareMember:
    """The member of this id, or RefusedError."""
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def check_epoch(member: ShareMember, epoch: int) -> None:
    """RefusedError where the member is not in the epoch that it says. One epoch back the answer with the new one was lost."""
    if epoch in {member.member_epoch, JOINING_EPOCH}:
        return
    if epoch < member.member_epoch:
        if epoch == member.previous_member_epoch:
            return
        how = "smaller"
        known = (
            f"({member.member_epoch}), and it does not match the previous member epoch ({member.previous_member_epoch})"
        )
    else:
        how, known = "greater", f"({member.member_epoch})"
    message = (
        f"The share group member has a {how} member epoch ({epoch}) than the one known by the group coordinator {known}. "
        "The member must abandon all its partitions and rejoin."
    )
    raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)
