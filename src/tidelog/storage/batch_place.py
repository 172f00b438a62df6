"""Where a batch lies: its segment, its position, its header, the index entries that lead to it. For those who look inside.

    asked = ask_place(log, offset)     on the log's thread: what of the log is looked at
    place = asked.find()               on any thread: it has handles of its own, and reads nothing but headers and index entries

What is read of a file is bounded by what its log held when it was asked. The checksum is that of the whole batch, read in pieces.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from tidelog.model.ids import Offset
from tidelog.storage.batch_scan import each_checked_batch, each_header
from tidelog.storage.errors import StorageError
from tidelog.storage.files import Files
from tidelog.storage.mapped_index import MappedIndex
from tidelog.storage.offset_index import OffsetIndex
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment, file_name
from tidelog.storage.time_index import TimeIndex
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import BatchHeader

# A log may have thousands of segments: those around the batch are told of.
SEGMENTS_MAX = 500


class SegmentSize(msgspec.Struct, frozen=True):
    base_offset: int
    size: int


class OffsetEntry(msgspec.Struct, frozen=True):
    """An entry of the offset index, and its place there, counted from 0."""

    entry_number: int
    relative_offset: int
    offset: int
    position: int


class TimeEntry(msgspec.Struct, frozen=True):
    entry_number: int
    timestamp_ms: int
    offset: int


class IndexEntries(msgspec.Struct, frozen=True):
    """What the indexes of the segment have around the batch."""

    offset_entry: OffsetEntry | None
    """Where a search for the offset begins; None: at the start of the file."""
    next_offset_entry: OffsetEntry | None
    batch_entry: OffsetEntry | None
    """The entry that points at this batch; most batches have none."""
    time_entry: TimeEntry | None
    """Where a search for the batch's largest timestamp begins; None: at the start of the segment."""


class BatchPlace(msgspec.Struct, frozen=True):
    """A batch where it lies."""

    file: str
    segment: SegmentSize
    segments: list[SegmentSize]
    segment_count: int
    position: int
    header: BatchHeader
    is_valid: bool
    """Whether the checksum is that of the bytes."""
    index: IndexEntries


class PlaceAsked(msgspec.Struct, frozen=True):
    """A batch to be found in the segments of a log as they are at a moment."""

    offset: int
    files: Files
    candidates: list[tuple[str, str, str, SegmentSize]]
    """Paths of the log and of both indexes, from the segment on that may hold the offset."""
    segments: list[SegmentSize]
    segment_count: int

    def find(self) -> BatchPlace | None:
        """None: there is no batch with that offset, or anything after it. StorageError and CorruptBatchError as they come."""
        for log_path, index_path, time_path, size in self.candidates:
            file = self.files.open(log_path, writable=False)
            try:
                index = OffsetIndex(self.files, index_path, Offset(size.base_offset), writable=False)
                try:
                    begin = index.lookup(self.offset).position
                    for position, header in each_header(file, begin if 0 <= begin < size.size else 0, size.size):
                        if header.last_offset >= self.offset:
                            header.codec  # noqa: B018 - raises for one that does not exist
                            entries = self._entries(index, time_path, size, position, header)
                            is_valid = _is_valid(each_checked_batch(file, position, position + header.size_bytes))
                            return BatchPlace(
                                file=file_name(size.base_offset, LOG_SUFFIX),
                                segment=size,
                                segments=self.segments,
                                segment_count=self.segment_count,
                                position=position,
                                header=header,
                                is_valid=is_valid,
                                index=entries,
                            )
                finally:
                    index.release()
            finally:
                file.close()
        return None

    def _entries(
        self, index: OffsetIndex, time_path: str, size: SegmentSize, position: int, header: BatchHeader
    ) -> IndexEntries:
        slot = bisect_left(range(index.entries), self.offset + 1, key=lambda each: index.entry(each).offset)
        own = bisect_left(range(index.entries), position, key=lambda each: index.entry(each).position)
        batch_entry = _offset_entry(index, own)
        times = TimeIndex(self.files, time_path, Offset(size.base_offset), writable=False)
        try:
            after = bisect_left(
                range(times.entries), header.max_timestamp + 1, key=lambda each: times.entry(each).timestamp
            )
            time_entry = _time_entry(times, after - 1)
        finally:
            times.release()
        return IndexEntries(
            offset_entry=_offset_entry(index, slot - 1),
            next_offset_entry=_offset_entry(index, slot),
            batch_entry=batch_entry if batch_entry is not None and batch_entry.position == position else None,
            time_entry=time_entry,
        )


def ask_place(log: PartitionLog, offset: int) -> PlaceAsked | None:
    """What is to be looked at to find the batch that holds `offset`. None: the log does not have it."""
    if not log.log_start_offset <= offset < log.log_end_offset:
        return None
    all_segments = list(log.segments)
    held = log.segments.from_offset(offset)
    first = len(all_segments) - len(held)
    start = max(0, min(first - SEGMENTS_MAX // 2, len(all_segments) - SEGMENTS_MAX))
    return PlaceAsked(
        offset=offset,
        files=log.seams.files,
        # Compaction may have left a segment without anything from the offset on.
        candidates=[_candidate(segment) for segment in held[:SEGMENTS_MAX]],
        segments=[_size_of(segment) for segment in all_segments[start : start + SEGMENTS_MAX]],
        segment_count=len(all_segments),
    )


def _candidate(segment: Segment) -> tuple[str, str, str, SegmentSize]:
    return segment.path(LOG_SUFFIX), segment.path(INDEX_SUFFIX), segment.path(TIME_INDEX_SUFFIX), _size_of(segment)


def _size_of(segment: Segment) -> SegmentSize:
    return SegmentSize(segment.base_offset, segment.size_bytes)


def _is_valid(batches: Iterator[object]) -> bool:
    try:
        for _ in batches:
            pass
    except CorruptBatchError:
        return False
    return True


def _offset_entry(index: OffsetIndex, slot: int) -> OffsetEntry | None:
    if not _has(index, slot):
        return None
    entry = index.entry(slot)
    return OffsetEntry(slot, entry.offset - index.base_offset, entry.offset, entry.position)


def _time_entry(index: TimeIndex, slot: int) -> TimeEntry | None:
    if not _has(index, slot):
        return None
    entry = index.entry(slot)
    return TimeEntry(slot, entry.timestamp, entry.offset)


def _has(index: MappedIndex, slot: int) -> bool:
    return 0 <= slot < index.entries


PLACE_ERRORS = (StorageError, CorruptBatchError)
"""Why a batch cannot be looked at: its segment has gone meanwhile, or a file is damaged."""
