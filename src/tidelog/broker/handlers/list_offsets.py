"""ListOffsets (2), v1-11: the offset of a time, of either end of a log, of its largest timestamp.

v2 isolation level · v4 leader epochs · v5 OFFSET_NOT_AVAILABLE · v7 max timestamp (KIP-734) · v8 earliest local (KIP-405)
v9 last tiered (KIP-1005) · v10 time-out, for tiered storage alone · v11 earliest pending upload (KIP-1023)

Nothing is tiered here: the earliest local offset is the earliest, and for the two that only tiered storage has the answer is -1.
"""

from __future__ import annotations

from collections import Counter

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP, PartitionIndex, TopicName
from tidelog.replication.offset_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    find_offset,
)
from tidelog.storage.fetched import FetchIsolation
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

CONSUMER = -1
DEBUGGING = -2
READ_COMMITTED = 1
LEADER_EPOCH_VERSION = 4
OFFSET_NOT_AVAILABLE_VERSION = 5

# Since which version a negative timestamp means something.
MEANINGS = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


@handles(ListOffsetsRequest)
def list_offsets(request: ListOffsetsRequest, caller: Caller, node: Node) -> ListOffsetsResponse:
    named = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    return ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[
            ListOffsetsTopicResponse(name=topic.name, partitions=_offsets_of(topic, named, request, caller, node))
            for topic in request.topics
        ],
    )


def _offsets_of(
    topic: ListOffsetsTopic, named: Counter[tuple[str, int]], request: ListOffsetsRequest, caller: Caller, node: Node
) -> list[ListOffsetsPartitionResponse]:
    if not caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name):
        return [_failed(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for asked in topic.partitions]
    answers = []
    for asked in topic.partitions:
        if named[topic.name, asked.partition_index] > 1:
            answers.append(_failed(asked, ErrorCode.INVALID_REQUEST))
        else:
            answers.append(_offset_of(TopicName(topic.name), asked, request, caller, node))
    return answers


def _offset_of(
    topic: TopicName, asked: ListOffsetsPartition, request: ListOffsetsRequest, caller: Caller, node: Node
) -> ListOffsetsPartitionResponse:
    version = caller.api_version
    if asked.timestamp < 0 and version < MEANINGS.get(asked.timestamp, version + 1):
        return _failed(asked, ErrorCode.UNSUPPORTED_VERSION)
    index = PartitionIndex(asked.partition_index)
    partition = node.partitions.named(topic).get(index)
    if partition is None:
        return _failed(asked, node.partitions.missing(topic, index))
    isolation = FetchIsolation.LOG_END
    if request.replica_id == CONSUMER:
        is_committed = request.isolation_level == READ_COMMITTED
        isolation = FetchIsolation.LAST_STABLE_OFFSET if is_committed else FetchIsolation.HIGH_WATERMARK
    found = find_offset(
        partition,
        asked.timestamp,
        isolation,
        current_leader_epoch=asked.current_leader_epoch,
        leader_only=request.replica_id != DEBUGGING,
    )
    if found is None:
        return _failed(asked, ErrorCode.NONE)
    if isinstance(found, ErrorCode):
        if found is ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_VERSION:
            found = ErrorCode.LEADER_NOT_AVAILABLE
        return _failed(asked, found)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=0,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= LEADER_EPOCH_VERSION else NO_LEADER_EPOCH,
    )


def _failed(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=error,
        timestamp=NO_TIMESTAMP,
        offset=NO_OFFSET,
        leader_epoch=NO_LEADER_EPOCH,
    )
