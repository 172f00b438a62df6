"""Where share groups are (KIP-932), and changes to it. A share group commits no offsets: the brokers keep what was delivered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.client.admin.groups import GroupCalls
from tidelog.client.admin.outcomes import error_of, group_error, topic_error, value_of
from tidelog.client.admin.requests import GroupCoordinator
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic
from tidelog.client.errors import ClientError
from tidelog.client.given_names import names_of
from tidelog.wire.messages.share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)


@dataclass(frozen=True, slots=True)
class SharePosition:
    """Where a share group is in a partition."""

    start_offset: int
    """The first record that is not settled: all before it were accepted, rejected or given up."""
    leader_epoch: int
    lag: int | None
    """How many records are not settled; None where the cluster cannot tell, or is too old to."""


class ShareGroupCalls(GroupCalls):
    """What an admin does with the positions of share groups."""

    async def list_share_group_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, SharePosition]:
        """Where a share group is: in all partitions, or in those of these where it has begun. A group that is not there is
        nowhere.

        >>> (await admin.list_share_group_offsets("workers"))[TopicPartition("orders", 0)].lag
        """
        topics = None
        if partitions is not None:
            topics = [
                DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ]
        group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)
        answer = await self._requests.ask(
            GroupCoordinator(group_id),
            DescribeShareGroupOffsetsRequest(groups=[group]),
            DescribeShareGroupOffsetsResponse,
            codes=lambda each: [described.error_code for described in each.groups],
        )
        described = answer.groups[0]
        value_of(group_error(group_id, described.error_code, described.error_message))
        positions: dict[TopicPartition, SharePosition] = {}
        for topic in described.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.topic_name, each.partition_index)
                value_of(error_of(each.error_code, each.error_message, about=str(where)))
                if each.start_offset >= 0:
                    lag = each.lag if each.lag >= 0 else None
                    positions[where] = SharePosition(each.start_offset, each.leader_epoch, lag)
        return dict(sorted(positions.items()))

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[tuple[str, int], int]
    ) -> dict[TopicPartition, ClientError | None]:
        """Have a share group without members go on elsewhere; one that is not there comes about. The error of each partition,
        None where it is done.

        >>> await admin.alter_share_group_offsets("workers", {("orders", 0): 4711})
        """
        wanted = {TopicPartition(*each): offset for each, offset in offsets.items()}
        request = AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(
                            partition_index=index, start_offset=wanted[TopicPartition(topic, index)]
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(wanted).items()
            ],
        )
        answer = await self._requests.ask(
            GroupCoordinator(group_id), request, AlterShareGroupOffsetsResponse, codes=lambda each: [each.error_code]
        )
        value_of(group_error(group_id, answer.error_code, answer.error_message))
        outcomes: dict[TopicPartition, ClientError | None] = {}
        for topic in answer.responses:
            for each in topic.partitions:
                where = TopicPartition(topic.topic_name, each.partition_index)
                outcomes[where] = error_of(each.error_code, each.error_message, about=str(where))
        return {each: outcomes[each] for each in wanted if each in outcomes}

    async def delete_share_group_offsets(self, group_id: str, topics: Iterable[str]) -> dict[str, ClientError | None]:
        """Have a share group without members forget where it is in some topics. The error of each, None where it has."""
        names = names_of(topics, "topics")
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
        )
        answer = await self._requests.ask(
            GroupCoordinator(group_id), request, DeleteShareGroupOffsetsResponse, codes=lambda each: [each.error_code]
        )
        value_of(group_error(group_id, answer.error_code, answer.error_message))
        return {
            topic.topic_name: topic_error(topic.topic_name, topic.error_code, topic.error_message)
            for topic in answer.responses
        }
