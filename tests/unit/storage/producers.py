"""Batches of producers, as headers, and a table that they are appended to."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.storage.append import AppendRule
from tidelog.storage.checked_batches import CheckedBatch, batch_in_log
from tidelog.storage.files import Files
from tidelog.storage.producer import Duplicate, EndTransactionMarker, ProducerState
from tidelog.storage.producer_state import ProducerStateTable
from tidelog.storage.transaction_index import AbortedTransaction
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


Judged = ProducerState | Duplicate | ErrorCode


class ProducerLog:
    """A table and the end of the log that it belongs to. An append is judged, taken in, and written (not here)."""

    def __init__(self, files: Files, directory: str) -> None:
        self.table = ProducerStateTable(files, directory, producer_id_expiration_ms=EXPIRATION_MS)
        self.end_offset = 0
        self.aborted: list[AbortedTransaction] = []

    def append(self, wanted: BatchHeader, rule: AppendRule = AppendRule.LEADER, *, guard: int | None = None) -> Judged:
        return self.take(checked(wanted, guard), rule)

    def end_transaction(
        self,
        producer_id: int = 1,
        *,
        commit: bool,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        timestamp: int = 0,
        transaction_version: int = 0,
        rule: AppendRule = AppendRule.MARKER,
    ) -> Judged:
        marker = EndTransactionMarker(commit, coordinator_epoch, timestamp, transaction_version)
        return self.take(checked(control_batch(producer_id, epoch=epoch), marker=marker), rule)

    def take(self, wanted: CheckedBatch, rule: AppendRule) -> Judged:
        judged = self.table.judge(wanted, rule)
        if isinstance(judged, ProducerState):
            aborted = self.table.take_in(judged, wanted, self.end_offset)
            if aborted is not None:
                self.aborted.append(aborted)
            self.end_offset += wanted.record_count
            self.table.map_end_offset = Offset(self.end_offset)
        return judged


def checked(
    header: BatchHeader, guard: int | None = None, *, marker: EndTransactionMarker | None = None
) -> CheckedBatch:
    """A batch on its way into the log."""
    wanted = batch_in_log(header)
    wanted.guard = guard
    wanted.marker = marker
    return wanted
