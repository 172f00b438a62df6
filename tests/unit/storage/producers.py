"""Batches of producers, as headers, and a table that they are appended to."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.storage.files import Files
from tidelog.storage.producer_state import (
    AppendOrigin,
    CompletedTransaction,
    Duplicate,
    EndTransactionMarker,
    PreparedUpdate,
    ProducerStateTable,
)
from tidelog.wire.record_batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader

EXPIRATION_MS = 1000


def batch(
    producer_id: int = 1,
    *,
    epoch: int = 0,
    sequence: int = 0,
    count: int = 1,
    timestamp: int = 0,
    transactional: bool = False,
) -> BatchHeader:
    return header(producer_id, epoch, sequence, count, timestamp, TRANSACTIONAL_BIT if transactional else 0)


def control_batch(producer_id: int = 1, *, epoch: int = 0) -> BatchHeader:
    return header(producer_id, epoch, -1, 1, 0, TRANSACTIONAL_BIT | CONTROL_BIT)


def header(producer_id: int, epoch: int, sequence: int, count: int, timestamp: int, attributes: int) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=100,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


class ProducerLog:
    """A table and the end of the log that it belongs to. An append is prepared, written (not here) and applied."""

    def __init__(self, files: Files, directory: str) -> None:
        self.table = ProducerStateTable(files, directory, producer_id_expiration_ms=EXPIRATION_MS)
        self.end_offset = 0
        self.aborted: list[tuple[CompletedTransaction, int]] = []

    def append(
        self, wanted: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> PreparedUpdate | Duplicate | ErrorCode:
        return self._finish(self.table.prepare(wanted, self.end_offset, origin), wanted)

    def end_transaction(
        self,
        producer_id: int = 1,
        *,
        commit: bool,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        timestamp: int = 0,
        transaction_version: int = 0,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
    ) -> PreparedUpdate | Duplicate | ErrorCode:
        wanted = control_batch(producer_id, epoch=epoch)
        marker = EndTransactionMarker(commit, coordinator_epoch, timestamp)
        prepared = self.table.prepare(
            wanted, self.end_offset, origin, marker=marker, transaction_version=transaction_version
        )
        return self._finish(prepared, wanted)

    def _finish(
        self, prepared: PreparedUpdate | Duplicate | ErrorCode, wanted: BatchHeader
    ) -> PreparedUpdate | Duplicate | ErrorCode:
        if isinstance(prepared, PreparedUpdate):
            self.apply(prepared)
            self.end_offset += wanted.record_count
            self.table.map_end_offset = Offset(self.end_offset)
        return prepared

    def apply(self, prepared: PreparedUpdate) -> None:
        self.table.apply(prepared)
        for completed in prepared.completed:
            if completed.is_aborted:
                self.aborted.append((completed, self.table.last_stable_offset(completed)))
            self.table.complete(completed)
