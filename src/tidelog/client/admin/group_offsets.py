"""How far groups are: what they have committed, how far behind that is, and changes to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.client.admin.groups import GroupDescription, GroupType
from tidelog.client.admin.outcomes import error_of, group_error, no_topic, topic_error, value_of
from tidelog.client.admin.records import OffsetSpec, RecordCalls
from tidelog.client.admin.requests import GroupCoordinator
from tidelog.client.admin.share_groups import ShareGroupCalls
from tidelog.client.consumer.records import OffsetAndMetadata
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic
from tidelog.client.errors import ClientError, RefusedError, refusal
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)

Offsets: TypeAlias = list[tuple[str, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]

_TOPIC_IDS_VERSION = 10
_GROUPS_VERSION = 8


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is in a partition. `lag` is None where it has committed nothing, or the partition has no end."""

    partition: TopicPartition
    committed: int | None
    """Of a share group: where it starts, the first record that is not settled."""
    log_end_offset: int | None
    member_id: str | None
    """Who has the partition now; None where nobody has, or, in a share group, several may."""
    client_id: str | None = None
    host: str | None = None
    settled: int = 0
    """How many records behind its start a share group has settled already."""

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.log_end_offset is None:
            return None
        return max(0, self.log_end_offset - self.committed - self.settled)


class GroupOffsetCalls(ShareGroupCalls, RecordCalls):
    """What an admin does with the committed offsets of groups."""

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed: for all partitions, or those of these that have something. `require_stable` waits
        for transactions that commit offsets. A group that is not there has committed nothing.

        >>> (await admin.list_group_offsets("billing"))[TopicPartition("orders", 0)].offset
        """
        wanted = None if partitions is None else by_topic(partitions)
        ids = {} if wanted is None else await self._topic_ids(wanted)
        if wanted is not None:
            wanted = {topic: indexes for topic, indexes in wanted.items() if not isinstance(ids[topic], ClientError)}
            if not wanted:
                return {}

        def request(version: int) -> OffsetFetchRequest:
            stable = require_stable and version >= 7
            if version < _GROUPS_VERSION:
                named = [
                    OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in (wanted or {}).items()
                ]
                return OffsetFetchRequest(
                    group_id=group_id, topics=None if wanted is None else named, groups=[], require_stable=stable
                )
            listed = [
                OffsetFetchRequestTopics(name=name, topic_id=_id_of(ids, name), partition_indexes=each)
                for name, each in (wanted or {}).items()
            ]
            group = OffsetFetchRequestGroup(group_id=group_id, topics=None if wanted is None else listed)
            return OffsetFetchRequest(groups=[group], require_stable=stable)

        def codes(answer: OffsetFetchResponse) -> list[int]:
            return [answer.error_code, *(each.error_code for each in answer.groups)]

        answer = await self._requests.ask(GroupCoordinator(group_id), request, OffsetFetchResponse, codes=codes)
        for code in codes(answer):
            if code == ErrorCode.GROUP_ID_NOT_FOUND:
                return {}
            value_of(group_error(group_id, code))
        return await self._read_offsets(answer, ids)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[tuple[str, int], OffsetAndMetadata | int]
    ) -> dict[TopicPartition, ClientError | None]:
        """Have a group without members go on elsewhere. The error of each partition, None where it is done.

        >>> await admin.alter_group_offsets("billing", {("orders", 0): 4711})
        """
        wanted = {TopicPartition(*each): _position(offset) for each, offset in offsets.items()}
        topics = by_topic(wanted)
        ids = await self._topic_ids(topics)
        outcomes: dict[TopicPartition, ClientError | None] = {}
        for partition in wanted:
            found = ids[partition.topic]
            if isinstance(found, ClientError):
                outcomes[partition] = found
        known = {topic: indexes for topic, indexes in topics.items() if not isinstance(ids[topic], ClientError)}
        if not known:
            return outcomes

        def request(_version: int) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=group_id,
                member_id="",
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic,
                        topic_id=_id_of(ids, topic),
                        partitions=[_committed(index, wanted[TopicPartition(topic, index)]) for index in indexes],
                    )
                    for topic, indexes in known.items()
                ],
            )

        answer = await self._requests.ask(
            GroupCoordinator(group_id),
            request,
            OffsetCommitResponse,
            codes=lambda each: [result.error_code for topic in each.topics for result in topic.partitions],
        )
        names = {found: name for name, found in ids.items() if isinstance(found, bytes)}
        for topic in answer.topics:
            name = topic.name or names.get(topic.topic_id, "")
            for each in topic.partitions:
                partition = TopicPartition(name, each.partition_index)
                outcomes[partition] = _commit_error(group_id, partition, each.error_code)
        return {partition: outcomes[partition] for partition in wanted if partition in outcomes}

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, ClientError | None]:
        """Forget what a group has committed for some partitions, of topics that it does not subscribe to now (KIP-496)."""
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
                )
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        answer = await self._requests.ask(
            GroupCoordinator(group_id), request, OffsetDeleteResponse, codes=lambda each: [each.error_code]
        )
        value_of(group_error(group_id, answer.error_code))
        return {
            TopicPartition(topic.name, each.partition_index): error_of(
                each.error_code, about=f"{topic.name}-{each.partition_index}"
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    async def group_lag(self, group_id: str) -> list[PartitionLag]:
        """How far a group is behind the ends of the partitions that it has committed for or is assigned, in order. A share
        group is behind by what it has not settled.

        >>> sum(each.lag or 0 for each in await admin.group_lag("billing"))
        """
        group = await self.describe_group(group_id)
        if group.type is GroupType.SHARE:
            return await self._share_group_lag(group)
        committed = await self.list_group_offsets(group_id)
        owners = {partition: member for member in group.members for partition in member.assignment}
        partitions = sorted(committed.keys() | owners.keys())
        ends = await self.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        lags = []
        for partition in partitions:
            end, position, owner = ends[partition], committed.get(partition), owners.get(partition)
            if isinstance(end, ClientError) and end.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise end
            if isinstance(end, ClientError) and position is None and group.type is GroupType.STREAMS:
                # Where a task reads topics of different sizes, the shorter ones have no partition for it.
                continue
            lags.append(
                PartitionLag(
                    partition,
                    None if position is None else position.offset,
                    None if isinstance(end, ClientError) else end.offset,
                    None if owner is None else owner.member_id,
                    None if owner is None else owner.client_id,
                    None if owner is None else owner.host,
                )
            )
        return lags

    async def _share_group_lag(self, group: GroupDescription) -> list[PartitionLag]:
        positions = await self.list_share_group_offsets(group.group_id)
        assigned = {partition for member in group.members for partition in member.assignment}
        partitions = sorted(positions.keys() | assigned)
        ends = await self.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        lags = []
        for partition in partitions:
            end, position = ends[partition], positions.get(partition)
            if isinstance(end, ClientError) and end.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise end
            end_offset = None if isinstance(end, ClientError) else end.offset
            settled = 0
            if position is not None and position.lag is not None and end_offset is not None:
                # The end may have moved since the lag was counted.
                settled = max(0, end_offset - position.start_offset - position.lag)
            start = None if position is None else position.start_offset
            lags.append(PartitionLag(partition, start, end_offset, None, settled=settled))
        return lags

    async def _topic_ids(self, names: Iterable[str]) -> dict[str, bytes | RefusedError]:
        """Newer coordinators want topics by id, so that offsets are never taken for those of a topic that was made anew."""
        found = {each.name: each for each in await self._requests.topics(names)}
        ids: dict[str, bytes | RefusedError] = {}
        for name in names:
            topic = found.get(name)
            ids[name] = no_topic(name) if topic is None else topic_error(name, topic.error_code) or topic.topic_id
        return ids

    async def _read_offsets(
        self, answer: OffsetFetchResponse, ids: Mapping[str, bytes | RefusedError]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        names = {found: name for name, found in ids.items() if isinstance(found, bytes)}
        topics = [topic for group in answer.groups for topic in group.topics]
        unknown = [topic.topic_id for topic in topics if not topic.name and topic.topic_id not in names]
        for topic in await self._requests.topics([], ids=unknown):
            # Without a name the topic was deleted a moment ago, and what was committed for it goes with it.
            if topic.name:
                names[topic.topic_id] = topic.name
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        named: Offsets = [(topic.name, each) for topic in answer.topics for each in topic.partitions]
        by_id: Offsets = [
            (topic.name or names.get(topic.topic_id, ""), each) for topic in topics for each in topic.partitions
        ]
        for name, each in (*named, *by_id):
            value_of(error_of(each.error_code, about=f"{name}-{each.partition_index}"))
            if name and each.committed_offset >= 0:
                offsets[TopicPartition(name, each.partition_index)] = OffsetAndMetadata(
                    each.committed_offset, each.metadata or "", each.committed_leader_epoch
                )
        return dict(sorted(offsets.items()))


def _id_of(ids: Mapping[str, bytes | RefusedError], name: str) -> bytes:
    found = ids.get(name)
    return found if isinstance(found, bytes) else ZERO_UUID


def _position(offset: OffsetAndMetadata | int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset) if isinstance(offset, int) else offset


def _committed(index: int, position: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        committed_metadata=position.metadata,
    )


def _commit_error(group_id: str, partition: TopicPartition, code: int) -> RefusedError | None:
    if code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH}:
        return group_error(group_id, ErrorCode.UNKNOWN_MEMBER_ID)
    return refusal(code, None, about=str(partition)) if code else None
