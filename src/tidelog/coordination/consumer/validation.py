"""What is wrong with a heartbeat, whatever the group: Kafka's checks, in Kafka's order, with Kafka's sentences.

Also what is wrong with a member's epoch or instance id, given the group.
"""

from __future__ import annotations

from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerMember
from tidelog.coordination.consumer.reconciliation import Claimed, claims_only
from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest

# From this version on members make their own ids (KIP-1082).
_OWN_ID_VERSION = 1


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """RefusedError where no group could grant this."""
    epoch = request.member_epoch
    if not request.member_id and (api_version >= _OWN_ID_VERSION or epoch > 0 or epoch == LEAVING_EPOCH):
        raise _invalid("MemberId can't be empty.")
    for name, text in (("Group", request.group_id), ("Instance", request.instance_id), ("Rack", request.rack_id)):
        if text is not None and not text.strip():
            raise _invalid(f"{name}Id can't be empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == STATIC_LEAVING_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        supported = ", ".join(assignors)
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}."
        raise RefusedError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def check_room(group: ConsumerGroup, member_id: str, members_max: int) -> None:
    """RefusedError where a new member does not fit in."""
    if len(group.members) >= members_max and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {members_max} members."
        raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """The member of this id, or RefusedError."""
    member = group.members.get(member_id)
    if member is None:
        raise RefusedError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
        )
    return member


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member that holds the instance id, if it is this one; otherwise RefusedError."""
    member = group.static_member(instance_id)
    if member is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        raise RefusedError(ErrorCode.FENCED_INSTANCE_ID, message)
    return member


def check_released(member: ConsumerMember, member_id: str, instance_id: str) -> None:
    """RefusedError where the holder of an instance id has not said that it will be back."""
    if member.member_epoch != STATIC_LEAVING_EPOCH:
        message = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is "
            f"owned by {member.member_id} member."
        )
        raise RefusedError(ErrorCode.UNRELEASED_INSTANCE_ID, message)


def check_epoch(member: ConsumerMember, epoch: int, claimed: Claimed) -> None:
    """RefusedError where the member is not in the epoch that it says.

    To join again is always right. One epoch back is accepted where the member has nothing that it should not have: the answer
    with the new epoch was lost.
    """
    if epoch in {member.member_epoch, JOINING_EPOCH}:
        return
    if epoch < member.member_epoch:
        if epoch == member.previous_member_epoch and claims_only(claimed, member.assigned):
            return
        how = "smaller"
    else:
        how = "greater"
    message = (
        f"The consumer group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )
    raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)
