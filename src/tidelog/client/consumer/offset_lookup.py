"""Questions about offsets: of a time or an end (ListOffsets), of the end of an epoch (OffsetForLeaderEpoch).

Both go to the leader of each partition. What fails because the leader is another one by now is asked again, once the metadata is
new, until the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.connections import Connections
from tidelog.client.consumer.records import OffsetAndTimestamp
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import AuthenticationError, ClientError, ClosedError, RefusedError, TimedOutError, refusal
from tidelog.client.options import ClientOptions
from tidelog.client.retries import RetryBackoff
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

T = TypeVar("T")

# A consumer, not a replica.
_CONSUMER_ID = -1


class EpochEnd(NamedTuple):
    """Where the records of an epoch end in a leader's log: -1 and -1 where it does not know the epoch."""

    leader_epoch: int
    end_offset: int


class OffsetLookup:
    """Asks leaders about offsets."""

    def __init__(
        self,
        seams: ClientSeams,
        connections: Connections,
        metadata: ClusterMetadata,
        options: ClientOptions,
        *,
        reads_committed: bool,
    ) -> None:
        self._loop = seams.loop
        self._connections = connections
        self._metadata = metadata
        self._backoff = RetryBackoff(seams.random, options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._isolation_level = 1 if reads_committed else 0

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after each time, or of either end for EARLIEST_TIMESTAMP and LATEST_TIMESTAMP; None where a
        time lies behind the last record. TimedOutError, or RefusedError for what waiting cannot change."""

        async def ask(node_id: int, partitions: list[TopicPartition]) -> dict[TopicPartition, _Outcome]:
            return await self._list_offsets_of(node_id, {each: timestamps[each] for each in partitions})

        found = await self._ask_leaders(timestamps, ask, timeout_ms)
        return {
            partition: None if each.offset < 0 else each
            for partition, each in found.items()
            if isinstance(each, OffsetAndTimestamp)
        }

    async def list_existing(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """`list_offsets`, with RefusedError at once for a partition that is not there; asking for it creates no topic."""
        deadline_s = self._loop.time() + timeout_ms / 1000
        counts: dict[str, int] = {}
        for partition in timestamps:
            topic = partition.topic
            if topic not in counts:
                known = await self._metadata.find(topic, max(0.0, (deadline_s - self._loop.time()) * 1000))
                counts[topic] = 0 if known is None else len(known.partitions)
            if partition.partition >= counts[topic]:
                what = f"topic {topic} has no partition {partition.partition}"
                sentence = what if counts[topic] else f"there is no topic {topic}"
                raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, sentence)
        return await self.list_offsets(timestamps, max(0.0, (deadline_s - self._loop.time()) * 1000))

    async def _list_offsets_of(
        self, node_id: int, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, _Outcome]:
        topics: dict[str, ListOffsetsTopic] = {}
        for partition, timestamp in timestamps.items():
            topic = topics.setdefault(partition.topic, ListOffsetsTopic(name=partition.topic, partitions=[]))
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=self._epoch_of(partition),
                    timestamp=timestamp,
                )
            )
        request = ListOffsetsRequest(
            replica_id=_CONSUMER_ID, isolation_level=self._isolation_level, topics=list(topics.values()), timeout_ms=0
        )
        answer = await self._connections.ask(node_id, _with_isolation(request), ListOffsetsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): ErrorCode.of(each.error_code)
            if each.error_code
            else OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch)
            for topic in answer.topics
            for each in topic.partitions
        }

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, EpochEnd]:
        """Where each epoch ends in the log of the partition's leader."""

        async def ask(node_id: int, partitions: list[TopicPartition]) -> dict[TopicPartition, _Outcome]:
            topics: dict[str, OffsetForLeaderTopic] = {}
            for partition in partitions:
                topic = topics.setdefault(partition.topic, OffsetForLeaderTopic(topic=partition.topic, partitions=[]))
                topic.partitions.append(
                    OffsetForLeaderPartition(
                        partition=partition.partition,
                        current_leader_epoch=self._epoch_of(partition),
                        leader_epoch=epochs[partition],
                    )
                )
            request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER_ID, topics=list(topics.values()))
            answer = await self._connections.ask(node_id, request, OffsetForLeaderEpochResponse)
            return {
                TopicPartition(result.topic, each.partition): ErrorCode.of(each.error_code)
                if each.error_code
                else EpochEnd(each.leader_epoch, each.end_offset)
                for result in answer.topics
                for each in result.partitions
            }

        found = await self._ask_leaders(epochs, ask, timeout_ms)
        return {partition: each for partition, each in found.items() if isinstance(each, EpochEnd)}

    def _epoch_of(self, partition: TopicPartition) -> int:
        leader = self._metadata.leader_of(*partition)
        return -1 if leader is None else leader.epoch

    async def _ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, _Outcome]]],
        timeout_ms: float,
    ) -> dict[TopicPartition, _Outcome]:
        deadline_s = self._loop.time() + timeout_ms / 1000
        left = sorted(set(partitions))
        self._metadata.add_topics({each.topic for each in left})
        found: dict[TopicPartition, _Outcome] = {}
        reason: ClientError | None = None
        failures = 0
        while left:
            by_node: dict[int, list[TopicPartition]] = {}
            for each in left:
                leader = self._metadata.leader_of(*each)
                if leader is not None:
                    by_node.setdefault(leader.node_id, []).append(each)
            outcomes = await asyncio.gather(*(_ask_node(ask, *each) for each in by_node.items()))
            for outcome in outcomes:
                if isinstance(outcome, (AuthenticationError, ClosedError)):
                    raise outcome
                if isinstance(outcome, ClientError):
                    reason = outcome
                    continue
                for partition, value in outcome.items():
                    if not isinstance(value, ErrorCode):
                        found[partition] = value
                        continue
                    reason = refusal(value, None, about=str(partition))
                    if not value.retriable:
                        raise reason
            left = [each for each in left if each not in found]
            if left:
                failures += 1
                await self._wait_for_leaders(left, deadline_s, failures, timeout_ms, reason)
        return found

    async def _wait_for_leaders(
        self,
        left: list[TopicPartition],
        deadline_s: float,
        failures: int,
        timeout_ms: float,
        reason: ClientError | None,
    ) -> None:
        remaining_ms = (deadline_s - self._loop.time()) * 1000
        why = self._connections.because(reason)
        too_late = TimedOutError(f"nothing was learned about {left[0]} within {timeout_ms:g} ms{why}")
        if remaining_ms <= 0:
            raise too_late from reason
        self._metadata.request_update()
        try:
            if any(self._metadata.leader_of(*each) is None for each in left):
                await self._metadata.updated(remaining_ms)
            else:
                await asyncio.sleep(min(remaining_ms, self._backoff.after(failures)) / 1000)
        except TimedOutError as error:
            raise TimedOutError(f"{too_late}; {error}") from error


_Outcome = OffsetAndTimestamp | EpochEnd | ErrorCode


async def _ask_node(
    ask: Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, _Outcome]]],
    node_id: int,
    partitions: list[TopicPartition],
) -> dict[TopicPartition, _Outcome] | ClientError:
    try:
        return await ask(node_id, partitions)
    except ClientError as error:
        return error


def _with_isolation(request: ListOffsetsRequest) -> Callable[[int], ListOffsetsRequest]:
    """Before v2 there is no isolation level, and everything is uncommitted."""

    def made(version: int) -> ListOffsetsRequest:
        if version < 2:
            request.isolation_level = 0
        return request

    return made
