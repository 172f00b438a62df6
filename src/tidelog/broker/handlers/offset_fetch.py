"""OffsetFetch (9), v1-10: how far groups are.

v2 all topics, and an error for the group · v5 leader epoch · v7 stable offsets only (KIP-447) · v8 several groups ·
v9 member epochs (KIP-848) · v10 topics by id

A group that does not exist has no offsets, which is no error. Stable offsets wait until all that was written before is
committed, and that wait is the only check whether this broker still coordinates the group. The others are read at once, from
what is committed.
"""

from __future__ import annotations

import msgspec

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.coordination.offsets import nothing_fetched
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicId, TopicName
from tidelog.model.pending import Pending, when_all
from tidelog.wire.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_ERROR_VERSION = 2
SEVERAL_GROUPS_VERSION = 8
TOPIC_ID_VERSION = 10


@handles(OffsetFetchRequest)
def offset_fetch(request: OffsetFetchRequest, caller: Caller, node: Node) -> Answer[OffsetFetchResponse]:
    if caller.api_version >= SEVERAL_GROUPS_VERSION:
        return when_all(
            [_fetch_group(group, request, caller, node) for group in request.groups],
            lambda groups: OffsetFetchResponse(throttle_time_ms=0, groups=groups),
        )
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, topic_id=ZERO_UUID, partition_indexes=each.partition_indexes)
            for each in request.topics
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return when_all(
        [_fetch_group(group, request, caller, node)], lambda groups: _of_one_group(group, groups[0], caller.api_version)
    )


def _fetch_group(
    group: OffsetFetchRequestGroup, request: OffsetFetchRequest, caller: Caller, node: Node
) -> Answer[OffsetFetchResponseGroup]:  # type: ignore[type-var]
    def refuse(error: ErrorCode) -> OffsetFetchResponseGroup:
        if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            # Consumers before 3.9 do not expect that here. This has them look for the coordinator again, which may be another.
            error = ErrorCode.NOT_COORDINATOR
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error)

    if not caller.may(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    wanted, refused = _sort_out(group, caller, node)
    found: OffsetFetchResponseGroup | Pending[OffsetFetchResponseGroup]
    if request.require_stable:
        found = node.groups.read(group.group_id, lambda shard: shard.fetch_offsets(wanted, require_stable=True), refuse)
    else:
        found = node.groups.read_committed(
            group.group_id, lambda shard: shard.fetch_offsets(wanted, require_stable=False), refuse
        )

    def answer(fetched: list[OffsetFetchResponseGroup]) -> OffsetFetchResponseGroup:
        only = fetched[0]
        if only.error_code == ErrorCode.NONE:
            if group.topics is None:
                only.topics = _visible(only.topics, caller, node)
            only.topics += refused
        return only

    return when_all([found], answer)


def _sort_out(
    group: OffsetFetchRequestGroup, caller: Caller, node: Node
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """What the coordinator is asked for, with both name and id of each topic; and the answers about the others."""
    if group.topics is None:
        return group, []
    image = node.image
    wanted: list[OffsetFetchRequestTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    for topic in group.topics:
        name, topic_id = TopicName(topic.name), topic.topic_id
        if caller.api_version >= TOPIC_ID_VERSION:
            known = image.topics.get(TopicId(topic_id))
            if known is None:
                refused.append(_nothing(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            name = known.name
        if not caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            refused.append(_nothing(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        wanted.append(OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=topic.partition_indexes))
    return msgspec.structs.replace(group, topics=wanted), refused


def _visible(topics: list[OffsetFetchResponseTopics], caller: Caller, node: Node) -> list[OffsetFetchResponseTopics]:
    """Of all topics those that the caller may know of. By id only those that exist can be named."""
    visible = [each for each in topics if caller.may(AclOperation.DESCRIBE, ResourceType.TOPIC, each.name)]
    if caller.api_version < TOPIC_ID_VERSION:
        return visible
    found = []
    for topic in visible:
        topic_id = node.image.topic_ids.get(TopicName(topic.name))
        if topic_id is not None:
            topic.topic_id = topic_id
            found.append(topic)
    return found


def _nothing(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[nothing_fetched(index, error) for index in topic.partition_indexes],
    )


def _of_one_group(
    asked: OffsetFetchRequestGroup, fetched: OffsetFetchResponseGroup, version: int
) -> OffsetFetchResponse:
    """The answer of the versions that know one group. The oldest one has no place for its error but the partitions."""
    topics = fetched.topics
    if fetched.error_code and version < GROUP_ERROR_VERSION:
        topics = [_nothing(topic, ErrorCode.of(fetched.error_code)) for topic in asked.topics or ()]
    return OffsetFetchResponse(
        throttle_time_ms=0,
        error_code=fetched.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ],
        groups=[],
    )
