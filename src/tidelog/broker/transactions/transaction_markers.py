"""Writes the markers that end transactions, and does not give up before every partition has its own.

    outcome of one partition                  what follows
    written, and all in-sync replicas have it done
    the partition is no more                  done: there is nobody to tell
    a newer coordinator, or a newer epoch     this node has no say in the transaction any more, and leaves all of it
    anything else                             tried again, later and later

`TransactionMarkers` knows nothing of where a partition is. `LocalMarkers` writes to those that this node leads, and says of all
others NOT_LEADER_OR_FOLLOWER; `cluster_markers` sends those to whoever leads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple, Protocol

from tidelog.broker.coordinators.coordinator_elections import Hosting
from tidelog.coordination.transaction.markers_due import MarkersDue
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName, TopicPartition
from tidelog.model.internal_topics import CONSUMER_OFFSETS
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.replication.partition import Partition
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.storage.checked_batches import CheckedBatch, built_batch
from tidelog.storage.producer import EndTransactionMarker
from tidelog.wire.control_records import ControlType, build_end_txn_marker

logger = logging.getLogger(__name__)

# A partition without a leader mostly has one again very soon; one whose disk is gone does not.
RETRY_MS_MIN = 20
RETRY_MS_MAX = 1_000

_NONE = ErrorCode.NONE
_DONE = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class Marker(NamedTuple):
    """What one marker says."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool
    transaction_version: int

    def to_batch(self, timestamp_ms: int) -> CheckedBatch:
        batch = build_end_txn_marker(
            ControlType.COMMIT if self.is_committed else ControlType.ABORT,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            timestamp=timestamp_ms,
        )
        end = EndTransactionMarker(self.is_committed, self.coordinator_epoch, timestamp_ms, self.transaction_version)
        return built_batch(bytearray(batch), 1, timestamp_ms, self.producer_id, self.producer_epoch, None, end)


class GroupLogs(Protocol):
    """The logs of the group coordinator, which takes in the offsets that a transaction has committed."""

    def end_transaction(self, index: int, marker: CheckedBatch) -> ErrorCode | Pending[ErrorCode]: ...


class LocalMarkers:
    """Writes markers to the partitions that this node leads."""

    def __init__(self, node: Hosting, groups: GroupLogs, clock: Clock) -> None:
        self._node = node
        self._groups = groups
        self._clock = clock

    def write(self, marker: Marker, partitions: tuple[TopicPartition, ...]) -> list[ErrorCode | Pending[ErrorCode]]:
        """The same marker for each partition: NONE once it is committed, or why it is not written."""
        # One for all of them: each writes its own place into it, right before it is written.
        batch = marker.to_batch(self._clock.now_ms())
        hosts = self._node.partitions
        wakeups = hosts.wakeups
        outcomes: list[ErrorCode | Pending[ErrorCode]] = []
        last: TopicName | None = None
        hosted: Mapping[int, Partition] = {}
        # Who reads several of the partitions sees the whole transaction at once.
        wakeups.hold()
        try:
            for topic, index in partitions:
                if topic != last:
                    hosted = hosts.named(topic)
                    last = topic
                partition = hosted.get(index)
                if partition is None:
                    outcomes.append(hosts.missing(topic, index))
                elif topic == CONSUMER_OFFSETS:
                    outcomes.append(self._groups.end_transaction(index, batch))
                else:
                    outcomes.append(_end_in(partition, batch))
        finally:
            wakeups.release()
        return outcomes


def _end_in(partition: Partition, marker: CheckedBatch) -> ErrorCode | Pending[ErrorCode]:
    outcome = partition.append([marker], AppendRule.MARKER)[0]
    if type(outcome) is int:
        return partition.when_committed(outcome + 1)
    if isinstance(outcome, AppendRefused):
        return outcome.error
    return partition.when_committed(outcome.last_offset + 1)  # type: ignore[union-attr]


class MarkerWriter(Protocol):
    """Whoever brings markers to where the partitions are led."""

    def write(self, marker: Marker, partitions: tuple[TopicPartition, ...]) -> list[ErrorCode | Pending[ErrorCode]]: ...


class TransactionMarkers:
    """The transactions of this node's coordinator that are decided, and of which not every partition knows it."""

    def __init__(
        self,
        writer: MarkerWriter,
        timers: Timers,
        turn: AbstractContextManager[None],
        *,
        is_wanted: Callable[[MarkersDue], bool],
        written: Callable[[MarkersDue], None],
    ) -> None:
        """`is_wanted`: whether the coordinator that decided it is still the one; `written` is told when all of it is done."""
        self._writer = writer
        self._timers = timers
        self._turn = turn
        self._is_wanted = is_wanted
        self._written = written
        self._under_way: dict[tuple[str, int, int], _UnderWay] = {}

    def __len__(self) -> int:
        """How many transactions have markers missing."""
        return len(self._under_way)

    @property
    def waiting_count(self) -> int:
        """Of how many partitions the marker has to be tried again."""
        return sum(len(each.missing) for each in self._under_way.values() if each.timer is not None)

    def send(self, due: MarkersDue) -> None:
        """Have these markers written."""
        if self._under_way:
            known = self._under_way.pop((due.transactional_id, due.producer_id, due.producer_epoch), None)
            if known is not None:
                # The coordinator has been here, elsewhere and here again, and begins anew.
                known.drop()
        outcomes = self._write(due, due.partitions)
        for outcome in outcomes:
            if outcome is not _NONE:
                break
        else:
            # They are all on this node and have nobody to wait for, as mostly: there is nothing to keep in mind.
            if self._is_wanted(due):
                self._written(due)
            return
        under_way = _UnderWay(due)
        self._under_way[under_way.key] = under_way
        self._follow(under_way, due.partitions, outcomes)

    def stop(self) -> None:
        """Write nothing more: the next start goes on."""
        for each in self._under_way.values():
            each.drop()
        self._under_way.clear()

    def _write(
        self, due: MarkersDue, partitions: tuple[TopicPartition, ...]
    ) -> Sequence[ErrorCode | Pending[ErrorCode]]:
        marker = Marker(
            due.producer_id, due.producer_epoch, due.coordinator_epoch, due.is_committed, due.transaction_version
        )
        return self._writer.write(marker, partitions)

    def _try(self, under_way: _UnderWay) -> None:
        partitions = tuple(under_way.missing)
        self._follow(under_way, partitions, self._write(under_way.due, partitions))

    def _follow(
        self,
        under_way: _UnderWay,
        partitions: tuple[TopicPartition, ...],
        outcomes: Sequence[ErrorCode | Pending[ErrorCode]],
    ) -> None:
        under_way.unanswered = len(partitions)
        for where, outcome in zip(partitions, outcomes, strict=True):
            if isinstance(outcome, Pending):
                outcome.then(partial(self._answered, under_way, where))
            else:
                self._answered(under_way, where, outcome)

    def _answered(self, under_way: _UnderWay, where: TopicPartition, error: ErrorCode) -> None:
        under_way.unanswered -= 1
        if error in _DONE:
            under_way.missing.pop(where, None)
        elif error in _FENCED:
            under_way.is_fenced = True
            logger.info("%s has no say in %s any more: %s", where, under_way.due.transactional_id, error.message)
        else:
            logger.info("the marker of %s is not in %s yet: %s", under_way.due.transactional_id, where, error.message)
        if under_way.unanswered == 0 and not under_way.is_dropped:
            self._all_answered(under_way)

    def _all_answered(self, under_way: _UnderWay) -> None:
        if under_way.is_fenced or not self._is_wanted(under_way.due):
            del self._under_way[under_way.key]
        elif not under_way.missing:
            del self._under_way[under_way.key]
            self._written(under_way.due)
        else:
            under_way.timer = self._timers.after(under_way.next_retry_ms(), partial(self._again, under_way))

    def _again(self, under_way: _UnderWay) -> None:
        under_way.timer = None
        with self._turn:
            if self._is_wanted(under_way.due):
                self._try(under_way)
            else:
                del self._under_way[under_way.key]


class _UnderWay:
    """One transaction, and the partitions that do not know its end yet."""

    __slots__ = ("_retry_ms", "due", "is_dropped", "is_fenced", "missing", "timer", "unanswered")

    def __init__(self, due: MarkersDue) -> None:
        self.due = due
        # A dict for its order.
        self.missing: dict[TopicPartition, None] = dict.fromkeys(due.partitions)
        self.unanswered = 0
        self.is_fenced = False
        self.is_dropped = False
        self.timer: Timer | None = None
        self._retry_ms = RETRY_MS_MIN

    @property
    def key(self) -> tuple[str, int, int]:
        return self.due.transactional_id, self.due.producer_id, self.due.producer_epoch

    def next_retry_ms(self) -> int:
        retry_ms = self._retry_ms
        self._retry_ms = min(2 * retry_ms, RETRY_MS_MAX)
        return retry_ms

    def drop(self) -> None:
        self.is_dropped = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
