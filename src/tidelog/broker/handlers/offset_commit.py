# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""OffsetCommit (8), v2-10: how far a group is, partition by partition.

v5 no retention time of its own any more · v6 leader epoch · v7 static members · v9 member epochs (KIP-848) · v10 topics by id

A topic or partition that does not exist has its own error; what is committed for the others counts all the same.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.broker.requests.handling import Answer, handles
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId, TopicName
from tidelog.model.pending import after, when_all
from tidelog.wire.typed.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.broker.groups.group_coordinator import GroupCoordinator
    from tidelog.broker.requests.caller import Caller
    from tidelog.broker.requests.node_view import Node
    from tidelog.controller.image import ClusterImage
    from tidelog.coordination.group_shard import GroupShard
    from tidelog.model.ids import PartitionIndex

TOPIC_ID_VERSION = 10
# The same for this module alone: what C knows by its type, Python does not see.
_TOPIC_ID_VERSION = TOPIC_ID_VERSION

_READ, _GROUP, _TOPIC = AclOperation.READ, ResourceType.GROUP, ResourceType.TOPIC


@handles(OffsetCommitRequest)
def offset_commit(request: OffsetCommitRequest, caller: Caller, node: Node) -> Answer[OffsetCommitResponse]:
    if not caller.may(_READ, _GROUP, request.group_id):
        return all_refused(request.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused = _sort_out(request, caller, node.image)
    if not request.topics:
        return OffsetCommitResponse(throttle_time_ms=0, topics=refused)
    committed = _commit(request, caller, node.groups)
    if not refused:
        return committed
    return when_all(
        [committed], lambda done: OffsetCommitResponse(throttle_time_ms=0, topics=_merged(done[0].topics, refused))
    )


def _commit(request: OffsetCommitRequest, caller: Caller, groups: GroupCoordinator) -> Answer[OffsetCommitResponse]:
    refuse = partial(all_refused, request.topics)
    active = groups.active(request.group_id)
    if active is None:
        return refuse(groups.refusal(request.group_id))
    shard: GroupShard = active.shard
    trace = groups.traces.get(request.group_id) if groups.traces else None
    tell = None if trace is None else trace.committing(request, caller.client_id)
    committed = active.carry_out(shard.commit_offsets(request, caller.api_version, active.now_ms(), refuse), refuse)
    return committed if tell is None else after(committed, tell)


def _sort_out(request: OffsetCommitRequest, caller: Caller, image: ClusterImage) -> list[OffsetCommitResponseTopic]:
    """Leaves what can be committed in the request, which nobody reads again; what is wrong with the rest."""
    wanted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        known = _known(topic, caller, image)
        if type(known) is ErrorCode:
            refused.append(_refused(topic, known))
        else:
            # Under both, as records have it.
            topic.name, topic.topic_id = known.name, known.topic_id
            _sort_out_topic(topic, known.partitions, wanted, refused)
    request.topics = wanted
    return refused


def _known(topic: OffsetCommitRequestTopic, caller: Caller, image: ClusterImage) -> Any:
    """The topic that is meant, if the caller may read it; or an ErrorCode."""
    if caller.api_version >= _TOPIC_ID_VERSION:
        known = image.topics.get(TopicId(topic.topic_id))
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = known.name
    else:
        name = TopicName(topic.name)
        known = image.topic(name)
    if not caller.may(_READ, _TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else known


def _sort_out_topic(
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
