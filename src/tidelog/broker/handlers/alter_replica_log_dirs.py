"""AlterReplicaLogDirs (34), v1-2: move replicas of this broker from one of its log directories to another (KIP-113).

The answer says whether the move has begun; DescribeLogDirs shows how far it is. Where a partition is named twice, the last
place counts. A replica that does not exist yet is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka since 4.0.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


@handles(AlterReplicaLogDirsRequest)
def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, caller: Caller, node: Node
) -> AlterReplicaLogDirsResponse:
    wanted = {
        TopicPartition(TopicName(topic.name), PartitionIndex(index)): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    may = caller.may(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for topic_partition, path in wanted.items():
        error = node.replica_moves.move(topic_partition, path) if may else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        topics.setdefault(topic_partition.topic, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=topic_partition.partition, error_code=error)
        )
    return AlterReplicaLogDirsResponse(
        throttle_time_ms=0,
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )
