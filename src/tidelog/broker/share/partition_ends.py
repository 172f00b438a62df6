"""Where partitions end, whichever broker leads them: what lag is counted from."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import groupby
from typing import NamedTuple

from tidelog.broker.coordinators.broker_requests import BrokerRequests, LinkTo, Words
from tidelog.broker.coordinators.coordinator_elections import Hosting
from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.model.pending import Pending
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.schema import Response

_LATEST_TIMESTAMP = -1
_CONSUMER = -1
_READ_UNCOMMITTED = 0
_TIMEOUT_MS = 30_000


class PartitionEnds:
    """One for each broker."""

    def __init__(self, node: Hosting, link_to: LinkTo, turn: AbstractContextManager[None]) -> None:
        self._node = node
        self._others: BrokerRequests[_Asked] = BrokerRequests(
            link_to, turn, Words("partition-ends", lambda asked: asked.where, _request, _answered)
        )

    def end_of(self, where: TopicPartition) -> int | ErrorCode | Pending[int | ErrorCode]:
        """The offset that the next record gets which consumers may see."""
        topic = self._node.image.topic(where.topic)
        metadata = None if topic is None else topic.partitions.get(where.partition)
        if metadata is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if metadata.leader < 0:
            return ErrorCode.LEADER_NOT_AVAILABLE
        if metadata.leader != self._node.node_id:
            answer: Pending[int | ErrorCode] = Pending()
            self._others.ask(metadata.leader, _Asked(where, answer))
            return answer
        partition = self._node.partitions.led_partition(where.topic, where.partition)
        if isinstance(partition, ErrorCode):
            return partition
        return ErrorCode.KAFKA_STORAGE_ERROR if partition.log is None else partition.log.high_watermark

    def follow(self, image: ClusterImage) -> None:
        """Wait no longer for brokers that are gone."""
        self._others.follow(image)

    def stop(self) -> None:
        self._others.stop()


class _Asked(NamedTuple):
    where: TopicPartition
    answer: Pending[int | ErrorCode]


def _request(asked: list[_Asked]) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=_READ_UNCOMMITTED,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=each.partition, timestamp=_LATEST_TIMESTAMP)
                    for each in partitions
                ],
            )
            for name, partitions in groupby(sorted(each.where for each in asked), key=lambda where: where.topic)
        ],
        timeout_ms=_TIMEOUT_MS,
    )


def _answered(asked: list[_Asked], response: Response | None) -> None:
    found: dict[tuple[str, int], int | ErrorCode] = {}
    if isinstance(response, ListOffsetsResponse):
        for topic in response.topics:
            for each in topic.partitions:
                error = ErrorCode.of(each.error_code)
                found[topic.name, each.partition_index] = each.offset if error is ErrorCode.NONE else error
    for where, answer in asked:
        answer.complete(found.get((where.topic, where.partition), ErrorCode.NETWORK_EXCEPTION))
