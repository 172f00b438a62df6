"""Brings the state of producers and the transaction index up to date with batches that lie in a log already.

Used when a log is opened or truncated and its batches are gone through again.
"""

from __future__ import annotations

from tidelog.model.ids import Offset
from tidelog.storage.append import AppendRule
from tidelog.storage.checked_batches import batch_in_log
from tidelog.storage.producer import EndTransactionMarker, ProducerState
from tidelog.storage.producer_state import ProducerStateTable
from tidelog.storage.segment import Segment
from tidelog.storage.segment_list import SegmentList
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


def replay_batch(
    producers: ProducerStateTable, segment: Segment, position: int, header: BatchHeader, *, with_index: bool
) -> None:
    """Go through a batch of the log again. It was accepted once, so nothing is checked.

    `with_index`: the segment's transaction index is being rebuilt too.
    """
    if header.producer_id >= 0:
        batch = batch_in_log(header)
        if header.is_control:
            batch.marker = marker_of(header, segment.file.pread(header.size_bytes, position))
        if batch.marker is not None or not header.is_control:
            state = producers.judge(batch, AppendRule.FOLLOWER)
            if isinstance(state, ProducerState):
                aborted = producers.take_in(state, batch, header.base_offset)
                if aborted is not None and with_index:
                    segment.note_aborted(aborted)
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
