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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Generic, NamedTuple, TypeVar

from tidelog.coordination.active_shard import NS_PER_MS, ActiveShard, Shard, nobody
from tidelog.coordination.coordinator_log import (
    CoordinatorPartition,
    EndedTransaction,
    LogPiece,
    UnreadableLogError,
    pieces_of,
)
from tidelog.coordination.decision import Decision
from tidelog.model.clock import Clock
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.model.slow_work import SlowWork
from tidelog.model.timers import Timers
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.storage.errors import StorageError
from tidelog.wire.compression import Compression
from tidelog.wire.internal_records import CoordinatorLog

logger = logging.getLogger(__name__)

A = TypeVar("A")
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
        self.shards: dict[int, _Loading[S] | ActiveShard | _Failed] = {}
        """By partition. To be looked at: `ActiveShard` decides, whatever else is there does not."""
        # Sessions must not end because somebody has set the clock, so that time is counted from here on.
        self.ahead_ms = seams.clock.now_ms() - seams.clock.monotonic_ms()
        self._monotonic_ns = seams.clock.monotonic_ns

    def now_ms(self) -> int:
        """The time by which shards decide: it starts as the clock's and then only moves forward."""
        return self._monotonic_ns() // NS_PER_MS + self.ahead_ms

    # --- who leads what ----------------------------------------------------------------------------------------------------

    def elected(self, index: int, partition: CoordinatorPartition, leader_epoch: int) -> None:
        """This node leads a partition of the log from this epoch on."""
        known = self.shards.get(index)
        if known is not None:
            if known.leader_epoch >= leader_epoch:
                return
            known.drop()
        loading = _Loading(self, index, partition, leader_epoch)
        self.shards[index] = loading
        loading.start()

    def resigned(self, index: int) -> None:
        """This node does not lead the partition any more, or has it no longer."""
        known = self.shards.pop(index, None)
        if known is not None:
            known.drop()

    def close(self) -> None:
        """The node stops: everybody who waits is sent elsewhere."""
        for index in list(self.shards):
            self.resigned(index)

    def loaded_from(self, loading: _Loading[S], shard: S) -> None:
        """A partition's log is read: the shard may decide."""
        active = ActiveShard(self, loading.index, loading.partition, loading.leader_epoch, shard)
        self.shards[loading.index] = active
        active.start()

    def failed_to_load(self, loading: _Loading[S]) -> None:
        """A partition's log cannot be understood: nobody may coordinate from it, least of all by half of it."""
        self.shards[loading.index] = _Failed(loading.leader_epoch)

    # --- asking the shards -------------------------------------------------------------------------------------------------

    def decide(
        self, index: int, decide: Callable[[S, int], Decision[A]], refuse: Callable[[ErrorCode], A]
    ) -> A | Pending[A]:
        """Have the shard decide something. `refuse` makes the answer where no shard is there to, or nothing can be written."""
        state = self.shards.get(index)
        if type(state) is not ActiveShard:
            return refuse(_error_of(state))
        answer: A | Pending[A] = state.carry_out(decide(state.shard, state.now_ms()), refuse)
        return answer

    def read_committed(self, index: int, read: Callable[[S], A], refuse: Callable[[ErrorCode], A]) -> A:
        """An answer at once. `read` must look at committed state only."""
        state = self.shards.get(index)
        return read(state.shard) if isinstance(state, ActiveShard) else refuse(_error_of(state))

    def read(self, index: int, read: Callable[[S], A], refuse: Callable[[ErrorCode], A]) -> A | Pending[A]:
        """An answer that may depend on uncommitted state, given once all of that is committed. The wait also shows whether this
        node still leads.
        """
        state = self.shards.get(index)
        if not isinstance(state, ActiveShard):
            return refuse(_error_of(state))
        answer: A | Pending[A] = state.answer_when_committed(read(state.shard), refuse)
        return answer

    def shard(self, index: int) -> S | ErrorCode:
        """The active shard of a partition, or the error where there is none. Whoever reads uncommitted state from it answers
        once that is committed.
        """
        state = self.shards.get(index)
        return state.shard if isinstance(state, ActiveShard) else _error_of(state)

    def active(self, index: int) -> ActiveShard | None:
        """The shard of a partition with what writes down its decisions, for whoever asks it and has the decision carried out.
        None: `refusal` says why there is none."""
        state = self.shards.get(index)
        return state if type(state) is ActiveShard else None

    def refusal(self, index: int) -> ErrorCode:
        """What is answered for a partition that has no active shard."""
        return _error_of(self.shards.get(index))

    def end_transaction(self, index: int, marker: CheckedBatch) -> ErrorCode | Pending[ErrorCode]:
        """Write the marker of a transaction that committed something here, and have the shard follow. NONE when it is committed.

        NOT_LEADER_OR_FOLLOWER where no shard is there to, or none yet: the same may be asked again.
        """
        state = self.shards.get(index)
        if not isinstance(state, ActiveShard):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return state.end_transaction(marker)

    def leader_epoch(self, index: int) -> int | None:
        """The epoch that the active shard of a partition was elected in; None where there is none."""
        state = self.shards.get(index)
        return state.leader_epoch if isinstance(state, ActiveShard) else None

    def active_shards(self) -> Iterator[S]:
        for state in self.shards.values():
            if isinstance(state, ActiveShard):
                yield state.shard

    @property
    def active_indexes(self) -> list[int]:
        """The partitions whose shards decide."""
        return [index for index, state in self.shards.items() if isinstance(state, ActiveShard)]

    @property
    def is_loading(self) -> bool:
        return any(isinstance(state, _Loading) for state in self.shards.values())

    def decide_everywhere(self, decide: Callable[[S, int], Decision[None]]) -> None:
        """Have every active shard decide something that nobody waits for."""
        for index in self.active_indexes:
            self.decide(index, decide, nobody)


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


def _error_of(state: object) -> ErrorCode:
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if isinstance(state, _Loading) else ErrorCode.NOT_COORDINATOR
