"""What ShareFetch and ShareAcknowledge have in common: who may ask, which partitions are meant, what is said of records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.node_view import Node
from tidelog.broker.share.acknowledgement import RENEW, Acknowledged, AcknowledgeType, Refusal
from tidelog.broker.share.share_sessions import FetchedPartition, SessionKey
from tidelog.controller.image import Topic
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId, TopicName
from tidelog.model.pending import Pending
from tidelog.wire.messages.share_fetch import AcknowledgementBatch

# From here on locks can be renewed (KIP-1222).
RENEW_VERSION = 2

MEMBER_ID_CHARACTERS_MAX = 36

_REJECT = int(AcknowledgeType.REJECT)


class Said(NamedTuple):
    """What a request says of the records of one partition."""

    partition: FetchedPartition
    batches: list[AcknowledgementBatch]


class Outcome(NamedTuple):
    """What has come of that: None once it is committed, or why it was not taken."""

    partition: FetchedPartition
    refusal: Refusal | Pending[Refusal | None] | None


def refusal_of_request(group_id: str | None, member_id: str | None, caller: Caller, node: Node) -> ErrorCode | None:
    """Why a request of a member is not looked at, in Kafka's order."""
    if not node.share_leader.is_on:
        return ErrorCode.UNSUPPORTED_VERSION
    if group_id is None:
        return ErrorCode.INVALID_REQUEST
    if not caller.may(AclOperation.READ, ResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not member_id or len(member_id) > MEMBER_ID_CHARACTERS_MAX:
        return ErrorCode.INVALID_REQUEST
    return None


class KnownTopics:
    """The topics of one request: their names, and whether the caller may read them. Each is asked for once."""

    def __init__(self, partitions: Sequence[FetchedPartition], caller: Caller, node: Node) -> None:
        self._node = node
        counts: dict[TopicId, int] = {}
        for each in partitions:
            counts[each.topic_id] = counts.get(each.topic_id, 0) + 1
        self._topics: dict[TopicId, tuple[Topic | None, bool]] = {}
        for topic_id, count in counts.items():
            topic = node.image.topics.get(topic_id)
            may_read = topic is None or caller.may(AclOperation.READ, ResourceType.TOPIC, topic.name, count)
            self._topics[topic_id] = topic, may_read

    def name_of(self, topic_id: TopicId) -> TopicName | None:
        topic, _ = self._topics[topic_id]
        return None if topic is None else topic.name

    def refusal_of(self, partition: FetchedPartition) -> ErrorCode | None:
        """Why nothing is done with a partition, whoever leads it."""
        topic, may_read = self._topics[partition.topic_id]
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not may_read:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if partition.partition not in topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return None


def acknowledge_all(
    said: Sequence[Said], key: SessionKey, topics: KnownTopics, node: Node, *, can_renew: bool, renews: bool
) -> list[Outcome]:
    """Begin what a request says, each partition by itself. `renews`: the request is one that may renew locks."""
    shares = node.share_leader
    outcomes = []
    acknowledged: list[TopicName] = []
    for partition, batches in said:
        if not batches:
            continue
        refused = topics.refusal_of(partition)
        if refused is None or refused is not ErrorCode.UNKNOWN_TOPIC_ID:
            refused = _problem(batches, can_renew=can_renew, renews=renews) or refused
        name = topics.name_of(partition.topic_id)
        if refused is not None or name is None:
            error = refused or ErrorCode.UNKNOWN_TOPIC_ID
            outcomes.append(Outcome(partition, Refusal(error, error.message)))
            continue
        acknowledged.append(name)
        led = shares.find(key.group_id, partition.topic_id, partition.partition)
        if led is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refusal = Refusal(error, error.message)
            shares.metrics.count_requests("failed_share_acknowledgement_requests", [name])
            outcomes.append(Outcome(partition, refusal))
            continue
        taken = [Acknowledged(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches]
        outcomes.append(Outcome(partition, _counted(led.acknowledge(key.member_id, taken), taken, name, node)))
    shares.metrics.count_requests("total_share_acknowledgement_requests", acknowledged)
    return outcomes


def _counted(
    outcome: Refusal | Pending[Refusal | None] | None, said: list[Acknowledged], topic: TopicName, node: Node
) -> Refusal | Pending[Refusal | None] | None:
    """The same, and what comes of it is counted."""
    metrics = node.share_leader.metrics

    def count(refusal: Refusal | None) -> None:
        if refusal is None:
            metrics.count_acknowledged(said)
        else:
            metrics.count_requests("failed_share_acknowledgement_requests", [topic])

    if not isinstance(outcome, Pending):
        count(outcome)
        return outcome
    told: Pending[Refusal | None] = Pending()

    def settled(refusal: Refusal | None) -> None:
        count(refusal)
        told.complete(refusal)

    outcome.then(settled)
    return told


def _problem(batches: Sequence[AcknowledgementBatch], *, can_renew: bool, renews: bool) -> ErrorCode | None:
    """What is wrong with what is said of a partition, whatever is in flight of it."""
    last = -1
    highest = int(RENEW) if can_renew else _REJECT
    for batch in batches:
        types = batch.acknowledge_types
        offsets = batch.last_offset - batch.first_offset + 1
        if (
            batch.first_offset > batch.last_offset
            or batch.first_offset < last
            or not types
            or (len(types) > 1 and len(types) != offsets)
            or any(not 0 <= each <= highest for each in types)
            or (RENEW in types and not renews)
        ):
            return ErrorCode.INVALID_REQUEST
        last = batch.last_offset
    return None


def named(topic_id: bytes, partition: int) -> FetchedPartition:
    """A partition of a request."""
    return FetchedPartition(TopicId(topic_id), PartitionIndex(partition))
