# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""A shard that decides, and its partition of the log: decisions are written down, taken in, and answered once they are committed.

    active.carry_out(active.shard.heartbeat(request, active.now_ms()), refuse)

See `host` for who has which shards.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tidelog import plain_cython
from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID
from tidelog.model.pending import Pending
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.wire.compression import Compression
from tidelog.wire.internal_records import encode_coordinator_key, encode_coordinator_value
from tidelog.wire.record_batch import TimestampType
from tidelog.wire.records import Record, build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import cython

    from tidelog.coordination.coordinator_log import CoordinatorPartition
    from tidelog.coordination.deadlines import Deadlines
    from tidelog.coordination.decision import Decision, Records, TransactionalProducer
    from tidelog.coordination.host import CoordinatorHost
    from tidelog.model.timers import Timer
    from tidelog.storage.checked_batches import CheckedBatch
    from tidelog.wire.internal_records import CoordinatorRecord
else:
    cython = plain_cython

if cython.compiled:
    from cython.cimports.tidelog.storage.checked_batches import built_batch
else:
    from tidelog.storage.checked_batches import built_batch

logger = logging.getLogger(__name__)

A = TypeVar("A")

# Enum members as module constants, since every decision needs them: see docs/style.md.
_NONE = ErrorCode.NONE
_BY_COORDINATOR = AppendRule.COORDINATOR

# How long an action that fell due and could not be written down waits for its next attempt, as in Kafka.
RETRY_MS = 500

NS_PER_MS = 1_000_000
# The same for this module alone: what C knows by its type, Python does not see.
_NS_PER_MS = NS_PER_MS

# The `required_acks` of what is not to be written while too few replicas are in sync.
_ALL_IN_SYNC = -1


class Shard(Protocol):
    """The state of one partition of a coordinator's log, and what is decided from it."""

    @property
    def deadlines(self) -> Deadlines: ...

    def replay(self, record: CoordinatorRecord, offset: int, producer_id: int, now_ms: int) -> None:
        """Take in one record. With a producer id it belongs to a transaction that is open still."""
        ...

    def end_transaction(self, producer_id: int, offset: int, *, is_committed: bool) -> None:
        """A transaction of this producer has ended, with the marker at this offset."""
        ...

    def loaded(self, now_ms: int) -> Iterable[Decision[Any]]:
        """The log is read to its end: begin to act. Returns what that brings about."""
        ...

    def unload(self) -> None:
        """Another node leads: whoever waits is told NOT_COORDINATOR."""
        ...


class ActiveShard:
    """A shard that decides, and its partition of the log."""

    __slots__ = (
        "_ahead_ms",
        "_clock_ms",
        "_deadlines",
        "_host",
        "_is_plain",
        "_looked_at",
        "_monotonic_ns",
        "_partition",
        "_required_acks",
        "_timer",
        "_timer_ms",
        "index",
        "is_dropped",
        "leader_epoch",
        "shard",
    )

    def __init__(
        self, host: CoordinatorHost[Any], index: int, partition: CoordinatorPartition, leader_epoch: int, shard: Any
    ) -> None:
        self.index = index
        self.leader_epoch = leader_epoch
        self.shard = shard
        self.is_dropped = False
        self._host = host
        self._partition = partition
        self._required_acks = host.required_acks
        self._is_plain = host.codec is Compression.NONE
        self._timer: Timer | None = None
        self._timer_ms = 0
        # `Deadlines.number` when the timer was set.
        self._looked_at = -1
        self._deadlines: Deadlines = shard.deadlines
        self._clock_ms = host.seams.clock.now_ms
        self._monotonic_ns = host.seams.clock.monotonic_ns
        self._ahead_ms = host.ahead_ms

    def now_ms(self) -> int:
        """The time by which the shard decides."""
        now_ns: int = self._monotonic_ns()
        return now_ns // _NS_PER_MS + self._ahead_ms

    def start(self) -> None:
        for decision in self.shard.loaded(self.now_ms()):
            if decision.records:
                self.carry_out(decision, nobody)
            else:
                self._settle_when_committed(decision)
        self._set_timer()

    def _settle_when_committed(self, decision: Decision[Any]) -> None:
        """What was read may be more than is committed, and nothing is done outside by what may yet be lost. That may take
        as long as this node leads."""
        log = self._partition.log
        committed = ErrorCode.NOT_COORDINATOR if log is None else self._partition.when_committed(log.log_end_offset)

        def settle(error: ErrorCode) -> None:
            # Too few replicas are in sync by now, but those that were have it.
            is_there = error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            with self._host.seams.turn:
                self._settle(decision, ErrorCode.NONE if is_there else _coordinator_error(error), nobody)

        if isinstance(committed, Pending):
            committed.then(settle)
        else:
            settle(committed)

    def drop(self) -> None:
        self.is_dropped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.shard.unload()

    # Decisions

    def carry_out(self, decision: Decision[A], refuse: Callable[[ErrorCode], A]) -> A | Pending[A]:
        """Write down what was decided; the answer, or when it comes."""
        try:
            if not decision.records:
                if decision.settled is not None:
                    decision.settled(_NONE)
                return decision.answer
            appended = self._append(decision)
            if type(appended) is ErrorCode:
                return self._not_written(decision, appended, refuse)
            if not appended:
                return self._answer_committed(decision, refuse)
            return decision.answer if decision.settled is None else self._settle(decision, _NONE, refuse)
        finally:
            # Nearly no decision moves the first deadline.
            if self._timer is None or self._deadlines.number != self._looked_at:
                self._set_timer()

    def _append(self, decision: Decision[Any]) -> bool | ErrorCode:
        """Append the decision's records, and have the shard take them in. Whether they are committed already, or why they are not
        written."""
        timestamp_ms = self._clock_ms()
        records, producer = decision.records, decision.producer
        batch = None
        if decision.packed is not None and self._is_plain:
            batch = decision.packed.to_batch(timestamp_ms)
        if batch is None:
            batch = self._batch_of(records, timestamp_ms, producer)
        if len(batch) > self._partition.message_bytes_max:
            return ErrorCode.MESSAGE_TOO_LARGE
        count = len(records)
        if producer is None:
            built = built_batch(batch, count, timestamp_ms)
        else:
            epoch = producer.producer_epoch
            built = built_batch(batch, count, timestamp_ms, producer.producer_id, epoch, producer.guard)
        written = self._written(built, _BY_COORDINATOR)
        if type(written) is ErrorCode:
            return written
        first_offset: int = written
        log = self._partition.log
        is_committed = log is not None and log.high_watermark >= first_offset + count
        try:
            if decision.taken_in_by is not None:
                decision.taken_in_by.take_in(records, first_offset, is_committed)
            elif decision.replays:
                now_ms = self.now_ms()
                producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
                for position, each in enumerate(records):
                    self.shard.replay(each, first_offset + position, producer_id, now_ms)
        except Exception as error:
            raise BugError(self._broke_off("taking in what was written")) from error
        return is_committed

    def _written(self, batch: CheckedBatch, rule: AppendRule) -> int | ErrorCode:
        """Where in the log a batch is now, or why it is not."""
        outcome = self._partition.append([batch], rule, self._required_acks)[0]
        if type(outcome) is int:
            return outcome
        return outcome.error if isinstance(outcome, AppendRefused) else outcome.first_offset  # type: ignore[union-attr]

    def _batch_of(self, records: Records, timestamp_ms: int, producer: TransactionalProducer | None) -> bytearray:
        rows = [
            Record(
                position,
                timestamp_ms,
                encode_coordinator_key(each.key),
                None if each.value is None else encode_coordinator_value(each.value, each.version),
                (),
            )
            for position, each in enumerate(records)
        ]
        codec = self._host.codec
        if producer is None:
            return bytearray(build_batch(rows, codec=codec, timestamp_type=TimestampType.CREATE_TIME))
        return bytearray(
            build_batch(
                rows,
                codec=codec,
                timestamp_type=TimestampType.CREATE_TIME,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                is_transactional=True,
            )
        )

    def end_transaction(self, marker: CheckedBatch) -> ErrorCode | Pending[ErrorCode]:
        """Append a transaction's marker; the shard follows at once, the answer when it is committed."""
        end = marker.marker
        assert end is not None
        offset = self._written(marker, AppendRule.MARKER)
        if isinstance(offset, ErrorCode):
            return offset
        try:
            self.shard.end_transaction(marker.producer_id, offset, is_committed=end.is_commit)
        except Exception as error:
            raise BugError(self._broke_off("the end of a transaction")) from error
        self._set_timer()
        return self._partition.when_committed(offset + 1)

    @property
    def commits_at_once(self) -> bool:
        """Whether what is appended now has nobody to wait for."""
        return self._partition.commits_at_once

    def _not_written(self, decision: Decision[A], error: ErrorCode, refuse: Callable[[ErrorCode], A]) -> A | Pending[A]:
        logger.warning("partition %d of %s: a decision is not written: %s", self.index, self._host.log, error.message)
        told = _coordinator_error(error)
        if decision.settled is not None:
            decision.settled(told)
        answer = decision.answer
        if isinstance(answer, Pending) and answer.is_complete:
            return answer
        return refuse(told)

    def _answer_committed(self, decision: Decision[A], refuse: Callable[[ErrorCode], A]) -> A | Pending[A]:
        log = self._partition.log
        committed = ErrorCode.NOT_COORDINATOR if log is None else self._partition.when_committed(log.log_end_offset)
        if not isinstance(committed, Pending):
            return self._settle(decision, self._outcome(committed), refuse)
        answer: Pending[A] = Pending()
        self._after(committed, lambda error: _pass_on(self._settle(decision, error, refuse), answer))
        return answer

    def _settle(self, decision: Decision[A], error: ErrorCode, refuse: Callable[[ErrorCode], A]) -> A | Pending[A]:
        if decision.settled is not None:
            try:
                decision.settled(error)
            except Exception as bug:
                raise BugError(self._broke_off("what follows from a decision")) from bug
        return decision.answer if error is ErrorCode.NONE else refuse(error)

    def _broke_off(self, what: str) -> str:
        return f"{what} broke off, in partition {self.index} of {self._host.log}"

    def answer_when_committed(self, found: A, refuse: Callable[[ErrorCode], A]) -> A | Pending[A]:
        """`found`, once everything that was appended so far is committed."""
        log = self._partition.log
        committed = ErrorCode.NOT_COORDINATOR if log is None else self._partition.when_committed(log.log_end_offset)
        if not isinstance(committed, Pending):
            error = self._outcome(committed)
            return found if error is ErrorCode.NONE else refuse(error)
        answer: Pending[A] = Pending()
        self._after(committed, lambda error: answer.complete(found if error is ErrorCode.NONE else refuse(error)))
        return answer

    def _after(self, committed: Pending[ErrorCode], then: Callable[[ErrorCode], object]) -> None:
        """`then` with the outcome of a commit, or with the news that it took too long."""
        outcome: Pending[ErrorCode] = Pending()

        def took_too_long() -> None:
            outcome.complete(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        timer = self._host.seams.timers.after(self._host.commit_timeout_ms, took_too_long)

        def settled(error: ErrorCode) -> None:
            timer.cancel()
            with self._host.seams.turn:
                then(error)

        outcome.then(settled)
        committed.then(lambda error: outcome.complete(self._outcome(error)))

    def _outcome(self, error: ErrorCode) -> ErrorCode:
        """The outcome of a wait for a commit as an error that a coordinator's client expects."""
        if error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND and self._required_acks != _ALL_IN_SYNC:
            # It is committed. That too few replicas are in sync by now concerns the next write.
            return _NONE
        return _coordinator_error(error)

    # Deadlines

    def _set_timer(self) -> None:
        """One timer, for the first deadline. It is set anew only if that is earlier than before: most deadlines move back."""
        deadlines = self._deadlines
        if self._timer is not None and deadlines.number == self._looked_at:
            return
        next_ms = deadlines.next_ms
        self._looked_at = deadlines.number
        if next_ms is None or self.is_dropped or (self._timer is not None and self._timer_ms <= next_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = next_ms
        self._timer = self._host.seams.timers.after(max(0, next_ms - self.now_ms()), self._due)

    def _due(self) -> None:
        self._timer = None
        now_ms = self.now_ms()
        deadlines = self._deadlines
        with self._host.seams.turn:
            while not self.is_dropped and (due := deadlines.take_due(now_ms)) is not None:
                key, action = due
                decision = action(now_ms)
                if decision is None:
                    continue
                refused = self.carry_out(decision, _refused)
                if refused is _REFUSED and key not in deadlines:
                    deadlines.set(key, now_ms + RETRY_MS, action)
        self._set_timer()


class _Refused:
    """The answer to a deadline whose decision could not be written."""


_REFUSED = _Refused()


def _refused(_error: ErrorCode) -> _Refused:
    return _REFUSED


def nobody(_error: ErrorCode) -> None:
    """Nobody waits for an answer; the log has the reason."""


def _pass_on(given: A | Pending[A], to: Pending[A]) -> None:
    if isinstance(given, Pending):
        given.then(to.complete)
    else:
        to.complete(given)


_AS_A_COORDINATOR_SAYS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def _coordinator_error(error: ErrorCode) -> ErrorCode:
    """An error of the log as one that a coordinator's client knows how to handle."""
    return _AS_A_COORDINATOR_SAYS.get(error, error)
