"""What the producers of a partition must have been, worked out from its batches alone.

The plain model behind `producer_state`, for checking the files that it wrote: no appends, no refusals, no expiry. Feed it the
batches of a log in order; at any point `producers` is what a snapshot at that offset must say, and `take_aborted` what the
index of aborted transactions must.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.storage.producer_snapshot import ProducerSnapshotEntry
from tidelog.storage.verification.index_scan import TransactionEntry
from tidelog.wire.control_records import ControlType, read_end_txn_marker
from tidelog.wire.record_batch import BatchHeader, BytesLike
from tidelog.wire.records import Record, decode_batch

_NO_TRANSACTION = -1


class ExpectedProducers:
    """The producers of one partition at one offset of its log."""

    def __init__(self, entries: Iterable[ProducerSnapshotEntry] = ()) -> None:
        self.producers = {entry.producer_id: entry for entry in entries}
        self._aborted: list[TransactionEntry] = []
        # By producer id: the first offset of its open transaction.
        self._open = {
            entry.producer_id: entry.transaction_first_offset
            for entry in self.producers.values()
            if entry.transaction_first_offset != _NO_TRANSACTION
        }

    def add(self, header: BatchHeader, data: BytesLike) -> None:
        """Take in the next batch. CorruptBatchError for a marker that cannot be read; then nothing has changed."""
        if header.producer_id < 0:
            return
        before = self.producers.get(header.producer_id) or _unknown(header.producer_id)
        if not header.is_control:
            self.producers[header.producer_id] = self._after_records(before, header)
        elif header.record_count:
            # Compaction takes the marker out of a batch once nothing of its transaction is left, and keeps the batch.
            self.producers[header.producer_id] = self._after_marker(before, header, decode_batch(data, header)[0])

    def take_aborted(self) -> list[TransactionEntry]:
        """The transactions that were aborted since the last call."""
        aborted, self._aborted = self._aborted, []
        return aborted

    def _after_records(self, before: ProducerSnapshotEntry, header: BatchHeader) -> ProducerSnapshotEntry:
        if header.is_transactional:
            self._open.setdefault(header.producer_id, header.base_offset)
        return before._replace(
            epoch=header.producer_epoch,
            last_sequence=header.last_sequence,
            last_offset=header.last_offset,
            offset_delta=header.last_offset_delta,
            timestamp=header.max_timestamp,
            transaction_first_offset=self._open.get(header.producer_id, _NO_TRANSACTION),
        )

    def _after_marker(
        self, before: ProducerSnapshotEntry, header: BatchHeader, record: Record
    ) -> ProducerSnapshotEntry:
        marker = read_end_txn_marker(record)
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is not None and marker.control_type is ControlType.ABORT:
            last_stable_offset = min(self._open.values(), default=header.base_offset + 1)
            self._aborted.append(
                TransactionEntry(0, header.producer_id, first_offset, header.base_offset, last_stable_offset)
            )
        if before.epoch != header.producer_epoch:
            # With another epoch the last batch is forgotten: its sequence continues nothing.
            before = _unknown(header.producer_id)._replace(epoch=header.producer_epoch)
        return before._replace(
            timestamp=record.timestamp,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_first_offset=_NO_TRANSACTION,
        )


def _unknown(producer_id: int) -> ProducerSnapshotEntry:
    return ProducerSnapshotEntry(producer_id, -1, -1, -1, 0, -1, -1, _NO_TRANSACTION)
