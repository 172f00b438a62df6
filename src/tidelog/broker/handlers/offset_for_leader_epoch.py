"""OffsetForLeaderEpoch (23), v2-4: where an epoch ends, so that what diverged can be cut off (KIP-101, KIP-279, KIP-320).

v3 the replica that asks, which changes nothing here · v4 is the first flexible version
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@handles(OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, caller: Caller, node: Node
) -> OffsetForLeaderEpochResponse:
    # Brokers ask for any topic; consumers for those that they may describe.
    is_broker = caller.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, logs_denied=False)
    results = []
    for topic in request.topics:
        may = is_broker or caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        ends = [
            _end_of(TopicName(topic.topic), asked, node)
            if may
            else EpochEndOffset(partition=asked.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for asked in topic.partitions
        ]
        results.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
    return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=results)


def _end_of(topic: TopicName, asked: OffsetForLeaderPartition, node: Node) -> EpochEndOffset:
    index = PartitionIndex(asked.partition)
    partition = node.partitions.named(topic).get(index)
    if partition is None:
        return EpochEndOffset(partition=index, error_code=node.partitions.missing(topic, index))
    end = partition.end_offset_for_epoch(asked.current_leader_epoch, asked.leader_epoch)
    if isinstance(end, ErrorCode):
        return EpochEndOffset(partition=index, error_code=end)
    return EpochEndOffset(partition=index, error_code=0, leader_epoch=end.leader_epoch, end_offset=end.end_offset)
