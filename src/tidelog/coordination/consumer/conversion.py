"""A group changes its protocol while it has members (`group.consumer.migration.policy`).

    to the new one     the first member that speaks it joins: the group goes on with the classic members' assignments
    back               the last member that speaks it leaves: the others form a stable classic group, and join again

The classic protocol knows topics by name and this one by id, so partitions of topics that are gone are dropped on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.coordination.classic.group import ClassicGroup
from tidelog.coordination.classic.member import ClassicMember
from tidelog.coordination.consumer.assignors.subscription import Assignment, sort_by_topic
from tidelog.coordination.consumer.context import GroupContext
from tidelog.coordination.consumer.group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from tidelog.coordination.consumer.member import ConsumerMember
from tidelog.coordination.consumer.records import (
    current_record,
    group_record,
    member_record,
    names_of,
    target_epoch_record,
    target_record,
)
from tidelog.coordination.consumer.refusal import RefusedError
from tidelog.coordination.topics_view import TopicsView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.wire.errors import MalformedError
from tidelog.wire.internal_records import CoordinatorRecord, decode_consumer_protocol, encode_version_prefixed
from tidelog.wire.messages.internal.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from tidelog.wire.messages.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)


def check_upgrade(context: GroupContext, group: ClassicGroup) -> None:
    """RefusedError where the group has to stay what it is."""
    reason = None
    if not context.settings.consumer_migration_policy.allows_upgrade:
        reason = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > context.settings.consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason is not None:
        raise _cannot_upgrade(group.group_id, reason)


def from_classic(context: GroupContext, group: ClassicGroup) -> ConsumerGroup:
    """The group of the new protocol that a classic one becomes, not in use yet. RefusedError where a member cannot be read."""
    converted = ConsumerGroup(group.group_id)
    converted.epoch = converted.assignment_epoch = group.generation_id
    try:
        for member in group.members.values():
            target = _assignment_of(group.group_id, member, context.topics)
            converted.targets[member.member_id] = target
            converted.set_member(_consumer_member(group, member, target))
    except MalformedError:
        raise _cannot_upgrade(group.group_id, "the embedded consumer protocol is malformed") from None
    converted.metadata_hash = context.metadata_hash(converted.subscribed_topics())
    return converted


def conversion_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """All that there is to write down about a group that is new in this protocol."""
    members = group.members.values()
    group_id = group.group_id
    return [
        *(member_record(group_id, member) for member in members),
        group_record(group_id, group.epoch, group.metadata_hash),
        *(target_record(group_id, member.member_id, group.targets[member.member_id]) for member in members),
        target_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(current_record(group_id, member) for member in members),
    ]


def may_downgrade(context: GroupContext, group: ConsumerGroup, leaving: Iterable[str]) -> bool:
    """Whether those who stay if some members leave all speak the classic protocol, and may go back to it."""
    gone = set(leaving)
    stay = [member for member_id, member in group.members.items() if member_id not in gone]
    return (
        bool(stay)
        and all(member.classic is not None for member in stay)
        and context.settings.consumer_migration_policy.allows_downgrade
        and len(stay) <= context.settings.max_size
    )


def to_classic(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember], topics: TopicsView, now_ms: int
) -> ClassicGroup:
    """The classic group of these members; each comes with the id under which its target assignment is found."""
    converted = []
    for target_id, member in members.items():
        assert member.classic is not None
        protocols = tuple((protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols)
        converted.append(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocols=protocols,
                assignment=assignment_bytes(group.targets.get(target_id, {}), protocols[0][1], topics),
            )
        )
    return ClassicGroup.from_members(group.group_id, group.epoch, converted, now_ms)


def assignment_bytes(assignment: Mapping[TopicId, Iterable[int]], subscription: bytes, topics: TopicsView) -> bytes:
    """Partitions as a classic consumer reads them, in the version in which it wrote its subscription."""
    named = [
        TopicPartition(topic=topics.topics[topic].name, partitions=list(partitions))
        for topic, partitions in assignment.items()
        if topic in topics.topics
    ]
    highest = ConsumerProtocolAssignment.versions.highest
    version = min(int.from_bytes(subscription[:2], "big"), highest)
    return encode_version_prefixed(ConsumerProtocolAssignment(assigned_partitions=named, user_data=None), version)


def subscription_of(metadata: bytes) -> ConsumerProtocolSubscription:
    """What a classic consumer subscribes to. MalformedError where it is no consumer's."""
    return decode_consumer_protocol(ConsumerProtocolSubscription, metadata)


def _assignment_of(group_id: str, member: ClassicMember, topics: TopicsView) -> Assignment:
    if not member.assignment:
        return {}
    assignment = decode_consumer_protocol(ConsumerProtocolAssignment, member.assignment)
    if assignment.user_data:
        reason = (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
            "before re-attempting the upgrade"
        )
        raise _cannot_upgrade(group_id, reason)
    partitions: dict[TopicId, list[int]] = {}
    for topic in assignment.assigned_partitions:
        topic_id = topics.topic_ids.get(TopicName(topic.topic))
        if topic_id is not None:
            partitions[topic_id] = list(topic.partitions)
    return sort_by_topic(partitions)


def _consumer_member(group: ClassicGroup, member: ClassicMember, target: Assignment) -> ConsumerMember:
    subscription = subscription_of(member.metadata(group.protocol_name))
    epoch = group.generation_id
    return ConsumerMember(
        member.member_id,
        member_epoch=epoch,
        previous_member_epoch=epoch,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_names=names_of(subscription.topics),
        assigned={topic: dict.fromkeys(partitions, epoch) for topic, partitions in target.items()},
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in member.protocols],
        ),
    )


def _cannot_upgrade(group_id: str, reason: str) -> RefusedError:
    message = f"Cannot upgrade classic group {group_id} to consumer group because {reason}."
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, message)
