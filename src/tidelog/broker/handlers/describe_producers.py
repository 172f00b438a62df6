"""DescribeProducers (61), v0: who writes to a partition, and since which offset each has a transaction open (KIP-664).

Any replica answers, of what it has in its log: whoever looks for a hanging transaction may compare them.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.topic_names import name_problem
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.replication.roles import Offline
from tidelog.wire.messages.producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)


@handles(DescribeProducersRequest)
def describe_producers(request: DescribeProducersRequest, caller: Caller, node: Node) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        throttle_time_ms=0, topics=[_describe_topic(topic, caller, node) for topic in request.topics]
    )


def _describe_topic(topic: TopicRequest, caller: Caller, node: Node) -> TopicResponse:
    name = TopicName(topic.name)
    problem = _problem(name, caller, node)
    return TopicResponse(
        name=name,
        partitions=[
            _describe_partition(name, index, node) if problem is None else _refused(index, *problem)
            for index in topic.partition_indexes
        ],
    )


def _problem(name: TopicName, caller: Caller, node: Node) -> tuple[ErrorCode, str] | None:
    reason = name_problem(name)
    if reason is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, reason
    if not caller.may(AclOperation.READ, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED.message
    if name not in node.image.topic_ids:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
    return None


def _describe_partition(name: TopicName, index: int, node: Node) -> PartitionResponse:
    partition = node.partitions.named(name).get(index)
    if partition is None:
        return _refused(index, node.partitions.missing(name, index), None)
    role = partition.role
    if isinstance(role, Offline):
        return _refused(index, role.error, None)
    return PartitionResponse(
        partition_index=index,
        error_code=0,
        active_producers=[
            ProducerState(
                producer_id=state.producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=state.transaction_first_offset,
            )
            for state in role.log.producers.each_producer()
        ],
    )


def _refused(index: int, error: ErrorCode, message: str | None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error, error_message=message, active_producers=[])
