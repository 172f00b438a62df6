"""DescribeShareGroupOffsets (90), v0-1: where share groups are in their partitions (KIP-932).

v1 lag: the partition's end less the start, less what is settled behind that (KIP-1226)

A group, a topic or a partition that is not known is nowhere (-1), which is no error. No topics: all that the group has states of.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.share.group_states import NO_LAG, NO_START_OFFSET, Whereabouts
from tidelog.coordination.share.share_partitions import TopicsPartitions
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicId, TopicName
from tidelog.model.pending import Pending, when_all
from tidelog.wire.messages.share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup as Group,
    DescribeShareGroupOffsetsResponsePartition as Partition,
    DescribeShareGroupOffsetsResponseTopic as Topic,
)

Place = tuple[TopicId, TopicName, int]


@handles(DescribeShareGroupOffsetsRequest)
def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, caller: Caller, node: Node
) -> Answer[DescribeShareGroupOffsetsResponse]:
    return when_all(
        [_describe(group, caller, node) for group in request.groups],
        lambda groups: DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=groups),
    )


def _describe(asked: DescribeShareGroupOffsetsRequestGroup, caller: Caller, node: Node) -> Group | Pending[Group]:
    if not node.groups.serves_share_protocol:
        return _failed(asked.group_id, ErrorCode.UNSUPPORTED_VERSION, None)
    if not caller.may(AclOperation.DESCRIBE, ResourceType.GROUP, asked.group_id):
        return _failed(asked.group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
    if asked.topics is None:
        return _describe_all(asked.group_id, caller, node)
    return _describe_some(asked.group_id, asked.topics, caller, node)


def _describe_all(group_id: str, caller: Caller, node: Node) -> Group | Pending[Group]:
    """Topics that the caller may not know of are left out."""
    if node.groups.active(group_id) is None:
        error = node.groups.refusal(group_id)
        return _failed(group_id, error, error.message)
    known: TopicsPartitions = node.groups.read_committed(
        group_id, lambda shard: shard.share.administration.initialised(group_id), lambda _error: {}
    )
    places: list[Place] = []
    for topic_id, partitions in known.items():
        topic = node.image.topics.get(topic_id)
        if topic is not None and caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name):
            places += [(topic_id, topic.name, index) for index in partitions.partitions]
    return _looked_up(group_id, places, [], node)


def _describe_some(
    group_id: str, topics: Sequence[DescribeShareGroupOffsetsRequestTopic], caller: Caller, node: Node
) -> Group | Pending[Group]:
    places: list[Place] = []
    others: list[Topic] = []
    for topic in topics:
        if not caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic_name):
            others.append(_nowhere(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        topic_id = node.image.topic_ids.get(TopicName(topic.topic_name))
        if topic_id is None:
            others.append(_nowhere(topic, ErrorCode.NONE))
        else:
            places += [(topic_id, TopicName(topic.topic_name), index) for index in topic.partitions]
    return _looked_up(group_id, places, others, node)


def _looked_up(group_id: str, places: Sequence[Place], others: list[Topic], node: Node) -> Group | Pending[Group]:
    def answer(found: list[list[Whereabouts]]) -> Group:
        rows = zip(places, found[0], strict=True)
        topics = [
            Topic(
                topic_name=name,
                topic_id=topic_id,
                partitions=[_partition(index, where) for (_, _, index), where in of_topic],
            )
            for (topic_id, name), of_topic in groupby(rows, key=lambda row: row[0][:2])
        ]
        return Group(group_id=group_id, topics=[*topics, *others], error_code=ErrorCode.NONE)

    return when_all([node.group_states.whereabouts(group_id, places)], answer)


def _partition(index: int, where: Whereabouts) -> Partition:
    return Partition(
        partition_index=index,
        start_offset=where.start_offset,
        leader_epoch=where.leader_epoch,
        lag=where.lag,
        error_code=where.error,
        error_message=None if where.error is ErrorCode.NONE else where.error.message,
    )


def _nowhere(topic: DescribeShareGroupOffsetsRequestTopic, error: ErrorCode) -> Topic:
    return Topic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID,
        partitions=[
            Partition(
                partition_index=index,
                start_offset=NO_START_OFFSET,
                leader_epoch=0,
                lag=NO_LAG,
                error_code=error,
                error_message=None if error is ErrorCode.NONE else error.message,
            )
            for index in topic.partitions
        ],
    )


def _failed(group_id: str, error: ErrorCode, message: str | None) -> Group:
    return Group(group_id=group_id, topics=[], error_code=error, error_message=message)
