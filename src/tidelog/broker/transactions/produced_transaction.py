"""The transaction that a Produce request writes in, if it does: one producer, and where it writes from which sequence on."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.replication.partition import Partition
from tidelog.replication.partitions import TopicReplicas
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.record_batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    BytesLike,
    read_header,
)

TOPIC_ID_VERSION = 13

_WRITE = AclOperation.WRITE

# The low byte of the attributes.
_FLAGS_POSITION = ATTRIBUTES_POSITION + 1


class ProducedTransaction(NamedTuple):
    """The producer, and the first sequence number for each partition that is on this node."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    sequences: dict[Partition, int]


def find_transaction(request: ProduceRequest, caller: Caller, node: Node) -> ProducedTransaction | ErrorCode | None:
    """None for a request without transactional records; or why none of it may be written.

    Only the first batch of each partition is looked at: a request has no more, and one that has is refused later, as are
    batches that cannot be read, and topics that the caller may not write to.
    """
    transactional_id = request.transactional_id
    found: ProducedTransaction | None = None
    for topic in request.topic_data:
        hosted: TopicReplicas | None = None
        for data in topic.partition_data:
            header = _transactional_header(data)
            if header is None:
                continue
            if found is None:
                if transactional_id is None or not caller.may(_WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
                    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                found = ProducedTransaction(transactional_id, header.producer_id, header.producer_epoch, {})
            elif (header.producer_id, header.producer_epoch) != (found.producer_id, found.producer_epoch):
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING
            if hosted is None:
                hosted = _hosted(topic, caller, node)
            partition = hosted.get(data.index)
            if partition is not None:
                found.sequences.setdefault(partition, header.base_sequence)
    return found


def _transactional_header(data: PartitionProduceData) -> BatchHeader | None:
    records = in_memory(data)
    if records is None or len(records) < HEADER_BYTES or not records[_FLAGS_POSITION] & TRANSACTIONAL_BIT:
        return None
    try:
        return read_header(records)
    except CorruptBatchError:
        return None


def _hosted(topic: TopicProduceData, caller: Caller, node: Node) -> TopicReplicas:
    """The partitions of a topic that the caller may write to."""
    name = TopicName(topic.name)
    if caller.api_version >= TOPIC_ID_VERSION:
        known = node.image.topics.get(TopicId(topic.topic_id))
        if known is None:
            return {}
        name = known.name
    # Asked again, to be counted and logged, before anything is written.
    may_write = name not in INTERNAL_TOPICS and caller.might(_WRITE, ResourceType.TOPIC, name)
    return node.partitions.named(name) if may_write else {}


def in_memory(data: PartitionProduceData) -> BytesLike | None:
    """The records of one partition as they have arrived."""
    records = data.records
    return records if isinstance(records, (memoryview, bytes, bytearray)) else None
