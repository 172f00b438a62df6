"""Committing offsets for a group, and asking for them. Both go to the group's coordinator, and follow it when it moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.connections import Channel, Connections
from tidelog.client.consumer.records import OffsetAndMetadata
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic
from tidelog.client.coordinators import CoordinatorKind, Coordinators
from tidelog.client.errors import (
    ClientError,
    ClosedError,
    CommitFailedError,
    RebalanceInProgressError,
    RefusedError,
    TimedOutError,
    UnsupportedError,
    refusal,
)
from tidelog.client.options import ClientOptions
from tidelog.client.retries import RetryBackoff, needs_coordinator
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

_TOPIC_IDS_VERSION = 10
_GROUPS_VERSION = 8
_STATIC_MEMBERS_VERSION = 7

_MEMBERSHIP_ERRORS = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
_TOPIC_IS_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Committer(NamedTuple):
    """In whose name offsets are committed: a member of the group, or nobody in particular (-1 and no id)."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class CommittedOffsets:
    """The offsets of one group, as its coordinator keeps them."""

    def __init__(
        self,
        seams: ClientSeams,
        connections: Connections,
        coordinators: Coordinators,
        metadata: ClusterMetadata,
        options: ClientOptions,
        group_id: str,
    ) -> None:
        self._loop = seams.loop
        self._connections = connections
        self._coordinators = coordinators
        self._metadata = metadata
        self._backoff = RetryBackoff(seams.random, options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._group_id = group_id

    # Committing.

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        committer: Callable[[], Committer],
        timeout_ms: float,
        *,
        waits_for_topics: bool = True,
        topic_ids: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        """Commit, trying again where that may help. CommitFailedError if the group has gone on without the committer,
        RebalanceInProgressError while it is about to; RefusedError for what cannot be committed; TimedOutError.

        A partition that does not exist is a RefusedError, raised once the others are committed. `topic_ids` says of which topics
        the offsets are, where that is known: those of the same name that came later are others.
        Without `waits_for_topics`, topics that are gone are passed over: they hold up neither the caller nor other topics."""
        if not offsets:
            return
        missing: list[TopicPartition] = []
        counts: dict[str, int] = {}
        ids = {each.topic: self._metadata.topics[each.topic].id for each in offsets if self._exists(each.topic)}
        ids |= topic_ids
        if waits_for_topics:
            counts = await self._partition_counts({each.topic for each in offsets}, timeout_ms)
            ids = {topic: self._metadata.topics[topic].id for topic in counts if self._exists(topic)} | ids
            missing = sorted(each for each in offsets if each.partition >= counts[each.topic])
            offsets = {each: offset for each, offset in offsets.items() if each not in missing}
            if not offsets:
                raise _not_there(missing[0], counts[missing[0].topic])
        elif not any(self._exists(each.topic) for each in offsets):
            return

        def named() -> Mapping[TopicPartition, OffsetAndMetadata]:
            # A topic may go between two attempts, and what was read of it is nothing to one of the same name.
            there = {
                each: offset
                for each, offset in offsets.items()
                if self._exists(each.topic) and self._metadata.topics[each.topic].id == ids.get(each.topic)
            }
            if waits_for_topics:
                missing.extend(each for each in offsets if each not in there and each not in missing)
            return there

        def check(answer: OffsetCommitResponse) -> ErrorCode:
            codes = [
                (ErrorCode.of(each.error_code), topic.name or self._metadata.names_by_id.get(topic.topic_id, ""), each)
                for topic in answer.topics
                for each in topic.partitions
                if each.error_code
            ]
            for code, topic, each in codes:
                if code.retriable or code is ErrorCode.STALE_MEMBER_EPOCH:
                    continue
                raise self._commit_error(code, f"{topic}-{each.partition_index}")
            if not waits_for_topics and any(code in _TOPIC_IS_GONE for code, _, _ in codes):
                self._metadata.request_update()
                codes = [each for each in codes if each[0] not in _TOPIC_IS_GONE]
            return codes[0][0] if codes else ErrorCode.NONE

        await self._ask(
            lambda version: self.commit_request(named(), committer(), version), OffsetCommitResponse, check, timeout_ms
        )
        if missing:
            first = missing[0]
            raise _not_there(first, 0 if first in offsets else counts[first.topic])

    def _commit_error(self, code: ErrorCode, partition: str) -> ClientError:
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return refusal(code, None, about=f"group {self._group_id!r}", kind=RebalanceInProgressError)
        if code in _MEMBERSHIP_ERRORS:
            sentence = (
                f"the offsets of group {self._group_id!r} were not committed, since the group has gone on without this member "
                f"({code.name}): poll more often, or take fewer records at a time with max_poll_records"
            )
            return CommitFailedError(code, sentence)
        return refusal(code, None, about=f"the offset of {partition}")

    def commit_request(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], committer: Committer, version: int
    ) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=committer.generation_id,
            member_id=committer.member_id,
            group_instance_id=committer.group_instance_id if version >= _STATIC_MEMBERS_VERSION else None,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self._id_of(topic, version),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offsets[TopicPartition(topic, partition)].offset,
                            committed_leader_epoch=offsets[TopicPartition(topic, partition)].leader_epoch,
                            committed_metadata=offsets[TopicPartition(topic, partition)].metadata,
                        )
                        for partition in partitions
                    ],
                )
                for topic, partitions in by_topic(offsets).items()
            ],
        )

    def _id_of(self, topic: str, version: int) -> bytes:
        known = self._metadata.topics.get(topic)
        topic_id = ZERO_UUID if known is None else known.id
        if version >= _TOPIC_IDS_VERSION and topic_id == ZERO_UUID:
            raise refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, about=f"topic {topic}")
        return topic_id

    async def _partition_counts(self, topics: Collection[str], timeout_ms: float) -> dict[str, int]:
        """How many partitions each has, 0 where there is no such topic. Their ids are known then: newer brokers want topics by
        id, so that offsets are never taken for those of a topic that was made anew."""
        counts = {}
        for topic in sorted(topics):
            known = await self._metadata.find(topic, timeout_ms)
            counts[topic] = 0 if known is None else len(known.partitions)
        return counts

    def _exists(self, topic: str) -> bool:
        known = self._metadata.topics.get(topic)
        return known is not None and bool(known.partitions)

    # Asking.

    async def fetch(
        self, partitions: Collection[TopicPartition], committer: Callable[[], Committer], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What is committed for each partition, None where nothing is. Waits for transactions that commit offsets to end."""
        counts = await self._partition_counts({each.topic for each in partitions}, timeout_ms)
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(partitions)
        asked = [each for each in partitions if counts[each.topic]]
        if not asked:
            return found

        def check(answer: OffsetFetchResponse) -> ErrorCode:
            group = answer.groups[0] if answer.groups else None
            code = ErrorCode.of(group.error_code if group is not None else answer.error_code)
            if code is not ErrorCode.NONE:
                return code
            retry = ErrorCode.NONE
            for topic in answer.topics if group is None else group.topics:
                name = topic.name or self._metadata.names_by_id.get(getattr(topic, "topic_id", b""), "")
                for each in topic.partitions:
                    code = ErrorCode.of(each.error_code)
                    if code.retriable:
                        retry = code
                    elif code:
                        raise refusal(code, None, about=f"the committed offset of {name}-{each.partition_index}")
                    elif each.committed_offset >= 0:
                        found[TopicPartition(name, each.partition_index)] = OffsetAndMetadata(
                            each.committed_offset, each.metadata or "", each.committed_leader_epoch
                        )
            return retry

        await self._ask(
            lambda version: self._fetch_request(asked, committer(), version),
            OffsetFetchResponse,
            check,
            timeout_ms,
        )
        return {each: found[each] for each in partitions}

    def _fetch_request(
        self, partitions: Collection[TopicPartition], committer: Committer, version: int
    ) -> OffsetFetchRequest:
        grouped = by_topic(partitions)
        if version < _GROUPS_VERSION:
            return OffsetFetchRequest(
                group_id=self._group_id,
                topics=[OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in grouped.items()],
                groups=[],
                require_stable=version >= 7,
            )
        group = OffsetFetchRequestGroup(
            group_id=self._group_id,
            # Only members of the new protocol say who they are here; others have no epoch that the coordinator knows.
            member_id=committer.member_id or None,
            member_epoch=committer.generation_id if committer.member_id else -1,
            topics=[
                OffsetFetchRequestTopics(name=name, topic_id=self._id_of(name, version), partition_indexes=each)
                for name, each in grouped.items()
            ],
        )
        return OffsetFetchRequest(groups=[group], require_stable=True)

    async def _ask(
        self,
        request: Callable[[int], Request],
        kind: type[R],
        check: Callable[[R], ErrorCode],
        timeout_ms: float,
    ) -> None:
        """Ask the coordinator until `check` finds nothing to try again."""
        deadline_s = self._loop.time() + timeout_ms / 1000
        failures = 0
        reason: ClientError | None = None
        while True:
            remaining_ms = (deadline_s - self._loop.time()) * 1000
            if remaining_ms <= 0:
                why = self._connections.because(reason)
                raise TimedOutError(
                    f"the coordinator of group {self._group_id!r} had no good answer within {timeout_ms:g} ms{why}"
                ) from reason
            try:
                node_id = await self._coordinators.find(CoordinatorKind.GROUP, self._group_id, timeout_ms=remaining_ms)
                answer = await self._connections.ask(
                    node_id, request, kind, channel=Channel.COORDINATOR, timeout_ms=max(1, int(remaining_ms))
                )
                code = check(answer)
                if code is ErrorCode.NONE:
                    return
                reason = refusal(code, None, about=f"group {self._group_id!r}")
                if needs_coordinator(code):
                    self._coordinators.lost(CoordinatorKind.GROUP, self._group_id)
                if code in _TOPIC_IS_GONE:
                    self._metadata.request_update()
                if not code.retriable and code is not ErrorCode.STALE_MEMBER_EPOCH:
                    raise reason if code not in _MEMBERSHIP_ERRORS else self._commit_error(code, "")
            except (ClosedError, UnsupportedError):
                raise
            except ClientError as error:
                if not error.retriable or isinstance(error, CommitFailedError):
                    raise
                reason = error
                self._coordinators.lost(CoordinatorKind.GROUP, self._group_id)
            failures += 1
            wait_s = min(self._backoff.after(failures) / 1000, max(0.0, deadline_s - self._loop.time()))
            await asyncio.sleep(wait_s)


def _not_there(partition: TopicPartition, partition_count: int) -> RefusedError:
    what = (
        f"topic {partition.topic} has no partition {partition.partition}"
        if partition_count
        else f"topic {partition.topic} does not exist, or no longer"
    )
    return RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{what}, and no offset of it was committed")
