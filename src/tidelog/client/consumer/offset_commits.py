"""The commits of one consumer: those that the application asks for, and those that happen by themselves.

In whose name: with a shared subscription the member's, and only while the consumer is one; with assigned partitions nobody's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tidelog.client.consumer.classic_group import ClassicGroup
from tidelog.client.consumer.committed_offsets import CommittedOffsets, Committer
from tidelog.client.consumer.consumer_group import ConsumerGroup
from tidelog.client.consumer.errors import ConsumerStateError
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.records import OffsetAndMetadata, Offsets, offsets_to_commit
from tidelog.client.consumer.subscription import Subscription
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import (
    ClientError,
    ClosedError,
    CommitFailedError,
    NotReachedError,
    RebalanceInProgressError,
)
from tidelog.model.errors import ErrorCode

log = logging.getLogger(__name__)

Told = Callable[[dict[TopicPartition, OffsetAndMetadata], ClientError | None], object]


class OffsetCommits:
    """Commits where `poll` has got to, or what the application says. Without a group there is nothing to commit to."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        subscription: Subscription,
        committed: CommittedOffsets | None,
        group: ClassicGroup | ConsumerGroup | None,
        options: ConsumerOptions,
    ) -> None:
        self._loop = loop
        self._subscription = subscription
        self._committed = committed
        self._group = group
        self._options = options
        self._under_way: set[asyncio.Task[None]] = set()
        self.is_automatic = options.enable_auto_commit and committed is not None
        self._next_s = loop.time() + options.auto_commit_interval_ms / 1000

    def of_group(self) -> CommittedOffsets:
        """What the group has committed. ConsumerStateError without a group."""
        if self._committed is None:
            raise ConsumerStateError("committed offsets belong to a group: give the consumer a group_id")
        return self._committed

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets behind all that polls have returned."""
        return {
            partition: OffsetAndMetadata(offset, "", epoch)
            for partition, (offset, epoch) in self._subscription.consumed().items()
        }

    async def commit(self, offsets: Offsets | None, timeout_ms: float) -> None:
        """Commit these, or all that is consumed, and wait for it."""
        await self._commit(self._chosen(offsets), timeout_ms)

    def commit_soon(self, offsets: Offsets | None, on_done: Told | None) -> None:
        """Commit these, or all that is consumed, without waiting. `on_done` hears how it went."""
        self.of_group()
        self._begin(self._chosen(offsets), on_done)

    # --- by themselves -----------------------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether it is time for an automatic commit."""
        return self.is_automatic and self._loop.time() >= self._next_s

    def commit_if_due(self) -> None:
        """Begin an automatic commit, if it is time for one and none is under way."""
        if not self.is_automatic or self._loop.time() < self._next_s:
            return
        self._next_s = self._loop.time() + self._options.auto_commit_interval_ms / 1000
        offsets = self.consumed()
        if offsets and not self._under_way and not self._is_outsider():
            self._begin(offsets, None, waits_for_topics=False)

    async def commit_before_revoke(self) -> None:
        """Commit what was read before partitions go, where that is automatic."""
        if not self.is_automatic:
            return
        offsets = self.consumed()
        if not offsets or self._is_outsider():
            return
        try:
            await self._send(offsets, self._options.default_api_timeout_ms, waits_for_topics=False)
        except ClientError as error:
            log.warning("offsets were not committed before partitions were given up: %s", error)

    def stop(self) -> None:
        """Give up what is under way."""
        for task in list(self._under_way):
            task.cancel()

    # --- in whose name -----------------------------------------------------------------------------------------------------

    def fetch_committer(self) -> Committer:
        """Only members of the new protocol ask for offsets in their own name."""
        return self._group.committer() if isinstance(self._group, ConsumerGroup) else Committer()

    def _committer(self) -> Committer:
        """CommitFailedError while this consumer shares partitions and is no member: they may be others' by now, and the
        coordinator of an empty group would not notice."""
        if self._group is None or not self._subscription.uses_group:
            return Committer()
        committer = self._group.committer()
        if not committer.member_id:
            sentence = (
                f"this consumer is no member of group {self._options.group_id!r} at the moment: poll to join it again"
            )
            raise CommitFailedError(ErrorCode.UNKNOWN_MEMBER_ID, sentence)
        return committer

    def _is_outsider(self) -> bool:
        """Whether this consumer shares partitions and is no member at the moment."""
        return self._subscription.uses_group and (self._group is None or not self._group.committer().member_id)

    # --- committing --------------------------------------------------------------------------------------------------------

    def _chosen(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.consumed() if offsets is None else offsets_to_commit(offsets)

    def _begin(
        self,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        on_done: Told | None,
        *,
        waits_for_topics: bool = True,
    ) -> None:
        async def work() -> None:
            failed: ClientError | None = None
            try:
                await self._commit(offsets, self._options.default_api_timeout_ms, waits_for_topics=waits_for_topics)
            except ClosedError:
                return
            except ClientError as error:
                failed = error
            if on_done is not None:
                on_done(offsets, failed)
            elif isinstance(failed, NotReachedError):
                # A node that is down is logged once, by `reachability`; the next poll commits again.
                log.debug("offsets were not committed: %s", failed)
            elif failed is not None:
                log.warning("offsets were not committed: %s", failed)

        task = self._loop.create_task(work())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _commit(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: float, *, waits_for_topics: bool = True
    ) -> None:
        try:
            await self._send(offsets, timeout_ms, waits_for_topics=waits_for_topics)
        except (CommitFailedError, RebalanceInProgressError) as error:
            if self._group is not None:
                self._group.commit_refused(error.code)
            raise
        for interceptor in self._options.interceptors:
            on_commit = getattr(interceptor, "on_commit", None)
            if on_commit is not None:
                try:
                    on_commit(offsets)
                except Exception:
                    log.exception("an interceptor failed")

    async def _send(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_ms: float, *, waits_for_topics: bool
    ) -> None:
        await self.of_group().commit(
            offsets,
            self._committer,
            timeout_ms,
            waits_for_topics=waits_for_topics,
            topic_ids=self._subscription.topic_ids(),
        )
