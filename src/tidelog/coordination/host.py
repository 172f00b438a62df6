"""Runs the shards of a coordinator: one for each partition of its log that this node leads.

    from \\ event    elected              read to the end     resigned, or a newer epoch     cannot be read
    (nothing)        Loading              -                   -                              -
    Loading          Loading, if newer    Active              (nothing)                      Failed
    Active           Loading, if newer    -                   (nothing)                      -
    Failed           Loading, if newer    -                   (nothing)                      -

A request is decided by an active shard at once, on the caller's stack. Its records are appended, all or none, replayed, and the
answer leaves when they are committed. Nobody is told of what may yet be lost: a reader gets what committed records say, at
once (`read_committed`), or waits in the same way for everything that was decided before (`read`). Nothing is ever undone: a
refused append changes nothing, and an append that is not committed means that another node leads, which drops the shard as a
whole.

Loading reads the log in pieces, so that a long one does not keep the node from its other work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tidelog.coordination.coordinator_log import (
    CoordinatorPartition,
    EndedTransaction,
    LogPiece,
    UnreadableLogError,
    pieces_of,
)
from tidelog.coordination.deadlines import Deadlines
from tidelog.coordination.decision import Decision, Records, TransactionalProducer
from tidelog.model.bugs import BugError
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID, ProducerId
from tidelog.model.pending import Pending
from tidelog.model.slow_work import SlowWork
from tidelog.model.timers import Timer, Timers
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.storage.checked_batches import CheckedBatch, built_batch
from tidelog.storage.errors import StorageError
from tidelog.wire.compression import Compression
from tidelog.wire.internal_records import (
    CoordinatorLog,
    CoordinatorRecord,
    encode_coordinator_key,
    encode_coordinator_value,
)
from tidelog.wire.record_batch import TimestampType
from tidelog.wire.records import Record, build_batch

logger = logging.getLogger(__name__)

A = TypeVar("A")

# An enum member as a module constant, since every decision needs it: see docs/style.md.
_NONE = ErrorCode.NONE

# How long an action that fell due and could not be written down waits for its next attempt, as in Kafka.
RETRY_MS = 500

NS_PER_MS = 1_000_000

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


S = TypeVar("S", bound=Shard)


class HostSeams(NamedTuple):
    """What a host reaches outside through."""

    clock: Clock
    timers: Timers
    slow_work: SlowWork
    turn: AbstractContextManager[None]
    """Opened around what a timer or a commit completes, so that each connection writes once."""


class CoordinatorHost(Generic[S]):
    """All shards of one kind of coordinator on a node. `new_shard` makes an empty one of a partition in a leader's epoch."""

    def __init__(
        self,
        log: CoordinatorLog,
        new_shard: Callable[[int, int, CoordinatorPartition], S],
        seams: HostSeams,
        *,
        required_acks: int,
        commit_timeout_ms: int,
        load_buffer_bytes: int,
        codec: Compression = Compression.NONE,
    ) -> None:
        """With `required_acks` of -1 nothing is written while fewer than `min.insync.replicas` are in sync. Otherwise it is, and
        waits with its answer until there are enough."""
        self.log = log
        self.required_acks = required_acks
        self.commit_timeout_ms = commit_timeout_ms
        self.load_buffer_bytes = load_buffer_bytes
        self.codec = codec
        self.seams = seams
        self.new_shard = new_shard
        self._shards: dict[int, _Loading[S] | ActiveShard[S] | _Failed] = {}
        # Sessions must not end because somebody has set the clock, so that time is counted from here on.
        self._ahead_ms = seams.clock.now_ms() - seams.clock.monotonic_ms()
        self._monotonic_ns = seams.clock.monotonic_ns

    def now_ms(self) -> int:
        """The time by which shards decide: it starts as the clock's and then only moves forward."""
        return self._monotonic_ns() // NS_PER_MS + self._ahead_ms

    # --- who leads what ----------------------------------------------------------------------------------------------------

    def elected(self, index: int, partition: CoordinatorPartition, leader_epoch: int) -> None:
        """This node leads a partition of the log from this epoch on."""
        known = self._shards.get(index)
        if known is not None:
            if known.leader_epoch >= leader_epoch:
                return
            known.drop()
        loading = _Loading(self, index, partition, leader_epoch)
        self._shards[index] = loading
        loading.start()

    def resigned(self, index: int) -> None:
        """This node does not lead the partition any more, or has it no longer."""
        known = self._shards.pop(index, None)
        if known is not None:
            known.drop()

    def close(self) -> None:
        """The node stops: everybody who waits is sent elsewhere."""
        for index in list(self._shards):
            self.resigned(index)

    def loaded_from(self, loading: _Loading[S], shard: S) -> None:
        """A partition's log is read: the shard may decide."""
        active = ActiveShard(self, loading.index, loading.partition, loading.leader_epoch, shard)
        self._shards[loading.index] = active
        active.start()

    def failed_to_load(self, loading: _Loading[S]) -> None:
        """A partition's log cannot be understood: nobody may coordinate from it, least of all by half of it."""
        self._shards[loading.index] = _Failed(loading.leader_epoch)

    # --- asking the shards -------------------------------------------------------------------------------------------------

    def decide(
        self, index: int, decide: Callable[[S, int], Decision[A]], refuse: Callable[[ErrorCode], A]
    ) -> A | Pending[A]:
        """Have the shard decide something. `refuse` makes the answer where no shard is there to, or nothing can be written."""
        state = self._shards.get(index)
        if type(state) is not ActiveShard:
            return refuse(_error_of(state))
        now_ms = self._monotonic_ns() // NS_PER_MS + self._ahead_ms
        return state.carry_out(decide(state.shard, now_ms), refuse)

    def read_committed(self, index: int, read: Callable[[S], A], refuse: Callable[[ErrorCode], A]) -> A:
        """An answer at once. `read` must look at committed state only."""
        state = self._shards.get(index)
        return read(state.shard) if isinstance(state, ActiveShard) else refuse(_error_of(state))

    def read(self, index: int, read: Callable[[S], A], refuse: Callable[[ErrorCode], A]) -> A | Pending[A]:
        """An answer that may depend on uncommitted state, given once all of that is committed. The wait also shows whether this
        node still leads.
        """
        state = self._shards.get(index)
        if not isinstance(state, ActiveShard):
            return refuse(_error_of(state))
        return state.answer_when_committed(read(state.shard), refuse)

    def shard(self, index: int) -> S | ErrorCode:
        """The active shard of a partition, or the error where there is none. Whoever reads uncommitted state from it answers
        once that is committed.
        """
        state = self._shards.get(index)
        return state.shard if isinstance(state, ActiveShard) else _error_of(state)

    def active(self, index: int) -> ActiveShard[S] | None:
        """The shard of a partition with what writes down its decisions, for whoever has decided and has it carried out."""
        state = self._shards.get(index)
        return state if type(state) is ActiveShard else None

    def end_transaction(self, index: int, marker: CheckedBatch) -> ErrorCode | Pending[ErrorCode]:
        """Write the marker of a transaction that committed something here, and have the shard follow. NONE when it is committed.

        NOT_LEADER_OR_FOLLOWER where no shard is there to, or none yet: the same may be asked again.
        """
        state = self._shards.get(index)
        if not isinstance(state, ActiveShard):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return state.end_transaction(marker)

    def leader_epoch(self, index: int) -> int | None:
        """The epoch that the active shard of a partition was elected in; None where there is none."""
        state = self._shards.get(index)
        return state.leader_epoch if isinstance(state, ActiveShard) else None

    def active_shards(self) -> Iterator[S]:
        for state in self._shards.values():
            if isinstance(state, ActiveShard):
                yield state.shard

    @property
    def active_indexes(self) -> list[int]:
        """The partitions whose shards decide."""
        return [index for index, state in self._shards.items() if isinstance(state, ActiveShard)]

    @property
    def is_loading(self) -> bool:
        return any(isinstance(state, _Loading) for state in self._shards.values())

    def decide_everywhere(self, decide: Callable[[S, int], Decision[None]]) -> None:
        """Have every active shard decide something that nobody waits for."""
        for index in self.active_indexes:
            self.decide(index, decide, _nobody)


class _Failed:
    __slots__ = ("leader_epoch",)

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch

    def drop(self) -> None: ...


class _Loading(Generic[S]):
    """Reads a partition's log into a shard, one piece after another."""

    __slots__ = ("_host", "_is_dropped", "_offset", "_shard", "index", "leader_epoch", "partition")

    def __init__(
        self, host: CoordinatorHost[S], index: int, partition: CoordinatorPartition, leader_epoch: int
    ) -> None:
        self.index = index
        self.partition = partition
        self.leader_epoch = leader_epoch
        self._host = host
        self._shard = host.new_shard(index, leader_epoch, partition)
        self._offset = -1
        self._is_dropped = False

    def start(self) -> None:
        log = self.partition.log
        self._offset = -1 if log is None else log.log_start_offset
        if log is not None and self._offset == log.log_end_offset:
            self._host.loaded_from(self, self._shard)
        else:
            self._read_on()

    def drop(self) -> None:
        self._is_dropped = True

    def _read_on(self) -> None:
        try:
            read = pieces_of(self.partition, self._offset, self._host.load_buffer_bytes)
        except (StorageError, UnreadableLogError) as error:
            self._fail(str(error))
            return
        self._host.seams.slow_work.submit(read, self._arrived)

    def _arrived(self, piece: LogPiece | BaseException) -> None:
        if self._is_dropped:
            return
        if isinstance(piece, BaseException):
            self._fail(str(piece))
            return
        now_ms = self._host.now_ms()
        try:
            for entry in piece.entries(self._host.log):
                if isinstance(entry, EndedTransaction):
                    self._shard.end_transaction(entry.producer_id, entry.offset, is_committed=entry.is_committed)
                else:
                    self._shard.replay(entry.record, entry.offset, entry.producer_id, now_ms)
        except UnreadableLogError as error:
            self._fail(str(error))
            return
        except Exception as error:
            # As in Kafka, the partition has no coordinator then. To stop the node would stop the one that leads next, too.
            logger.exception("a record of %s cannot be taken in", self._host.log)
            self._fail(repr(error))
            return
        self._offset = piece.next_offset
        if piece.is_last:
            with self._host.seams.turn:
                self._host.loaded_from(self, self._shard)
        else:
            self._host.seams.timers.after(0, self._read_on_unless_dropped)

    def _read_on_unless_dropped(self) -> None:
        if not self._is_dropped:
            self._read_on()

    def _fail(self, reason: str) -> None:
        logger.error("partition %d of %s cannot be loaded: %s", self.index, self._host.log, reason)
        self._host.failed_to_load(self)


class ActiveShard(Generic[S]):
    """A shard that decides, and its partition of the log."""

    __slots__ = (
        "_host",
        "_is_plain",
        "_looked_at",
        "_partition",
        "_required_acks",
        "_timer",
        "_timer_ms",
        "index",
        "is_dropped",
        "leader_epoch",
        "now_ms",
        "shard",
    )

    def __init__(
        self, host: CoordinatorHost[S], index: int, partition: CoordinatorPartition, leader_epoch: int, shard: S
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
        self.now_ms = host.now_ms
        """The time by which the shard decides."""

    def start(self) -> None:
        for decision in self.shard.loaded(self._host.now_ms()):
            if decision.records:
                self.carry_out(decision, _nobody)
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
                self._settle(decision, ErrorCode.NONE if is_there else _coordinator_error(error), _nobody)

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
                    decision.settled(ErrorCode.NONE)
                return decision.answer
            appended = self._append(decision)
            if isinstance(appended, ErrorCode):
                return self._not_written(decision, appended, refuse)
            if not appended:
                return self._answer_committed(decision, refuse)
            return decision.answer if decision.settled is None else self._settle(decision, _NONE, refuse)
        finally:
            # Nearly no decision moves the first deadline.
            if self._timer is None or self.shard.deadlines.number != self._looked_at:
                self._set_timer()

    def _append(self, decision: Decision[Any]) -> bool | ErrorCode:
        """Append the decision's records, and have the shard take them in. Whether they are committed already, or why they are not
        written."""
        timestamp_ms = self._host.seams.clock.now_ms()
        records, producer = decision.records, decision.producer
        batch = None
        if decision.batch is not None and self._is_plain:
            batch = decision.batch(timestamp_ms)
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
        first_offset = self._written(built, AppendRule.COORDINATOR)
        if isinstance(first_offset, ErrorCode):
            return first_offset
        is_committed = self._is_committed(first_offset + count)
        try:
            if decision.take_in is not None:
                decision.take_in(first_offset, is_committed)
            elif decision.replays:
                now_ms = self._host.now_ms()
                producer_id = NO_PRODUCER_ID if producer is None else ProducerId(producer.producer_id)
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

    def _is_committed(self, end_offset: int) -> bool:
        log = self._partition.log
        return log is not None and log.high_watermark >= end_offset

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
        deadlines = self.shard.deadlines
        if self._timer is not None and deadlines.number == self._looked_at:
            return
        next_ms = deadlines.next_ms
        self._looked_at = deadlines.number
        if next_ms is None or self.is_dropped or (self._timer is not None and self._timer_ms <= next_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = next_ms
        self._timer = self._host.seams.timers.after(max(0, next_ms - self._host.now_ms()), self._due)

    def _due(self) -> None:
        self._timer = None
        now_ms = self._host.now_ms()
        deadlines = self.shard.deadlines
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


def _nobody(_error: ErrorCode) -> None:
    """Nobody waits for an answer; the log has the reason."""


def _pass_on(given: A | Pending[A], to: Pending[A]) -> None:
    if isinstance(given, Pending):
        given.then(to.complete)
    else:
        to.complete(given)


def _error_of(state: object) -> ErrorCode:
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if isinstance(state, _Loading) else ErrorCode.NOT_COORDINATOR


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
