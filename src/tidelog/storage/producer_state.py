"""What a partition remembers of those who write to it: Kafka's idempotence and transactions, seen from one log.

For each producer id: its epoch, its last five batches, and the transaction that it has open here. From that follow

    duplicates      a batch that is one of the last five is not written again; its first answer is given again
    order           a batch must continue the sequence (2147483647 is followed by 0), a new epoch begins at 0; a producer
                    that is not known, because it expired or its records are gone, may begin anywhere
    fencing         an older producer epoch is refused, and so is a marker from an older transaction coordinator
    stability       nobody may read committed beyond the first offset of a transaction that is open, or that has ended
                    with a marker which the high watermark has not passed
    verification    the first records of a transaction enter with the guard that was given out when its coordinator was
                    asked about them (`verification`); the marker that ends a transaction takes the guard away

An append goes in three steps. `prepare` looks at one batch (at several, collected `into` one update) and changes nothing;
its answer is an `ErrorCode`, a `Duplicate` or a `PreparedUpdate`. The batch is written. Then `apply` takes the update in,
and each of its `completed` transactions is given to `last_stable_offset`, to the transaction index if it was aborted, and
to `complete`. A batch without a producer id needs none of it. The rules themselves are in `producer_append`.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from tidelog.kernel_choice import load
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID, Offset
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.files import Files
from tidelog.storage.producer_append import (
    BATCHES_KEPT,
    NO_TRANSACTION,
    AppendOrigin,
    BatchMetadata,
    CompletedTransaction,
    Duplicate,
    EndTransactionMarker,
    PreparedUpdate,
    ProducerState,
    prepare_batch,
    prepare_marker,
)
from tidelog.storage.producer_snapshot import (
    ProducerSnapshotEntry,
    offset_of_snapshot,
    read_snapshot,
    snapshot_name,
    write_snapshot,
)
from tidelog.storage.verification_guard import NO_GUARD, Verification
from tidelog.wire.record_batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader

if TYPE_CHECKING:
    from tidelog.storage.kernels.log_kernel import ProducersCore
else:
    ProducersCore = load("tidelog.storage.kernels", "log_kernel").ProducersCore

__all__ = [
    "BATCHES_KEPT",
    "NO_TRANSACTION",
    "AppendOrigin",
    "BatchMetadata",
    "CompletedTransaction",
    "Duplicate",
    "EndTransactionMarker",
    "PreparedUpdate",
    "ProducerState",
    "ProducerStateTable",
]

DELETED_SUFFIX = ".deleted"

_CLIENT = AppendOrigin.CLIENT

# The first transaction version in which each end raises the epoch (KIP-890).
EPOCH_BUMP_VERSION = 2

# How many sequence numbers there are; after the last comes 0.
_SEQUENCES = 2**31


class ProducerStateTable(ProducersCore):
    """The producers of one partition, and their snapshots in its directory. What every batch and read ask is in the kernel."""

    def __init__(self, files: Files, directory: str, *, producer_id_expiration_ms: int) -> None:
        """Take note of the snapshots in the directory. None is read before `truncate_and_reload`."""
        super().__init__()
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self._files = files
        self._directory = directory
        # The first offsets of `unreplicated`, smallest on top; those that are not in it any more are dropped when they surface.
        self._unreplicated_firsts: list[Offset] = []
        self._last_guard = NO_GUARD
        self._last_snapshot_offset = Offset(0)
        self._snapshots: list[Offset] = []
        self.reload_snapshots()

    def __len__(self) -> int:
        """How many producers are known."""
        return len(self._producers)

    # --- reading -----------------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self._producers and not self.unreplicated

    @property
    def first_unstable_offset(self) -> Offset | None:
        """The first offset whose outcome a reader of committed records cannot rely on yet. None if there is none."""
        first = next(iter(self.ongoing), None)
        firsts = self._unreplicated_firsts
        while firsts and firsts[0] not in self.unreplicated:
            heapq.heappop(firsts)
        if firsts and (first is None or firsts[0] < first):
            return firsts[0]
        return first

    @property
    def first_undecided_offset(self) -> Offset | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self.ongoing), None)

    @property
    def oldest_transaction_ms(self) -> int | None:
        """When the producer of the oldest open transaction was last heard of. None where none is open."""
        producer_id = next(iter(self.ongoing.values()), None)
        state = None if producer_id is None else self._producers.get(producer_id)
        return None if state is None else state.last_timestamp

    def producer(self, producer_id: int) -> ProducerState | None:
        return self._producers.get(producer_id)

    def each_producer(self) -> Iterator[ProducerState]:
        return iter(self._producers.values())

    def last_records_before(self, offset: int) -> tuple[list[int], dict[int, int]]:
        """What compaction must leave of the producers' traces before `offset`.

        The last offsets of their last batches, and of those of which no batch is known the epoch of the last marker.
        """
        data_offsets: list[int] = []
        marker_epochs: dict[int, int] = {}
        for state in self._producers.values():
            last_offset = state.last_offset
            if last_offset < 0:
                marker_epochs[state.producer_id] = state.epoch
            elif last_offset < offset:
                data_offsets.append(last_offset)
        return data_offsets, marker_epochs

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open here, in this epoch."""
        state = self._producers.get(producer_id)
        return state is not None and state.epoch == epoch and state.transaction_first_offset != NO_TRANSACTION

    # --- appending ---------------------------------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, raises_epochs: bool
    ) -> int | ErrorCode:
        """Before a transactional batch is appended: the guard with which it may be, once its coordinator knows the partition.

        NO_GUARD where the producer has a transaction open here in this epoch: there is nothing to ask. `raises_epochs`: its
        client knows that each transaction has an epoch of its own (KIP-890).
        """
        state = self._producers.get(producer_id)
        if state is not None:
            if epoch < state.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if state.transaction_first_offset != NO_TRANSACTION and state.epoch == epoch:
                return NO_GUARD
        known = self._verifications.get(producer_id)
        if known is None:
            self._last_guard += 1
            known = Verification(self._last_guard, epoch, sequence, now_ms, raises_epochs=raises_epochs)
            self._verifications[producer_id] = known
        else:
            known.note(epoch, sequence)
        return known.guard

    def prepare(
        self,
        header: BatchHeader,
        base_offset: int,
        origin: AppendOrigin,
        *,
        marker: EndTransactionMarker | None = None,
        transaction_version: int = 0,
        guard: int | None = None,
        into: PreparedUpdate | None = None,
    ) -> PreparedUpdate | Duplicate | ErrorCode:
        """Look at a batch that is about to be appended at `base_offset`; change nothing.

        `marker` is the record of a control batch; one without records (compaction took them) changes nothing. With
        `transaction_version` 2 a marker must raise the producer's epoch (KIP-890). With a `guard` a transactional batch must
        belong to a transaction that is open here, or have the guard that was given out last (`begin_verification`); without
        one nobody verifies. On an error or duplicate, `into` is void.
        """
        update = into if into is not None else PreparedUpdate()
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID or (marker is None and header.attributes & CONTROL_BIT):
            return update
        current, state = update.producer(producer_id, self._producers.get(producer_id))
        if marker is not None:
            return prepare_marker(
                update, state, header.producer_epoch, base_offset, origin, marker, transaction_version
            )
        if origin is _CLIENT and current is not None:
            duplicate = current.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        verification = self._verifications.get(producer_id) if self._verifications else None
        if guard is not None and header.attributes & TRANSACTIONAL_BIT:
            epoch = header.producer_epoch
            is_open = state.transaction_first_offset != NO_TRANSACTION and state.epoch == epoch
            is_verified = verification is not None and verification.guard == guard
            if epoch >= state.epoch and not is_open and not is_verified:
                return ErrorCode.INVALID_TXN_STATE
        return prepare_batch(update, current, state, header, base_offset, origin, verification)

    def prepare_end(
        self, producer_id: int, epoch: int, offset: int, marker: EndTransactionMarker, transaction_version: int
    ) -> PreparedUpdate | ErrorCode:
        """`prepare` for a coordinator's marker that is about to be written at `offset`."""
        update = PreparedUpdate()
        state = update.producer(producer_id, self._producers.get(producer_id))[1]
        return prepare_marker(update, state, epoch, offset, AppendOrigin.COORDINATOR, marker, transaction_version)

    def committed_by(
        self, producer_id: int, epoch: int, marker: EndTransactionMarker, transaction_version: int
    ) -> ProducerState | None:
        """The producer whose open transaction a coordinator's marker commits, as nearly all do. None: it needs a closer look."""
        state = self._producers.get(producer_id)
        if (
            state is None
            or not marker.is_commit
            or state.transaction_first_offset == NO_TRANSACTION
            or marker.coordinator_epoch < state.coordinator_epoch
            or (epoch <= state.epoch if transaction_version >= EPOCH_BUMP_VERSION else epoch < state.epoch)
        ):
            return None
        return state

    def commit(self, state: ProducerState, epoch: int, offset: int, marker: EndTransactionMarker) -> None:
        """Take in a marker that `committed_by` has found nothing against, once it is written at `offset`.

        What `apply` and `complete` do with such a marker.
        """
        first_offset = Offset(state.transaction_first_offset)
        del self.ongoing[first_offset]
        self.unreplicated[first_offset] = Offset(offset)
        heapq.heappush(self._unreplicated_firsts, first_offset)
        state.begin_epoch(epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = marker.timestamp
        state.transaction_first_offset = NO_TRANSACTION
        if self._verifications:
            self._verifications.pop(state.producer_id, None)

    def continue_transaction(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        base_offset: int,
        delta: int,
        timestamp: int,
        guard: int | None,
    ) -> bool:
        """`continue_sequence` for a batch of a transaction that is open here, or begins with it by its coordinator's leave."""
        state = self._producers.get(producer_id)
        if state is None or state.epoch != epoch:
            return False
        verification = self._verifications.get(producer_id) if self._verifications else None
        is_open = state.transaction_first_offset != NO_TRANSACTION
        if not is_open and guard is not None and (verification is None or verification.guard != guard):
            return False
        batches = state.batches
        if not batches or batches[-1].last_sequence + 1 != base_sequence:
            return False
        if verification is not None and verification.forbids(base_sequence, is_unknown=False):
            return False
        last_offset = base_offset + delta
        if last_offset - batches[0].first_offset >= _SEQUENCES or base_sequence + delta >= _SEQUENCES:
            return False
        if not is_open:
            state.transaction_first_offset = base_offset
            self.ongoing[Offset(base_offset)] = state.producer_id
        if verification is not None:
            del self._verifications[producer_id]
        state.add_batch(BatchMetadata(base_sequence + delta, last_offset, delta, timestamp))
        state.last_timestamp = timestamp
        return True

    def apply(self, update: PreparedUpdate) -> None:
        """Take in what was prepared, once it is written. `completed` transactions are still open: see `complete`."""
        for producer_id, (current, state) in update.producers.items():
            if current is None:
                self._producers[producer_id] = state
                continue
            current.begin_epoch(state.epoch)
            for batch in state.batches:
                current.add_batch(batch)
            current.coordinator_epoch = state.coordinator_epoch
            current.last_timestamp = state.last_timestamp
            current.transaction_first_offset = state.transaction_first_offset
        for first_offset, producer in update.started:
            self.ongoing[first_offset] = producer
        if self._verifications:
            # Either the transaction is open from now on, or it has ended: what was asked before counts no longer.
            for producer_id in update.transactional:
                self._verifications.pop(producer_id, None)

    def last_stable_offset(self, completed: CompletedTransaction) -> Offset:
        """What the last stable offset will be once `completed` is: for the transaction index, which is written first."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return Offset(completed.last_offset + 1)

    def complete(self, completed: CompletedTransaction) -> None:
        """Close a transaction. It stays unstable until the high watermark has passed its marker."""
        if self.ongoing.pop(completed.first_offset, None) is None:
            raise ValueError(f"{completed} was not open in {self._directory}")
        self.unreplicated[completed.first_offset] = completed.last_offset
        heapq.heappush(self._unreplicated_firsts, completed.first_offset)

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget the ended transactions whose marker everybody has."""
        unreplicated = self.unreplicated
        while unreplicated and next(iter(unreplicated.values())) < high_watermark:
            unreplicated.popitem(last=False)
        if not unreplicated:
            self._unreplicated_firsts.clear()

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Forget what lies wholly before the log's start. Producers stay: they expire by time."""
        self.on_high_watermark_updated(log_start_offset)
        self.map_end_offset = Offset(max(self.map_end_offset, log_start_offset))
        self._last_snapshot_offset = self._snapshots[-1] if self._snapshots else Offset(log_start_offset)

    def remove_expired(self, now_ms: int) -> int:
        """Forget the producers that have been silent for `producer.id.expiration.ms` and have nothing open. How many."""
        expired = [state.producer_id for state in self._producers.values() if self._is_expired(state, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        for asking, verification in tuple(self._verifications.items()):
            if now_ms - verification.begun_ms >= self.producer_id_expiration_ms:
                del self._verifications[asking]
        return len(expired)

    # --- snapshots ---------------------------------------------------------------------------------------------------------

    @property
    def snapshot_offsets(self) -> tuple[Offset, ...]:
        return tuple(self._snapshots)

    @property
    def latest_snapshot_offset(self) -> Offset | None:
        return self._snapshots[-1] if self._snapshots else None

    @property
    def oldest_snapshot_offset(self) -> Offset | None:
        return self._snapshots[0] if self._snapshots else None

    def snapshot_path(self, offset: int) -> str:
        return f"{self._directory}/{snapshot_name(offset)}"

    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Write the state at `map_end_offset`, and return the file's path. None if there is nothing new since the last."""
        if self.map_end_offset <= self._last_snapshot_offset:
            return None
        offset = self.map_end_offset
        path = self.snapshot_path(offset)
        write_snapshot(self._files, path, (state.to_snapshot() for state in self._producers.values()), sync=sync)
        if offset not in self._snapshots:
            insort(self._snapshots, offset)
        self._last_snapshot_offset = offset
        return path

    def reload_snapshots(self) -> None:
        """Look for snapshots in the directory again."""
        self._snapshots = []
        if self._files.is_dir(self._directory):
            offsets = map(offset_of_snapshot, self._files.list_directory(self._directory))
            self._snapshots = sorted(offset for offset in offsets if offset is not None)

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """Delete the snapshots that belong to no segment, except the newest one if it is beyond all: a clean stop left it."""
        self.reload_snapshots()
        last_base_offset = max(segment_base_offsets, default=None)
        stray = [offset for offset in self._snapshots if offset not in segment_base_offsets]
        if stray and (last_base_offset is None or stray[-1] >= last_base_offset):
            stray.pop()
        for offset in stray:
            self._delete_snapshot(offset)

    def delete_snapshots_before(self, offset: int) -> None:
        """Delete the snapshots below `offset`."""
        for snapshot in self._snapshots[: bisect_left(self._snapshots, offset)]:
            self._delete_snapshot(snapshot)

    def mark_snapshot_for_deletion(self, offset: int) -> str | None:
        """Forget the snapshot at `offset` and rename it to `.deleted`, for a later removal: its new path, or None."""
        if offset not in self._snapshots:
            return None
        self._snapshots.remove(Offset(offset))
        path = self.snapshot_path(offset)
        if not self._files.exists(path):
            return None
        self._files.rename(path, path + DELETED_SUFFIX)
        return path + DELETED_SUFFIX

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Go back to the newest good snapshot within the log. The caller replays the log from `map_end_offset` on.

        Nothing to do when the state already ends at `log_end_offset`. That must not be above the high watermark, so ended
        transactions need not be remembered.
        """
        for offset in tuple(self._snapshots):
            if offset > log_end_offset or offset <= log_start_offset:
                self._delete_snapshot(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._forget_all()
        while self._snapshots:
            offset = self._snapshots[-1]
            try:
                entries = read_snapshot(self._files, self.snapshot_path(offset))
            except DamagedFileError:
                self._delete_snapshot(offset)
                continue
            self._load(entries, now_ms)
            self._last_snapshot_offset = self.map_end_offset = offset
            return
        self._last_snapshot_offset = self.map_end_offset = Offset(log_start_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything and delete every snapshot."""
        self._forget_all()
        for snapshot in tuple(self._snapshots):
            self._delete_snapshot(snapshot)
        self._last_snapshot_offset = Offset(0)
        self.map_end_offset = Offset(offset)

    def relocate(self, directory: str) -> None:
        """Take note that the partition's directory was renamed."""
        self._directory = directory

    def _load(self, entries: Iterable[ProducerSnapshotEntry], now_ms: int) -> None:
        for entry in entries:
            state = ProducerState.from_snapshot(entry)
            if not self._is_expired(state, now_ms):
                self._producers[state.producer_id] = state
        opened = [state for state in self._producers.values() if state.transaction_first_offset != NO_TRANSACTION]
        for state in sorted(opened, key=lambda state: state.transaction_first_offset):
            self.ongoing[Offset(state.transaction_first_offset)] = state.producer_id

    def _is_expired(self, state: ProducerState, now_ms: int) -> bool:
        idle_ms = now_ms - state.last_timestamp
        return state.transaction_first_offset == NO_TRANSACTION and idle_ms >= self.producer_id_expiration_ms

    def _forget_all(self) -> None:
        self._producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self._unreplicated_firsts.clear()

    def _delete_snapshot(self, offset: Offset) -> None:
        self._snapshots.remove(offset)
        self._files.remove(self.snapshot_path(offset))
