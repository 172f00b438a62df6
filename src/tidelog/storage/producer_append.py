"""The rules by which a producer's batches and markers follow each other in one log, and what an append changes.

`prepare_batch` and `prepare_marker` look at one batch and add to a `PreparedUpdate`, or name the error; nothing is changed
until the table of `producer_state` applies the update. `CLIENT` appends are checked in full; `COORDINATOR` ones (markers,
offset commits) for epochs only, since they have no sequence; `REPLICATION` ones not at all: the leader has checked them, and
so it was with a log that is read again after a crash.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

import msgspec

from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, Offset, ProducerId
from tidelog.storage.producer_snapshot import ProducerSnapshotEntry
from tidelog.storage.verification_guard import Verification
from tidelog.wire.record_batch import TRANSACTIONAL_BIT, BatchHeader

# A producer has at most five requests in flight (max.in.flight.requests.per.connection with idempotence), so that a retry is
# of one of them.
BATCHES_KEPT = 5

NO_TRANSACTION = -1
_INT32_MAX = 2**31 - 1
_PRODUCER_EPOCH_MAX = 2**15 - 1


class AppendOrigin(Enum):
    """Who appends, and so how much is checked."""

    CLIENT = auto()
    COORDINATOR = auto()
    REPLICATION = auto()


# A member that is reached through its class costs as much as a check does.
_CLIENT = AppendOrigin.CLIENT
_REPLICATION = AppendOrigin.REPLICATION


class EndTransactionMarker(NamedTuple):
    """The one record of a transaction's control batch."""

    is_commit: bool
    coordinator_epoch: int
    timestamp: int


class Duplicate(NamedTuple):
    """A batch that is in the log already: where, and with which timestamp. The producer gets this as its answer."""

    first_offset: Offset
    last_offset: Offset
    timestamp: int


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has ended. `last_offset` is the marker's."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class BatchMetadata(msgspec.Struct, frozen=True, gc=False):
    """One of a producer's last batches."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _INT32_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerState:
    """What is known of one producer. `transaction_first_offset` is NO_TRANSACTION when it has none open."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "transaction_first_offset")

    def __init__(
        self,
        producer_id: ProducerId,
        epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        transaction_first_offset: int = NO_TRANSACTION,
        batches: list[BatchMetadata] | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        self.batches = [] if batches is None else batches

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Of its last batch of records, -1 if that is not known."""
        return self.batches[-1].last_offset if self.batches else -1

    def begin_epoch(self, epoch: int) -> None:
        """Batches of another epoch can be neither duplicates nor predecessors."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

    def add_batch(self, batch: BatchMetadata) -> None:
        if self.batches and batch.first_offset <= self.batches[-1].last_offset:
            raise BugError(f"producer {self.producer_id} writes {batch}, behind its batches {self.batches}")
        if len(self.batches) == BATCHES_KEPT:
            del self.batches[0]
        self.batches.append(batch)

    def find_duplicate(self, header: BatchHeader) -> Duplicate | None:
        """The answer that was given to the same batch before, if it is one of the last five."""
        if header.producer_epoch != self.epoch:
            return None
        last_sequence = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                return Duplicate(Offset(batch.first_offset), Offset(batch.last_offset), batch.timestamp)
        return None

    def to_snapshot(self) -> ProducerSnapshotEntry:
        last = self.batches[-1] if self.batches else BatchMetadata(NO_SEQUENCE, -1, 0, self.last_timestamp)
        return ProducerSnapshotEntry(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.transaction_first_offset,
        )

    @staticmethod
    def from_snapshot(entry: ProducerSnapshotEntry) -> ProducerState:
        batches = []
        if entry.last_offset >= 0:
            batches = [BatchMetadata(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)]
        return ProducerState(
            ProducerId(entry.producer_id),
            entry.epoch,
            entry.coordinator_epoch,
            entry.timestamp,
            max(entry.transaction_first_offset, NO_TRANSACTION),
            batches,
        )


class PreparedUpdate:
    """What one append will change. It belongs to the table that prepared it, until the next append is prepared."""

    __slots__ = ("completed", "producers", "started", "transactional")

    def __init__(self) -> None:
        # By producer id: the state before, as it is in the table, and what is new since.
        self.producers: dict[int, tuple[ProducerState | None, ProducerState]] = {}
        self.started: list[tuple[Offset, ProducerId]] = []
        self.completed: list[CompletedTransaction] = []
        self.transactional: list[ProducerId] = []
        """Who wrote in a transaction, or ended one."""

    def producer(self, producer_id: int, current: ProducerState | None) -> tuple[ProducerState | None, ProducerState]:
        """The state before this append, and the one that the append has led to so far."""
        states = self.producers.get(producer_id)
        if states is None:
            if current is None:
                states = (None, ProducerState(ProducerId(producer_id)))
            else:
                # A copy to add to, without batches: what is added must be told from what was there.
                states = (
                    current,
                    ProducerState(
                        current.producer_id,
                        current.epoch,
                        current.coordinator_epoch,
                        current.last_timestamp,
                        current.transaction_first_offset,
                    ),
                )
            self.producers[producer_id] = states
        return states


def prepare_batch(
    update: PreparedUpdate,
    current: ProducerState | None,
    state: ProducerState,
    header: BatchHeader,
    base_offset: int,
    origin: AppendOrigin,
    verification: Verification | None = None,
) -> PreparedUpdate | ErrorCode:
    """Add a batch of records to the update."""
    epoch = header.producer_epoch
    if origin is not _REPLICATION and epoch < state.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if origin is _CLIENT:
        is_unknown = current is None or not current.batches
        if verification is not None and verification.forbids(header.base_sequence, is_unknown=is_unknown):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if not _continues(current, state, epoch, header.base_sequence):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    is_transactional = header.attributes & TRANSACTIONAL_BIT
    if is_transactional:
        update.transactional.append(state.producer_id)
    if state.transaction_first_offset != NO_TRANSACTION:
        if not is_transactional:
            return ErrorCode.INVALID_TXN_STATE
    elif is_transactional:
        state.transaction_first_offset = base_offset
        update.started.append((Offset(base_offset), state.producer_id))
    delta, timestamp = header.last_offset_delta, header.max_timestamp
    state.begin_epoch(epoch)
    state.add_batch(BatchMetadata(header.last_sequence, base_offset + delta, delta, timestamp))
    state.last_timestamp = timestamp
    return update


def _continues(current: ProducerState | None, state: ProducerState, epoch: int, base_sequence: int) -> bool:
    """Whether the sequence goes on, or rightly begins."""
    if epoch != state.epoch:
        return base_sequence == 0 or state.epoch == NO_PRODUCER_EPOCH
    if current is None or current.epoch == NO_PRODUCER_EPOCH:
        return True
    # Before its first batch of this append, the producer stands where the last append has left it.
    known = state if state.batches or epoch != current.epoch else current
    last_sequence = known.last_sequence
    return base_sequence == last_sequence + 1 or (base_sequence == 0 and last_sequence == _INT32_MAX)


def prepare_marker(
    update: PreparedUpdate,
    state: ProducerState,
    epoch: int,
    offset: int,
    origin: AppendOrigin,
    marker: EndTransactionMarker,
    transaction_version: int,
) -> PreparedUpdate | ErrorCode:
    """Add the end of a transaction to the update."""
    if origin is not _REPLICATION:
        if epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        # With KIP-890 each end raises the epoch, so that a delayed marker cannot end a later transaction. A marker that is
        # repeated after its transaction has ended does no harm, and at the last epoch there is nothing to raise it to.
        is_open = state.transaction_first_offset != NO_TRANSACTION
        if transaction_version >= 2 and epoch == state.epoch and is_open and epoch != _PRODUCER_EPOCH_MAX:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < state.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    if state.transaction_first_offset != NO_TRANSACTION:
        first_offset = Offset(state.transaction_first_offset)
        update.completed.append(
            CompletedTransaction(state.producer_id, first_offset, Offset(offset), is_aborted=not marker.is_commit)
        )
    update.transactional.append(state.producer_id)
    state.begin_epoch(epoch)
    state.coordinator_epoch = marker.coordinator_epoch
    state.last_timestamp = marker.timestamp
    state.transaction_first_offset = NO_TRANSACTION
    return update
