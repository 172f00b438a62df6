"""DeleteRecords (21), v0-2: move the start of partitions' logs forward. Answers once every in-sync replica has followed.

The offset is the first that stays; -1 stands for the high watermark. The answer's low watermark is where the logs start now.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, PartitionIndex, TopicName
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.model.pending import Pending
from tidelog.model.timers import Timers
from tidelog.replication.partition import Partition
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

# The answer for one partition, the partition, and what completes it.
Waiting = tuple[DeleteRecordsPartitionResult, Partition, Pending[ErrorCode]]


@handles(DeleteRecordsRequest)
def delete_records(
    request: DeleteRecordsRequest, caller: Caller, node: Node
) -> DeleteRecordsResponse | Pending[DeleteRecordsResponse]:
    waiting: list[Waiting] = []
    topics = [
        DeleteRecordsTopicResult(name=topic.name, partitions=_delete_in_topic(topic, caller, node, waiting))
        for topic in request.topics
    ]
    response = DeleteRecordsResponse(throttle_time_ms=0, topics=topics)
    if waiting:
        return _DelayedDelete(response, waiting, node.timers, request.timeout_ms).answer
    return response


def _delete_in_topic(
    topic: DeleteRecordsTopic, caller: Caller, node: Node, waiting: list[Waiting]
) -> list[DeleteRecordsPartitionResult]:
    name = TopicName(topic.name)
    if not caller.may(AclOperation.DELETE, ResourceType.TOPIC, name):
        return [_failed(wanted.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for wanted in topic.partitions]
    return [_delete_in_partition(name, wanted, node, waiting) for wanted in topic.partitions]


def _delete_in_partition(
    topic: TopicName, wanted: DeleteRecordsPartition, node: Node, waiting: list[Waiting]
) -> DeleteRecordsPartitionResult:
    index = PartitionIndex(wanted.partition_index)
    partition = node.partitions.led_partition(topic, index)
    if partition is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return _failed(index, partition)
    if topic in INTERNAL_TOPICS:
        return _failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if isinstance(partition, ErrorCode):
        return _failed(index, partition)
    deleted = partition.delete_records(wanted.offset)
    if isinstance(deleted, ErrorCode):
        return _failed(index, deleted)
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=partition.low_watermark, error_code=0)
    followed = partition.when_deleted(deleted)
    if isinstance(followed, Pending):
        waiting.append((result, partition, followed))
    else:
        result.error_code = followed
    return result


def _failed(index: int, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=NO_OFFSET, error_code=error)


class _DelayedDelete:
    """Completes `answer` when all replicas have followed, or with REQUEST_TIMED_OUT for those that have not in time."""

    def __init__(
        self, response: DeleteRecordsResponse, waiting: Sequence[Waiting], timers: Timers, timeout_ms: int
    ) -> None:
        self.answer: Pending[DeleteRecordsResponse] = Pending()
        self._response = response
        self._waiting = {id(result): result for result, _, _ in waiting}
        self._timer = timers.after(max(0, timeout_ms), self._expired)
        for result, partition, outcome in waiting:
            outcome.then(partial(self._followed, result, partition))

    def _followed(self, result: DeleteRecordsPartitionResult, partition: Partition, error: ErrorCode) -> None:
        if self._waiting.pop(id(result), None) is None:
            return
        result.error_code = error
        result.low_watermark = NO_OFFSET if error else partition.low_watermark
        if not self._waiting:
            self._timer.cancel()
            self.answer.complete(self._response)

    def _expired(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for result in waiting.values():
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.answer.complete(self._response)
