"""OffsetDelete (47), v0: forget what a group has committed for some partitions (KIP-496).

Only for topics that nobody in the group is subscribed to.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName
from tidelog.model.pending import when_all
from tidelog.wire.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@handles(OffsetDeleteRequest)
def offset_delete(request: OffsetDeleteRequest, caller: Caller, node: Node) -> Answer[OffsetDeleteResponse]:
    def refuse(error: ErrorCode) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=error, throttle_time_ms=0, topics=[])

    if not caller.may(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return refuse(ErrorCode.INVALID_GROUP_ID)
    wanted: list[OffsetDeleteRequestTopic] = []
    refused: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        known = node.image.topic(TopicName(topic.name))
        if not caller.may(AclOperation.READ, ResourceType.TOPIC, topic.name):
            refused.append(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        there = known.partitions if known is not None else {}
        missing = [each for each in topic.partitions if PartitionIndex(each.partition_index) not in there]
        if missing:
            gone = OffsetDeleteRequestTopic(name=topic.name, partitions=missing)
            refused.append(_refused(gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if len(missing) < len(topic.partitions):
            found = [each for each in topic.partitions if PartitionIndex(each.partition_index) in there]
            wanted.append(OffsetDeleteRequestTopic(name=topic.name, partitions=found))
    passed_on = OffsetDeleteRequest(group_id=request.group_id, topics=wanted)
    deleted = node.groups.decide(request.group_id, lambda shard, _now_ms: shard.delete_offsets(passed_on), refuse)

    def answer(done: list[OffsetDeleteResponse]) -> OffsetDeleteResponse:
        if done[0].error_code == ErrorCode.NONE:
            merged = {each.name: each for each in done[0].topics}
            for topic in refused:
                known = merged.setdefault(topic.name, topic)
                if known is not topic:
                    known.partitions += topic.partitions
            done[0].topics = list(merged.values())
        return done[0]

    return when_all([deleted], answer)


def _refused(topic: OffsetDeleteRequestTopic, error: ErrorCode) -> OffsetDeleteResponseTopic:
    partitions = [
        OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
        for each in topic.partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)
