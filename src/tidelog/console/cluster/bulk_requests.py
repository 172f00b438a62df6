"""Questions about thousands of partitions and groups in few requests: to each node once, with all that it leads or coordinates.

What a node does not answer, or refuses, is left out: the next round asks again. Only what nobody answers is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelog.client.admin.outcomes import each_of
from tidelog.client.admin.records import ListOffsetsRequestMaker, OffsetSpec
from tidelog.client.admin.requests import OneBroker, Requests
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError, UnsupportedError, refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.group_admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tidelog.wire.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tidelog.wire.messages.list_offsets import ListOffsetsResponse
from tidelog.wire.messages.share_groups import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from tidelog.wire.messages.streams_groups import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from tidelog.wire.schema import Request

# A request of so many has some hundred kilobytes, and a node answers it in some ten milliseconds.
PARTITIONS_PER_REQUEST = 5_000
GROUPS_PER_REQUEST = 500

# From 13 on a fetch, and from 10 on a look at offsets, names topics by id: here they are known by name.
_FETCH_VERSION_MAX = 12
_OFFSET_FETCH_VERSION_MAX = 9
_OFFSET_FETCH_GROUPS_VERSION = 8


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    type: str
    """classic, consumer, share or streams."""
    protocol_type: str
    state: str
    coordinator: int


class FetchedBytes(NamedTuple):
    """Batches of one partition as its leader has them."""

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


async def offsets_of(
    requests: Requests,
    by_leader: Mapping[int, Sequence[TopicPartition]],
    spec: OffsetSpec,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    """The first or last offsets of partitions whose leaders are known."""
    chunks = [
        (leader, tuple(partitions[start : start + PARTITIONS_PER_REQUEST]))
        for leader, partitions in by_leader.items()
        for start in range(0, len(partitions), PARTITIONS_PER_REQUEST)
    ]

    async def ask(chunk: tuple[int, tuple[TopicPartition, ...]]) -> ListOffsetsResponse:
        leader, partitions = chunk
        maker = ListOffsetsRequestMaker(
            dict.fromkeys(partitions, spec), read_committed, requests.options.request_timeout_ms
        )
        return await requests.ask(OneBroker(leader), maker, ListOffsetsResponse)

    answers = await each_of(chunks, ask)
    _raise_if_all_failed(answers.values())
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for answer in answers.values()
        if not isinstance(answer, ClientError)
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.offset >= 0
    }


async def groups_of(requests: Requests) -> tuple[list[ListedGroup], bool]:
    """All groups, each with the node that has listed it: its coordinator. And whether every node has answered."""

    async def ask(node_id: int) -> ListGroupsResponse:
        answer = await requests.ask(
            OneBroker(node_id),
            ListGroupsRequest(states_filter=[], types_filter=[]),
            ListGroupsResponse,
            codes=lambda each: [each.error_code],
        )
        if answer.error_code:
            raise refusal(answer.error_code, None)
        return answer

    answers = await each_of(await requests.broker_ids(), ask)
    _raise_if_all_failed(answers.values())
    listed = [
        ListedGroup(each.group_id, each.group_type.lower() or "classic", each.protocol_type, each.group_state, node_id)
        for node_id, answer in answers.items()
        if not isinstance(answer, ClientError)
        for each in answer.groups
    ]
    return listed, not any(isinstance(each, ClientError) for each in answers.values())


async def commits_of(
    requests: Requests, by_coordinator: Mapping[int, Sequence[str]]
) -> dict[str, dict[TopicPartition, int]]:
    """What groups have committed. UnsupportedError where the nodes are too old to be asked for several groups."""
    chunks = [
        (node_id, tuple(groups[start : start + GROUPS_PER_REQUEST]))
        for node_id, groups in by_coordinator.items()
        for start in range(0, len(groups), GROUPS_PER_REQUEST)
    ]

    async def ask(chunk: tuple[int, tuple[str, ...]]) -> OffsetFetchResponse:
        node_id, groups = chunk

        def request(version: int) -> OffsetFetchRequest:
            if version < _OFFSET_FETCH_GROUPS_VERSION:
                raise UnsupportedError("the cluster is too old to be asked for the offsets of several groups at once")
            return OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups], require_stable=False
            )

        return await requests.ask(
            OneBroker(node_id), request, OffsetFetchResponse, version_max=lambda: _OFFSET_FETCH_VERSION_MAX
        )

    answers = await each_of(chunks, ask)
    _raise_if_all_failed(answers.values())
    return {
        group.group_id: {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in group.topics
            for each in topic.partitions
            if not each.error_code and each.committed_offset >= 0
        }
        for answer in answers.values()
        if not isinstance(answer, ClientError)
        for group in answer.groups
        if not group.error_code
    }


async def members_of(requests: Requests, groups: Iterable[ListedGroup]) -> dict[str, int]:
    """How many members groups have. Those of which nobody tells are left out."""
    together: dict[tuple[int, str], list[str]] = {}
    for each in groups:
        if each.type in _DESCRIBERS:
            together.setdefault((each.coordinator, each.type), []).append(each.group_id)
    chunks = [
        (node_id, kind, tuple(ids[start : start + GROUPS_PER_REQUEST]))
        for (node_id, kind), ids in together.items()
        for start in range(0, len(ids), GROUPS_PER_REQUEST)
    ]

    async def ask(chunk: tuple[int, str, tuple[str, ...]]) -> dict[str, int]:
        node_id, kind, ids = chunk
        request, response = _DESCRIBERS[kind]
        answer = await requests.ask(OneBroker(node_id), request(list(ids)), response)
        return {each.group_id: len(each.members) for each in answer.groups if not each.error_code}

    answers = await each_of(chunks, ask)
    return {
        group_id: count
        for answer in answers.values()
        if not isinstance(answer, ClientError)
        for group_id, count in answer.items()
    }


_DESCRIBERS: Mapping[str, tuple[Callable[[list[str]], Request], type[Any]]] = {
    "classic": (
        lambda ids: DescribeGroupsRequest(groups=ids, include_authorized_operations=False),
        DescribeGroupsResponse,
    ),
    "consumer": (
        lambda ids: ConsumerGroupDescribeRequest(group_ids=ids, include_authorized_operations=False),
        ConsumerGroupDescribeResponse,
    ),
    "streams": (
        lambda ids: StreamsGroupDescribeRequest(group_ids=ids, include_authorized_operations=False),
        StreamsGroupDescribeResponse,
    ),
    "share": (
        lambda ids: ShareGroupDescribeRequest(group_ids=ids, include_authorized_operations=False),
        ShareGroupDescribeResponse,
    ),
}


async def fetch_bytes(
    requests: Requests, leader: int, partition: TopicPartition, offset: int, *, bytes_max: int
) -> FetchedBytes:
    """The batch at an offset, and what follows of it in `bytes_max`; a larger first batch comes whole. RefusedError."""
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=bytes_max,
        topics=[
            FetchTopic(
                topic=partition.topic,
                topic_id=ZERO_UUID,
                partitions=[
                    FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=bytes_max)
                ],
            )
        ],
        forgotten_topics_data=[],
    )
    answer = await requests.ask(OneBroker(leader), request, FetchResponse, version_max=lambda: _FETCH_VERSION_MAX)
    if answer.error_code:
        raise refusal(answer.error_code, None, about=str(partition))
    data = answer.responses[0].partitions[0]
    if data.error_code:
        raise refusal(data.error_code, None, about=f"{partition} at offset {offset}")
    records = b"" if data.records is None else data.records
    assert isinstance(records, bytes | memoryview), "an answer that came in has its bytes"
    return FetchedBytes(bytes(records), data.high_watermark, data.last_stable_offset, data.log_start_offset)


def _raise_if_all_failed(outcomes: Iterable[object]) -> None:
    listed = list(outcomes)
    errors = [each for each in listed if isinstance(each, ClientError)]
    if errors and len(errors) == len(listed):
        raise errors[0]
