"""DescribeTopicPartitions (75), v0: partitions of topics, a page at a time, with their eligible leader replicas (KIP-966).

Topics come in the order of their names. No topics means all of them. The answer's cursor, sent back, asks for the next page.
"""

from __future__ import annotations

from tidelog.broker.cluster.endpoints import NO_NODE, ListenerView
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.image import Partition
from tidelog.controller.topic_names import name_problem
from tidelog.model import metadata_config as keys
from tidelog.model.acl import OPERATIONS_NOT_ASKED, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, PartitionIndex, TopicName
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.wire.messages.topics import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


@handles(DescribeTopicPartitionsRequest)
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, caller: Caller, node: Node
) -> DescribeTopicPartitionsResponse:
    image, cursor = node.image, request.cursor
    is_all = not request.topics
    wanted = set(image.topic_ids) if is_all else {TopicName(topic.name) for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (not is_all and cursor.topic_name not in wanted)):
        return _refused(request)
    view = ListenerView(image, caller.listener_name)
    left = max(1, min(node.config[keys.MAX_REQUEST_PARTITION_SIZE_LIMIT], request.response_partition_limit))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    following: Cursor | None = None
    wanted = {name for name in wanted if cursor is None or name >= cursor.topic_name}
    allowed = {name for name in wanted if caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name)}
    # Whether these exist is not looked at: the answer must not tell.
    denied = [] if is_all else [_denied(name) for name in sorted(wanted - allowed)]
    for name in sorted(allowed):
        if left == 0:
            following = Cursor(topic_name=name, partition_index=0)
            break
        operations = caller.authorized_operations(ResourceType.TOPIC, name)
        topic = image.topic(name)
        if topic is None:
            if not is_all:
                is_legal = name_problem(name) is None
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
                topics.append(_topic_error(error, name, operations))
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        end = min(len(topic.partitions), first + left)
        partitions = [
            _partition(PartitionIndex(index), topic.partitions[PartitionIndex(index)], view)
            for index in range(first, end)
        ]
        topics.append(
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.NONE,
                name=name,
                topic_id=topic.topic_id,
                is_internal=name in INTERNAL_TOPICS,
                partitions=partitions,
                topic_authorized_operations=operations,
            )
        )
        if end < len(topic.partitions):
            following = Cursor(topic_name=name, partition_index=end)
            break
        left -= len(partitions)
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=topics + denied, next_cursor=following)


def _partition(
    index: PartitionIndex, partition: Partition, view: ListenerView
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=index,
        leader_id=partition.leader if partition.leader in view.endpoints else NO_NODE,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=view.offline_replicas(partition),
    )


def _topic_error(
    error: ErrorCode, name: str, operations: int = OPERATIONS_NOT_ASKED
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=operations,
    )


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    refused = _topic_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    refused.is_internal = False
    return refused


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """A cursor that points to no topic of the request, or before its first partition."""
    topics = [_topic_error(ErrorCode.INVALID_REQUEST, topic.name) for topic in request.topics]
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=topics)
