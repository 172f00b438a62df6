"""DescribeLogDirs (35), v1-5: this broker's disks and which replicas lie on them.

v3 an error for all · v4 the size of the disk and what is left of it (KIP-827) · v5 whether new replicas are kept away

A directory that is offline is in the answer, with KAFKA_STORAGE_ERROR and without replicas.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog
from tidelog.wire.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_NO_LAG = -1


@handles(DescribeLogDirsRequest)
def describe_log_dirs(request: DescribeLogDirsRequest, caller: Caller, node: Node) -> DescribeLogDirsResponse:
    if not caller.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(
            throttle_time_ms=0, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results=[]
        )
    wanted = None
    if request.topics is not None:
        wanted = {
            TopicPartition(TopicName(topic.topic), PartitionIndex(index))
            for topic in request.topics
            for index in topic.partitions
        }
    results = [_directory(directory, wanted, node) for directory in node.log_directories]
    return DescribeLogDirsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, results=results)


def _directory(directory: LogDirectory, wanted: set[TopicPartition] | None, node: Node) -> DescribeLogDirsResult:
    try:
        if directory.is_offline:
            return _offline(directory)
        space = directory.seams.files.space_of(directory.path)
    except StorageError as error:
        directory.report_fault(error)
        return _offline(directory)
    current = [
        (log, max(log.high_watermark - log.log_end_offset, 0), False) for log in _logs(directory.partitions, wanted)
    ]
    future = [(log, _lag_of_future(log, node), True) for log in _logs(directory.future_partitions, wanted)]
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for log, lag, is_future in current + future:
        topics.setdefault(log.topic_partition.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=log.topic_partition.partition,
                partition_size=log.size_bytes,
                offset_lag=lag,
                is_future_key=is_future,
            )
        )
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=directory.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=space.total_bytes,
        usable_bytes=space.usable_bytes,
        is_cordoned=_is_cordoned(directory, node),
    )


def _logs(logs: dict[TopicPartition, PartitionLog], wanted: set[TopicPartition] | None) -> Iterable[PartitionLog]:
    return (log for topic_partition, log in logs.items() if wanted is None or topic_partition in wanted)


def _lag_of_future(log: PartitionLog, node: Node) -> int:
    """How much a replica that is being moved here still lacks."""
    current = node.log_directories.log_of(log.topic_partition)
    return _NO_LAG if current is None else current.log_end_offset - log.log_end_offset


def _is_cordoned(directory: LogDirectory, node: Node) -> bool:
    broker = node.image.brokers.get(node.node_id)
    if broker is None or directory.identity is None:
        return False
    return directory.identity.directory_id in (broker.cordoned_directories or ())


def _offline(directory: LogDirectory) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[])
