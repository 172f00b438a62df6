"""OffsetCommit (8), v2-10: how far a group is, partition by partition.

v5 no retention time of its own any more · v6 leader epoch · v7 static members · v9 member epochs (KIP-848) · v10 topics by id

A topic or partition that does not exist has its own error; what is committed for the others counts all the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.image import Topic
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId, TopicName
from tidelog.model.pending import when_all
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_VERSION = 10

_READ, _GROUP, _TOPIC = AclOperation.READ, ResourceType.GROUP, ResourceType.TOPIC


@handles(OffsetCommitRequest)
def offset_commit(request: OffsetCommitRequest, caller: Caller, node: Node) -> Answer[OffsetCommitResponse]:
    if not caller.may(_READ, _GROUP, request.group_id):
        return all_refused(request.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    version = caller.api_version
    wanted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        known, error = _known(topic, caller, node)
        if known is None:
            refused.append(_refused(topic, error))
        else:
            # Under both, as records have it. The request is ours: nobody reads it again.
            topic.name, topic.topic_id = known.name, known.topic_id
            _sort_out(topic, known.partitions, wanted, refused)
    if not wanted:
        return OffsetCommitResponse(throttle_time_ms=0, topics=refused)
    request.topics = wanted

    def refuse(error: ErrorCode) -> OffsetCommitResponse:
        return all_refused(wanted, error)

    committed = node.groups.decide(
        request.group_id, lambda shard, now_ms: shard.commit_offsets(request, version, now_ms, refuse), refuse
    )
    if not refused:
        return committed
    return when_all(
        [committed], lambda done: OffsetCommitResponse(throttle_time_ms=0, topics=_merged(done[0].topics, refused))
    )


def _known(topic: OffsetCommitRequestTopic, caller: Caller, node: Node) -> tuple[Topic | None, ErrorCode]:
    """The topic that is meant, if the caller may read it; or what is wrong."""
    image = node.image
    if caller.api_version >= TOPIC_ID_VERSION:
        known, missing = image.topics.get(TopicId(topic.topic_id)), ErrorCode.UNKNOWN_TOPIC_ID
        if known is None:
            return None, missing
        name = known.name
    else:
        name = TopicName(topic.name)
        known, missing = image.topic(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not caller.may(_READ, _TOPIC, name):
        return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return known, missing


def _sort_out(
    topic: OffsetCommitRequestTopic,
    partitions: Mapping[PartitionIndex, object],
    wanted: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
) -> None:
    """Add a topic to what is wanted, but for partitions that do not exist, which are refused."""
    for each in topic.partitions:
        if each.partition_index not in partitions:
            break
    else:
        if topic.partitions:
            wanted.append(topic)
        return
    there: list[OffsetCommitRequestPartition] = []
    missing: list[OffsetCommitRequestPartition] = []
    for each in topic.partitions:
        (there if each.partition_index in partitions else missing).append(each)
    if there:
        wanted.append(OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=there))
    topic.partitions = missing
    refused.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def _refused(topic: OffsetCommitRequestTopic, error: ErrorCode) -> OffsetCommitResponseTopic:
    partitions = [
        OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
        for each in topic.partitions
    ]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def all_refused(topics: list[OffsetCommitRequestTopic], error: ErrorCode) -> OffsetCommitResponse:
    """The same error for every partition."""
    return OffsetCommitResponse(throttle_time_ms=0, topics=[_refused(topic, error) for topic in topics])


def _merged(
    done: list[OffsetCommitResponseTopic], refused: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """One entry for each topic."""
    merged = {(each.name, each.topic_id): each for each in done}
    for each in refused:
        known = merged.setdefault((each.name, each.topic_id), each)
        if known is not each:
            known.partitions += each.partitions
    return list(merged.values())
