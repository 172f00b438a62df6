"""Finding the position of partitions that have none, and making sure of those whose leader changed.

    INITIALIZING      the group's committed offset; without one, or without a group, a reset by `auto_offset_reset`
    AWAIT_RESET       ListOffsets
    AWAIT_VALIDATION  OffsetForLeaderEpoch: the log must hold the epoch of the last record that was read, up to the position

One round asks for all that is open and ends; the next one is begun by whoever polls. What the application has to decide goes
into `errors`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from tidelog.client.consumer.committed_offsets import CommittedOffsets, Committer
from tidelog.client.consumer.errors import LogTruncatedError
from tidelog.client.consumer.offset_lookup import OffsetLookup
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.records import OffsetAndMetadata
from tidelog.client.consumer.subscription import LATEST_TIMESTAMP, AssignedPartition, PartitionState, Subscription
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import (
    ClientError,
    ClosedError,
    CommitFailedError,
    NoOffsetForPartitionError,
    NotReachedError,
    UnsupportedError,
)
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode

log = logging.getLogger(__name__)


class Positions:
    """Rounds of questions about positions, one at a time."""

    def __init__(
        self,
        seams: ClientSeams,
        subscription: Subscription,
        lookup: OffsetLookup,
        committed: CommittedOffsets | None,
        committer: Callable[[], Committer],
        options: ConsumerOptions,
        has_leader: Callable[[TopicPartition], bool],
        on_news: Callable[[], None],
    ) -> None:
        """A partition is asked about once it `has_leader`: one that does not exist must not hold up the others."""
        self._loop = seams.loop
        self._clock = seams.clock
        self._subscription = subscription
        self._lookup = lookup
        self._committed = committed
        self._committer = committer
        self._options = options
        self._has_leader = has_leader
        self._on_news = on_news
        self._round: asyncio.Task[None] | None = None
        self.errors: deque[ClientError] = deque()

    def begin_round(self) -> None:
        """Ask for whatever is open, unless that is being done."""
        if self._round is not None:
            return
        open_ones = [
            each
            for each in self._subscription
            if each.state is not PartitionState.FETCHING and self._has_leader(each.partition)
        ]
        if open_ones:
            self._round = self._loop.create_task(self._find(open_ones))
            self._round.add_done_callback(self._ended)

    def stop(self) -> None:
        if self._round is not None:
            self._round.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._round = None
        if not task.cancelled():
            error = task.exception()
            if isinstance(error, ClientError):
                if isinstance(error, NotReachedError):
                    # A node that is down is logged once, by `reachability`.
                    log.debug("positions were not found, which is tried again: %s", error)
                elif error.retriable:
                    log.warning("positions were not found, which is tried again: %s", error)
                elif not isinstance(error, ClosedError):
                    self.errors.append(error)
            elif error is not None:
                raise error
        self._on_news()

    async def _find(self, partitions: Sequence[AssignedPartition]) -> None:
        timeout_ms = self._options.default_api_timeout_ms
        by_state: dict[PartitionState, list[tuple[AssignedPartition, int]]] = {}
        for each in partitions:
            by_state.setdefault(each.state, []).append((each, each.version))
        # One after the other: they are few, and what one finds out is the next round's business.
        await self._find_committed(by_state.get(PartitionState.INITIALIZING, []), timeout_ms)
        await self._reset([(each, each.version) for each in partitions if self._is_open(each)], timeout_ms)
        await self._validate(by_state.get(PartitionState.AWAIT_VALIDATION, []), timeout_ms)

    def _is_open(self, assigned: AssignedPartition) -> bool:
        return assigned.state is PartitionState.AWAIT_RESET and self._subscription.is_current(
            assigned, assigned.version
        )

    async def _find_committed(self, wanted: list[tuple[AssignedPartition, int]], timeout_ms: float) -> None:
        if not wanted:
            return
        committed: dict[TopicPartition, OffsetAndMetadata | None] = {}
        if self._committed is not None:
            wanted_partitions = [each.partition for each, _ in wanted]
            try:
                committed = await self._committed.fetch(wanted_partitions, self._committer, timeout_ms)
            except CommitFailedError as error:
                # No member any more, as the next heartbeat will say; until then there is nothing to find out.
                log.debug("committed offsets were not found: %s", error)
                await asyncio.sleep(self._options.retry_backoff_max_ms / 1000)
                return
        for assigned, version in wanted:
            if not self._subscription.is_current(assigned, version):
                continue
            found = committed.get(assigned.partition)
            if found is not None:
                assigned.seek(found.offset, found.leader_epoch)
            else:
                self._reset_by_rule(assigned)

    def _reset_by_rule(self, assigned: AssignedPartition) -> None:
        timestamp = self._options.auto_offset_reset.at(self._clock.now_ms())
        if timestamp is None:
            sentence = f"{assigned.partition} has no committed offset, and auto_offset_reset is none: seek to begin"
            raise NoOffsetForPartitionError(ErrorCode.OFFSET_OUT_OF_RANGE, sentence)
        assigned.await_reset(timestamp)

    async def _reset(self, wanted: list[tuple[AssignedPartition, int]], timeout_ms: float) -> None:
        if not wanted:
            return
        timestamps = {
            each.partition: each.reset_timestamp if each.reset_timestamp is not None else LATEST_TIMESTAMP
            for each, _ in wanted
        }
        found = await self._lookup.list_offsets(timestamps, timeout_ms)
        behind = [partition for partition, offset in found.items() if offset is None]
        if behind:
            # Nothing is as young as the time asked for: the end is the first offset after it.
            found |= await self._lookup.list_offsets(dict.fromkeys(behind, LATEST_TIMESTAMP), timeout_ms)
        for assigned, version in wanted:
            offset = found.get(assigned.partition)
            if offset is not None and self._subscription.is_current(assigned, version):
                assigned.seek(offset.offset)
                if offset.leader_epoch >= 0:
                    assigned.leader_epoch = max(assigned.leader_epoch, offset.leader_epoch)

    async def _validate(self, wanted: list[tuple[AssignedPartition, int]], timeout_ms: float) -> None:
        if not wanted:
            return
        try:
            ends = await self._lookup.epoch_ends({each.partition: each.offset_epoch for each, _ in wanted}, timeout_ms)
        except UnsupportedError:
            # A broker without the API is trusted, as all were before there was one.
            for assigned, version in wanted:
                if self._subscription.is_current(assigned, version):
                    assigned.validated()
            return
        for assigned, version in wanted:
            end = ends.get(assigned.partition)
            if end is None or not self._subscription.is_current(assigned, version):
                continue
            if end.end_offset < 0 or end.leader_epoch < 0:
                self._truncated(assigned, -1, -1)
            elif end.end_offset < assigned.position:
                self._truncated(assigned, end.end_offset, end.leader_epoch)
            else:
                assigned.validated()

    def _truncated(self, assigned: AssignedPartition, end_offset: int, leader_epoch: int) -> None:
        """The leader's log ends before the position: records that were read are not there any more."""
        timestamp = self._options.auto_offset_reset.at(self._clock.now_ms())
        if timestamp is None:
            error = LogTruncatedError(assigned.partition, assigned.position, end_offset)
            assigned.validated()
            raise error
        log.warning(
            "%s was truncated to offset %d, below the position %d", assigned.partition, end_offset, assigned.position
        )
        if end_offset >= 0:
            assigned.seek(end_offset, leader_epoch)
        else:
            assigned.await_reset(timestamp)
