"""Brings the state of producers and the transaction index up to date with batches of the log.

Used on every append, and when a log is opened or truncated and its batches are gone through again.
"""

from __future__ import annotations

from tidelog.model.ids import Offset
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.producer_append import AppendOrigin, EndTransactionMarker, PreparedUpdate
from tidelog.storage.producer_state import ProducerStateTable
from tidelog.storage.segment import Segment
from tidelog.storage.segment_list import SegmentList
from tidelog.storage.transaction_index import AbortedTransaction, TransactionIndex
from tidelog.wire.control_records import ControlType, read_end_txn_marker
from tidelog.wire.record_batch import BatchHeader, BytesLike
from tidelog.wire.records import decode_batch


def marker_of(header: BatchHeader, buffer: BytesLike, position: int = 0) -> EndTransactionMarker | None:
    """The marker that a control batch of a producer holds; None where compaction has left the batch without its record.

    CorruptBatchError where it holds anything else.
    """
    if header.record_count == 0:
        return None
    record = decode_batch(buffer, header, position)[0]
    marker = read_end_txn_marker(record)
    return EndTransactionMarker(marker.control_type is ControlType.COMMIT, marker.coordinator_epoch, record.timestamp)


def apply_update(
    producers: ProducerStateTable, update: PreparedUpdate, transaction_index: TransactionIndex | None
) -> None:
    """Take in what an append has changed. Aborted transactions go into the index of the segment that has their marker."""
    producers.apply(update)
    for completed in update.completed:
        if completed.is_aborted and transaction_index is not None:
            aborted = AbortedTransaction(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                producers.last_stable_offset(completed),
            )
            try:
                transaction_index.append(aborted)
            except ValueError as error:
                # A marker is always behind all others, so what does not let it follow is not of this log.
                raise DamagedFileError(transaction_index.path, str(error)) from error
        producers.complete(completed)


def replay_batch(
    producers: ProducerStateTable, segment: Segment, position: int, header: BatchHeader, *, with_index: bool
) -> None:
    """Go through a batch of the log again. It was accepted once, so nothing is checked.

    `with_index`: the segment's transaction index is being rebuilt too.
    """
    if header.producer_id >= 0:
        marker = None
        if header.is_control:
            marker = marker_of(header, segment.file.pread(header.size_bytes, position))
        update = producers.prepare(header, header.base_offset, AppendOrigin.REPLICATION, marker=marker)
        if isinstance(update, PreparedUpdate):
            apply_update(producers, update, segment.transaction_index if with_index else None)
    producers.map_end_offset = Offset(header.next_offset)


def replay_producers(
    producers: ProducerStateTable, segments: SegmentList, log_start_offset: int, end_offset: int
) -> None:
    """Go through the headers of all batches that the producers' state does not cover yet, up to `end_offset`."""
    start = max(producers.map_end_offset, log_start_offset)
    if start >= end_offset:
        return
    for segment in segments.from_offset(start):
        if segment.base_offset >= end_offset:
            break
        first = segment.find(start)
        if first is None:
            continue
        for position, header in segment.headers_from(first.position):
            if header.base_offset >= end_offset:
                return
            replay_batch(producers, segment, position, header, with_index=False)
