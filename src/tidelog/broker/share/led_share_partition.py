"""A share partition on the node that leads its partition: the machine, joined with the log, the locks' time and what is written.

    LOADING   the persister is asked what is known; fetches wait
    ACTIVE    it serves
    FAILED    it could not be read: whoever waits is told why, and the next fetch makes another one
    FENCED    another node leads, or the share coordinator knows of a newer leader or of no such group: as above

What is acknowledged, released or has timed out in one turn is one write, and one write is under way at a time. So what waits to
be written is bounded by what is in flight: nothing is acknowledged twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from tidelog.broker.share.acknowledgement import Acknowledged, Refusal, acknowledge, release
from tidelog.broker.share.persister import NO_START_OFFSET, Persister, PersisterError, ShareState, StateBatch
from tidelog.broker.share.share_limits import ShareLimits
from tidelog.broker.share.share_metrics import ShareMetrics
from tidelog.broker.share.share_partition import Change, SharePartition
from tidelog.broker.share.start_offset import start_offset
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.replication.partition import Partition

logger = logging.getLogger(__name__)

_UNAVAILABLE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
_FENCED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_NOT_THERE = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})

# What is told of these, this leader cannot go on after.
_ENDS = _NOT_THERE | {ErrorCode.NOT_LEADER_OR_FOLLOWER}


class ShareStage(Enum):
    """See the module."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    FENCED = "fenced"


class Waiting(Protocol):
    """A fetch that waits for a share partition."""

    def share_partition_changed(self) -> None:
        """There may be more to acquire, or nothing any more."""
        ...


class LeaderSeams(NamedTuple):
    """What all share partitions of a node go by."""

    persister: Persister
    clock: Clock
    timers: Timers
    later: Callable[[Callable[[], None]], None]
    """Does something at the end of the turn."""


class _Written(NamedTuple):
    """Something to be written, and who waits for it."""

    batches: list[StateBatch]
    change: Change | None
    """None: locks have ended, which counts whatever comes of the write."""
    outcome: Pending[Refusal | None]


class LedSharePartition:
    """One group on one partition, in one epoch of its leader."""

    def __init__(
        self,
        group_id: str,
        partition: Partition,
        seams: LeaderSeams,
        limits_of: Callable[[str], ShareLimits],
        metrics: ShareMetrics,
        on_end: Callable[[LedSharePartition], None],
    ) -> None:
        """`on_end` hears that it serves no longer."""
        self.group_id = group_id
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.stage = ShareStage.LOADING
        self.refusal: Refusal | None = None
        """Why it does not serve."""
        self.waiting: dict[Waiting, None] = {}
        self.timeouts = 0
        """Locks that have ended: batches or records."""
        self._limits_of = limits_of
        self.machine = SharePartition(limits_of(group_id).settings)
        self._seams = seams
        self._metrics = metrics
        self._on_end = on_end
        self._queue: list[_Written] = []
        self._is_writing = False
        self._is_due = False
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._begun_ms = seams.clock.monotonic_ms()

    @property
    def is_waiting(self) -> bool:
        """As a watcher of its partition: whether a fetch waits for what is appended."""
        return bool(self.waiting)

    def current_limits(self) -> ShareLimits:
        """What the group goes by from now on, the machine too."""
        limits = self._limits_of(self.group_id)
        self.machine.settings = limits.settings
        return limits

    # --- beginning ---------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Ask what is known of it."""
        self.partition.watch(self)
        self._seams.persister.read(
            self.group_id, self.partition.topic_id, self.partition.topic_partition.partition, self.leader_epoch
        ).then(self._loaded)

    def _loaded(self, state: ShareState | PersisterError) -> None:
        self._metrics.load_ms.observe(self._seams.clock.monotonic_ms() - self._begun_ms)
        if self.stage is not ShareStage.LOADING:
            return
        if isinstance(state, PersisterError):
            self._end(ShareStage.FAILED, refusal_of(state))
            return
        begins = state.start_offset
        if begins == NO_START_OFFSET:
            found = start_offset(
                self.partition, self.leader_epoch, self.current_limits().reset, self._seams.clock.now_ms()
            )
            if isinstance(found, ErrorCode):
                self._end(ShareStage.FAILED, _refusal(found))
                return
            begins = found
        problem = self.machine.load(state, begins)
        if problem is not None:
            logger.error("the state of group %s on %s is wrong: %s", self.group_id, self.partition, problem)
            self._end(ShareStage.FAILED, _refusal(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        self.stage = ShareStage.ACTIVE
        self.tell_waiting()

    # --- what members do ---------------------------------------------------------------------------------------------------

    def acknowledge(self, member_id: str, said: Sequence[Acknowledged]) -> Refusal | Pending[Refusal | None] | None:
        """None once what is said is committed, or why it is not taken."""
        if self.stage is not ShareStage.ACTIVE:
            return self.refusal or _refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.current_limits()
        change = acknowledge(self.machine, member_id, said, self._seams.clock.monotonic_ms())
        self.look_at_locks()
        if isinstance(change, Refusal):
            return change
        return self._begin(change)

    def release(self, member_id: str) -> None:
        """A member has left: others get what it had."""
        if self.stage is ShareStage.ACTIVE:
            self.current_limits()
            self._begin(release(self.machine, member_id))

    def _begin(self, change: Change) -> Pending[Refusal | None] | None:
        if not change.parts:
            return None
        outcome: Pending[Refusal | None] = Pending()
        self._add(_Written(change.batches, change, outcome))
        return outcome

    # --- locks -------------------------------------------------------------------------------------------------------------

    def look_at_locks(self) -> None:
        """Be called when the next lock ends. One timer for all of them, in the one heap of the node."""
        due_ms = self.machine.next_lock_ms
        if due_ms is None or self.stage is not ShareStage.ACTIVE:
            return
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self._seams.timers.after(due_ms - self._seams.clock.monotonic_ms(), self._locks_due)

    def _locks_due(self) -> None:
        self._timer = None
        if self.stage is not ShareStage.ACTIVE:
            return
        self.current_limits()
        batches = self.machine.time_out(self._seams.clock.monotonic_ms())
        self.look_at_locks()
        if batches:
            self.timeouts += len(batches)
            self._add(_Written(batches, None, Pending()))
            self.tell_waiting()

    # --- writing -----------------------------------------------------------------------------------------------------------

    def _add(self, written: _Written) -> None:
        self._queue.append(written)
        if not self._is_writing and not self._is_due:
            self._is_due = True
            self._seams.later(self._write)

    def _write(self) -> None:
        """Write all that has begun, in its order."""
        self._is_due = False
        queue, self._queue = self._queue, []
        batches = queue[0].batches if len(queue) == 1 else [batch for each in queue for batch in each.batches]
        self._is_writing = True
        self._seams.persister.write(
            self.group_id,
            self.partition.topic_id,
            self.partition.topic_partition.partition,
            self.leader_epoch,
            self.machine.state_epoch,
            self.machine.start_offset,
            self.machine.completed_count,
            batches,
        ).then(lambda error: self._have_written(queue, error))

    def _have_written(self, queue: list[_Written], error: PersisterError | None) -> None:
        self._is_writing = False
        refusal = None if error is None else refusal_of(error)
        now_ms = self._seams.clock.monotonic_ms()
        has_more = False
        for each in queue:
            if each.change is not None:
                has_more |= self.machine.settle(each.change, refusal is None, now_ms)
            else:
                has_more |= self.machine.move_start()
        if refusal is not None and refusal.error in _ENDS:
            self._end(ShareStage.FENCED, refusal)
        self.look_at_locks()
        for each in queue:
            each.outcome.complete(refusal)
        if self._queue and not self._is_due:
            # Of those that came up meanwhile; more may be acknowledged in this turn.
            self._is_due = True
            self._seams.later(self._write)
        if has_more:
            self.tell_waiting()

    # --- who waits, and the end --------------------------------------------------------------------------------------------

    def partition_changed(self, partition: Partition) -> None:
        """More may be readable, or this node does not lead any more."""
        if not partition.is_leading or partition.leader_epoch != self.leader_epoch:
            self._end(ShareStage.FENCED, _refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        elif self.waiting:
            self.tell_waiting()

    def tell_waiting(self) -> None:
        """The fetches that wait look again. Each may take itself off, or others, from within."""
        for waiting in tuple(self.waiting):
            if self.has_nothing():
                # The first of many have taken it all.
                return
            if waiting in self.waiting:
                waiting.share_partition_changed()

    def has_nothing(self) -> bool:
        """Whether a fetch would find nothing to acquire."""
        if self.stage is not ShareStage.ACTIVE:
            return self.stage is ShareStage.LOADING
        leading = self.partition.leading
        if leading is None:
            return False
        return not self.machine.has_room() or self.machine.next_fetch_offset() >= leading.log.high_watermark

    def drop(self, error: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """Serve no longer: nobody of the group is here any more, or the node stops. What has begun is still written."""
        self._end(ShareStage.FENCED, _refusal(error))

    def _end(self, stage: ShareStage, refusal: Refusal) -> None:
        if self.stage in {ShareStage.FAILED, ShareStage.FENCED}:
            return
        self.stage = stage
        self.refusal = refusal
        self.partition.unwatch(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_end(self)
        self.tell_waiting()


def _refusal(error: ErrorCode) -> Refusal:
    return Refusal(error, error.message)


def refusal_of(error: PersisterError) -> Refusal:
    """What clients are told of an error of the share coordinator."""
    code = error.code
    if code in _UNAVAILABLE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    elif code in _FENCED:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif code not in _NOT_THERE:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return Refusal(code, error.message or code.message)
