"""AlterShareGroupOffsets (91), v0: where a share group without members is to go on (KIP-932). A group that is not there comes up.

Where this differs from Kafka: the answer waits until the group has noted what was done, and a partition whose number is negative
is unknown, in place of being noted as one that is about to have a state.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.share.group_states import Altered, Failures
from tidelog.coordination.share.context import Refusal
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, PartitionIndex, TopicId, TopicName
from tidelog.model.pending import when_all
from tidelog.wire.messages.share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

_DONE = Refusal(ErrorCode.NONE, None)


@handles(AlterShareGroupOffsetsRequest)
def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, caller: Caller, node: Node
) -> Answer[AlterShareGroupOffsetsResponse]:
    if not node.groups.serves_share_protocol:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if not caller.may(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    problems = {topic.topic_name: _problem(topic, caller, node) for topic in request.topics}
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    offsets: dict[TopicId, dict[int, int]] = {}
    for topic in request.topics:
        if problems[topic.topic_name] is ErrorCode.NONE:
            topic_id = node.image.topic_ids[TopicName(topic.topic_name)]
            there = node.image.topics[topic_id].partitions
            wanted = {
                each.partition_index: each.start_offset
                for each in topic.partitions
                if PartitionIndex(each.partition_index) in there
            }
            if wanted:
                offsets.setdefault(topic_id, {}).update(wanted)

    def answer(outcome: list[Altered]) -> AlterShareGroupOffsetsResponse:
        refusal, failures = outcome[0]
        if refusal is not None:
            return _refused(refusal.error, refusal.message)
        topics = [_topic(topic, problems[topic.topic_name], offsets, failures, node) for topic in request.topics]
        return AlterShareGroupOffsetsResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, responses=topics)

    return when_all([node.group_states.alter_offsets(request.group_id, offsets)], answer)


def _problem(topic: AlterShareGroupOffsetsRequestTopic, caller: Caller, node: Node) -> ErrorCode:
    if not caller.may(AclOperation.READ, ResourceType.TOPIC, topic.topic_name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    is_there = TopicName(topic.topic_name) in node.image.topic_ids
    return ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(
    topic: AlterShareGroupOffsetsRequestTopic,
    problem: ErrorCode,
    offsets: dict[TopicId, dict[int, int]],
    failures: Failures,
    node: Node,
) -> AlterShareGroupOffsetsResponseTopic:
    topic_id = node.image.topic_ids.get(TopicName(topic.topic_name), TopicId(ZERO_UUID))

    def outcome(index: int) -> Refusal:
        if problem is not ErrorCode.NONE:
            return Refusal(problem, problem.message)
        if index not in offsets.get(topic_id, {}):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return Refusal(error, error.message)
        return failures.get((topic_id, index), _DONE)

    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic_id,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(partition_index=index, error_code=error, error_message=message)
            for index in (each.partition_index for each in topic.partitions)
            for error, message in [outcome(index)]
        ],
    )


def _refused(error: ErrorCode, message: str | None = None) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        throttle_time_ms=0, error_code=error, error_message=message or error.message, responses=[]
    )
