# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True, boundscheck=True, wraparound=True
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

An append goes in two steps. `judge` looks at one batch and changes nothing; its answer is an `ErrorCode`, a `Duplicate`, or the
`ProducerState` that `take_in` then changes, before the batch is written: should the write fail, the log goes offline, and its
state is read anew from what is on disk. A batch without a producer id needs none of it.

How much is judged depends on whose batch it is (`AppendRule`): a client's (LEADER) in full; a coordinator's (COORDINATOR, MARKER)
by its epochs, since it has no sequence; what a leader has sent (FOLLOWER) not at all, and so it is with a log that is read again.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidelog.model import ids as _ids
from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, ProducerId
from tidelog.storage import producer as _producer
from tidelog.storage.append import AppendRule
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.files import Files
from tidelog.storage.producer import Duplicate, ProducerState
from tidelog.storage.producer_snapshot import ProducerSnapshotEntry
from tidelog.storage.producer_snapshots import ProducerSnapshots
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.storage.verification_guard import NO_GUARD, Verification
from tidelog.wire import record_batch as _record_batch

if TYPE_CHECKING:
    from tidelog.storage.checked_batches import CheckedBatch

# The first transaction version in which each end raises the epoch (KIP-890).
EPOCH_BUMP_VERSION = 2

_NO_TRANSACTION = _producer.NO_TRANSACTION
_NO_PRODUCER_EPOCH = _ids.NO_PRODUCER_EPOCH
_PRODUCER_EPOCH_MAX = 2**15 - 1
_TRANSACTIONAL_BIT = _record_batch.TRANSACTIONAL_BIT
_CONTROL_BIT = _record_batch.CONTROL_BIT

_LEADER = AppendRule.LEADER
_FOLLOWER = AppendRule.FOLLOWER
_INVALID_PRODUCER_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH


class ProducerStateTable:
    """The producers of one partition, and their snapshots in its directory."""

    __slots__ = (
        "_directory",
        "_last_guard",
        "_last_snapshot_offset",
        "_producers",
        "_unreplicated_firsts",
        "_verifications",
        "map_end_offset",
        "ongoing",
        "producer_id_expiration_ms",
        "snapshots",
        "unreplicated",
    )

    def __init__(self, files: Files, directory: str, *, producer_id_expiration_ms: int) -> None:
        """Take note of the snapshots in the directory. None is read before `truncate_and_reload`."""
        self._producers: dict[int, ProducerState] = {}
        # Producer id -> what is asked about the transaction that its next records are to begin.
        self._verifications: dict[int, Verification] = {}
        self.ongoing: OrderedDict[Offset, ProducerId] = OrderedDict()
        """First offset of each open transaction -> who has it open. In order of offset, since offsets only grow."""
        self.unreplicated: OrderedDict[Offset, Offset] = OrderedDict()
        """First offset of each transaction that has ended above the high watermark -> its marker. In order of markers."""
        self.map_end_offset = Offset(0)
        """The offset after the last one that the state covers. Whoever appends moves it."""
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self._directory = directory
        # The first offsets of `unreplicated`, smallest on top; those that are not in it any more are dropped when they surface.
        self._unreplicated_firsts: list[Offset] = []
        self._last_guard = NO_GUARD
        self._last_snapshot_offset = Offset(0)
        self.snapshots = ProducerSnapshots(files, directory)

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
        return state is not None and state.epoch == epoch and state.transaction_first_offset != _NO_TRANSACTION

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
            if state.transaction_first_offset != _NO_TRANSACTION and state.epoch == epoch:
                return NO_GUARD
        known = self._verifications.get(producer_id)
        if known is None:
            self._last_guard += 1
            known = Verification(self._last_guard, epoch, sequence, now_ms, raises_epochs=raises_epochs)
            self._verifications[producer_id] = known
        else:
            known.note(epoch, sequence)
        return known.guard

    def judge(self, batch: CheckedBatch, rule: AppendRule) -> ProducerState | Duplicate | ErrorCode:
        """Look at a batch of a producer that is about to be appended; change nothing.

        Of a control batch `marker` must be known. With a `guard` a transactional batch must belong to a transaction that is open
        here, or have the guard that was given out last (`begin_verification`); without one nobody verifies.
        """
        state = self._producers.get(batch.producer_id)
        if state is None:
            state = ProducerState(ProducerId(batch.producer_id))
        if rule is _FOLLOWER:
            return self._judge_transaction(state, batch)
        epoch = batch.producer_epoch
        if batch.attributes & _CONTROL_BIT:
            return self._judge_marker(state, batch)
        if rule is _LEADER:
            duplicate = state.find_duplicate(batch)
            if duplicate is not None:
                return duplicate
        verification = self._verifications.get(batch.producer_id) if self._verifications else None
        if batch.guard is not None and batch.attributes & _TRANSACTIONAL_BIT and epoch >= state.epoch:
            is_open = state.transaction_first_offset != _NO_TRANSACTION and state.epoch == epoch
            if not is_open and (verification is None or verification.guard != batch.guard):
                return ErrorCode.INVALID_TXN_STATE
        if epoch < state.epoch:
            return _INVALID_PRODUCER_EPOCH
        if rule is _LEADER:
            if verification is not None and verification.forbids(batch.base_sequence, is_unknown=not state.batches):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if not state.continues(epoch, batch.base_sequence):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return self._judge_transaction(state, batch)

    def _judge_transaction(self, state: ProducerState, batch: CheckedBatch) -> ProducerState | ErrorCode:
        """Within a transaction nothing is written that is neither a part of it nor its end."""
        is_open = state.transaction_first_offset != _NO_TRANSACTION
        if is_open and not batch.attributes & (_TRANSACTIONAL_BIT | _CONTROL_BIT):
            return ErrorCode.INVALID_TXN_STATE
        return state

    def _judge_marker(self, state: ProducerState, batch: CheckedBatch) -> ProducerState | ErrorCode:
        marker = batch.marker
        assert marker is not None
        epoch = batch.producer_epoch
        if epoch < state.epoch:
            return _INVALID_PRODUCER_EPOCH
        # With KIP-890 each end raises the epoch, so that a delayed marker cannot end a later transaction. A marker that is
        # repeated after its transaction has ended does no harm, and at the last epoch there is nothing to raise it to.
        is_open = state.transaction_first_offset != _NO_TRANSACTION
        raises_epochs = marker.transaction_version >= EPOCH_BUMP_VERSION
        if raises_epochs and epoch == state.epoch and is_open and epoch != _PRODUCER_EPOCH_MAX:
            return _INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < state.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return state

    def take_in(self, state: ProducerState, batch: CheckedBatch, offset: int) -> AbortedTransaction | None:
        """A batch for which `judge` has found this state is about to be written at `offset`.

        The transaction that it aborts, if it does: for the transaction index of the segment that has the marker.
        """
        producer_id = batch.producer_id
        if state.epoch == _NO_PRODUCER_EPOCH:
            self._producers[producer_id] = state
        attributes = batch.attributes
        if attributes & _TRANSACTIONAL_BIT and self._verifications:
            # Either the transaction is open from now on, or it has ended: what was asked before counts no longer.
            self._verifications.pop(producer_id, None)
        if attributes & _CONTROL_BIT:
            return self._end_transaction(state, batch, offset)
        if attributes & _TRANSACTIONAL_BIT and state.transaction_first_offset == _NO_TRANSACTION:
            self._begin_transaction(state, offset)
        state.take_in(batch, offset)
        return None

    def _begin_transaction(self, state: ProducerState, offset: int) -> None:
        ongoing = self.ongoing
        if ongoing and next(reversed(ongoing)) >= offset:
            raise BugError(f"a transaction begins at offset {offset} of {self._directory}, behind {dict(ongoing)}")
        state.transaction_first_offset = offset
        ongoing[Offset(offset)] = state.producer_id

    def _end_transaction(self, state: ProducerState, batch: CheckedBatch, offset: int) -> AbortedTransaction | None:
        """It stays unstable until the high watermark has passed its marker."""
        marker = batch.marker
        assert marker is not None
        first_offset = Offset(state.transaction_first_offset)
        aborted: AbortedTransaction | None = None
        if first_offset != _NO_TRANSACTION:
            if self.ongoing.pop(first_offset, None) is None:
                raise BugError(f"the transaction at offset {first_offset} was not open in {self._directory}")
            self.unreplicated[first_offset] = Offset(offset)
            heapq.heappush(self._unreplicated_firsts, first_offset)
            if not marker.is_commit:
                # What the last stable offset is once the marker is written.
                stable = next(iter(self.ongoing), Offset(offset + 1))
                aborted = AbortedTransaction(state.producer_id, first_offset, Offset(offset), stable)
        state.begin_epoch(batch.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = marker.timestamp
        state.transaction_first_offset = _NO_TRANSACTION
        return aborted

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
        latest = self.snapshots.latest
        self._last_snapshot_offset = Offset(log_start_offset) if latest is None else latest

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

    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Write the state at `map_end_offset`, and return the file's path. None if there is nothing new since the last."""
        if self.map_end_offset <= self._last_snapshot_offset:
            return None
        offset = self.map_end_offset
        path = self.snapshots.write(offset, (state.to_snapshot() for state in self._producers.values()), sync=sync)
        self._last_snapshot_offset = offset
        return path

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Go back to the newest good snapshot within the log. The caller replays the log from `map_end_offset` on.

        Nothing to do when the state already ends at `log_end_offset`. That must not be above the high watermark, so ended
        transactions need not be remembered.
        """
        self.snapshots.delete_all_but(log_start_offset, log_end_offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._forget_all()
        while (offset := self.snapshots.latest) is not None:
            try:
                entries = self.snapshots.read(offset)
            except DamagedFileError:
                self.snapshots.delete(offset)
                continue
            self._load(entries, now_ms)
            self._last_snapshot_offset = self.map_end_offset = offset
            return
        self._last_snapshot_offset = self.map_end_offset = Offset(log_start_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything and delete every snapshot."""
        self._forget_all()
        self.snapshots.delete_all()
        self._last_snapshot_offset = Offset(0)
        self.map_end_offset = Offset(offset)

    def relocate(self, directory: str) -> None:
        """Take note that the partition's directory was renamed."""
        self._directory = directory
        self.snapshots.relocate(directory)

    def _load(self, entries: Iterable[ProducerSnapshotEntry], now_ms: int) -> None:
        for entry in entries:
            state = ProducerState.from_snapshot(entry)
            if not self._is_expired(state, now_ms):
                self._producers[state.producer_id] = state
        opened = [state for state in self._producers.values() if state.transaction_first_offset != _NO_TRANSACTION]
        for state in sorted(opened, key=_transaction_first_offset):
            self.ongoing[Offset(state.transaction_first_offset)] = state.producer_id

    def _is_expired(self, state: ProducerState, now_ms: int) -> bool:
        idle_ms = now_ms - state.last_timestamp
        return state.transaction_first_offset == _NO_TRANSACTION and idle_ms >= self.producer_id_expiration_ms

    def _forget_all(self) -> None:
        self._producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self._unreplicated_firsts.clear()


def _transaction_first_offset(state: ProducerState) -> int:
    return state.transaction_first_offset
