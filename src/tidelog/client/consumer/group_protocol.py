"""The bytes by which members of a classic group talk to each other through the coordinator, which does not read them.

A member's subscription goes to the leader in JoinGroup, the leader's assignment to the member in SyncGroup: both in the
format of Kafka's Java client, which every other client reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.client.consumer.assignors.assignor import Assignor, LastAssignment, MemberSubscription
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic
from tidelog.client.errors import ClientError
from tidelog.wire.errors import WireError
from tidelog.wire.internal_records import decode_consumer_protocol, encode_version_prefixed
from tidelog.wire.messages.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition as TopicPartitions,
)

PROTOCOL_TYPE = "consumer"


def encode_subscription(
    assignor: Assignor,
    topics: Iterable[str],
    *,
    owned: Sequence[TopicPartition],
    last: LastAssignment,
    rack_id: str | None,
) -> bytes:
    """What a member tells the leader, should the group choose this assignor."""
    subscription = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=assignor.user_data(last),
        owned_partitions=_listed(owned),
        generation_id=last.generation_id,
        rack_id=rack_id,
    )
    return encode_version_prefixed(subscription, ConsumerProtocolSubscription.versions.highest)


def decode_subscription(data: bytes, group_instance_id: str | None) -> MemberSubscription:
    """What a member of any client says. ClientError where nobody could read it."""
    try:
        read = decode_consumer_protocol(ConsumerProtocolSubscription, data)
    except WireError as error:
        raise ClientError(f"a member of the group sends a subscription that cannot be read: {error}") from error
    return MemberSubscription(
        topics=tuple(read.topics),
        user_data=None if read.user_data is None else bytes(read.user_data),
        owned=_partitions(read.owned_partitions),
        generation_id=read.generation_id,
        rack_id=read.rack_id or None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """What the leader gives to a member."""
    assignment = ConsumerProtocolAssignment(assigned_partitions=_listed(partitions))
    return encode_version_prefixed(assignment, ConsumerProtocolAssignment.versions.highest)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """What a leader of any client has given to this member: nothing where the bytes are empty, as from the coordinator."""
    if not data:
        return ()
    try:
        read = decode_consumer_protocol(ConsumerProtocolAssignment, data)
    except WireError as error:
        raise ClientError(f"the leader of the group sent an assignment that cannot be read: {error}") from error
    return _partitions(read.assigned_partitions)


def _listed(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    return [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in by_topic(partitions).items()]


def _partitions(listed: Iterable[TopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, partition) for each in listed for partition in each.partitions)
