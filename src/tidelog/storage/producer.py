# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True, boundscheck=True, wraparound=True
"""One producer, as a partition knows it: its epoch, its last batches, and the transaction that it has open here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.model import ids as _ids
from tidelog.model.bugs import BugError
from tidelog.model.ids import Offset, ProducerId
from tidelog.storage.producer_snapshot import ProducerSnapshotEntry

if TYPE_CHECKING:
    from tidelog.storage.checked_batches import CheckedBatch

# A producer has at most five requests in flight (max.in.flight.requests.per.connection with idempotence), so that a retry is
# of one of them.
BATCHES_KEPT = 5

NO_TRANSACTION = -1

# How many sequence numbers there are; after the last comes 0.
SEQUENCES = 2**31

_BATCHES_KEPT = BATCHES_KEPT
_NO_TRANSACTION = NO_TRANSACTION
_SEQUENCES = SEQUENCES
_SEQUENCE_MAX = SEQUENCES - 1
_NO_SEQUENCE = _ids.NO_SEQUENCE
_NO_PRODUCER_EPOCH = _ids.NO_PRODUCER_EPOCH
_NO_TIMESTAMP = _ids.NO_TIMESTAMP


class EndTransactionMarker(NamedTuple):
    """The one record of a transaction's control batch; and by which version of the protocol its coordinator ends transactions."""

    is_commit: bool
    coordinator_epoch: int
    timestamp: int
    transaction_version: int = 0


class Duplicate(NamedTuple):
    """A batch that is in the log already: where, and with which timestamp. The producer gets this as its answer."""

    first_offset: Offset
    last_offset: Offset
    timestamp: int


class BatchMetadata:
    """One of a producer's last batches."""

    __slots__ = ("last_offset", "last_sequence", "offset_delta", "timestamp")

    def __init__(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
        self.last_sequence = last_sequence
        self.last_offset = last_offset
        self.offset_delta = offset_delta
        self.timestamp = timestamp

    def __repr__(self) -> str:
        return f"BatchMetadata({self.last_sequence}, {self.last_offset}, {self.offset_delta}, {self.timestamp})"

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerState:
    """What is known of one producer. `transaction_first_offset` is NO_TRANSACTION when it has none open."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "transaction_first_offset")

    def __init__(
        self,
        producer_id: ProducerId,
        epoch: int = _NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = _NO_TIMESTAMP,
        transaction_first_offset: int = _NO_TRANSACTION,
        batches: list[BatchMetadata] | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        self.batches: list[BatchMetadata] = [] if batches is None else batches

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else _NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Of its last batch of records, -1 if that is not known."""
        return self.batches[-1].last_offset if self.batches else -1

    def find_duplicate(self, batch: CheckedBatch) -> Duplicate | None:
        """The answer that was given to the same batch before, if it is one of the last five."""
        if batch.producer_epoch != self.epoch:
            return None
        batches = self.batches
        last_sequence = _last_sequence(batch)
        for known in batches:
            if known.last_sequence == last_sequence and known.offset_delta == batch.last_offset_delta:
                return Duplicate(
                    Offset(known.last_offset - known.offset_delta), Offset(known.last_offset), known.timestamp
                )
        return None

    def continues(self, epoch: int, base_sequence: int) -> bool:
        """Whether a batch goes on with the sequence, or rightly begins one."""
        if self.epoch == _NO_PRODUCER_EPOCH:
            return True
        if epoch != self.epoch:
            return base_sequence == 0
        batches = self.batches
        kept = len(batches)
        if kept == 0:
            return base_sequence == 0
        last = batches[kept - 1]
        last_sequence = last.last_sequence
        return base_sequence == last_sequence + 1 or (base_sequence == 0 and last_sequence == _SEQUENCE_MAX)

    def begin_epoch(self, epoch: int) -> None:
        """Batches of another epoch can be neither duplicates nor predecessors."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

    def take_in(self, batch: CheckedBatch, base_offset: int) -> None:
        """A batch of records is about to be written at `base_offset`."""
        self.begin_epoch(batch.producer_epoch)
        batches = self.batches
        kept = len(batches)
        if kept > 0:
            last = batches[kept - 1]
            if base_offset <= last.last_offset:
                raise BugError(f"producer {self.producer_id} writes at {base_offset}, behind its batches {batches}")
            if kept == _BATCHES_KEPT:
                del batches[0]
        # Without arguments, which would all be put into a tuple, and taken out again by their names.
        known = BatchMetadata.__new__(BatchMetadata)
        known.last_sequence = _last_sequence(batch)
        known.last_offset = base_offset + batch.last_offset_delta
        known.offset_delta = batch.last_offset_delta
        known.timestamp = batch.max_timestamp
        batches.append(known)
        self.last_timestamp = batch.max_timestamp

    def to_snapshot(self) -> ProducerSnapshotEntry:
        last = self.batches[-1] if self.batches else BatchMetadata(_NO_SEQUENCE, -1, 0, self.last_timestamp)
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


def _last_sequence(batch: CheckedBatch) -> int:
    """The sequence number of the last record: after 2147483647 comes 0. -1 where the producer has no sequences."""
    if batch.base_sequence < 0:
        return _NO_SEQUENCE
    return (batch.base_sequence + batch.last_offset_delta) & _SEQUENCE_MAX
