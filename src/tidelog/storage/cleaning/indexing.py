"""The first pass of a cleaning: the dirty part of a log is read, and the last offset of each of its keys noted.

Every batch has its checksum checked on the way, which Kafka leaves out: a key that the disk has changed must not have the records
of another one thrown away.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from tidelog.storage.cleaning import batch_runs
from tidelog.storage.cleaning.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaning.cleaner_stats import CleanerStats
from tidelog.storage.cleaning.offset_map import OffsetMap
from tidelog.storage.cleaning.source_segment import SourceSegment
from tidelog.storage.cleaning.windows import Window
from tidelog.storage.files import File, Files
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.crc32c import crc32c
from tidelog.wire.record_batch import CHECKED_POSITION, CRC_LAYOUT, CRC_POSITION, BatchHeader, check_batch, read_header
from tidelog.wire.records import records_of

# Batches of a window whose checksums are checked together.
BATCHES_MAX = 4096


class Indexing:
    """Fills a map from `first_offset` on."""

    def __init__(
        self,
        files: Files,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        window: Window,
        first_offset: int,
        stats: CleanerStats,
    ) -> None:
        self._files = files
        self._map = offset_map
        self._transactions = transactions
        self._window = window
        self._first_offset = first_offset
        self._stats = stats
        self._starts = array("q", bytes(8 * BATCHES_MAX))
        self._is_full = False

    def run(self, segments: Sequence[SourceSegment]) -> Iterator[int]:
        """Read segments until the map is full. Yields how many bytes were read, piece by piece."""
        for segment in segments:
            file = self._files.open(segment.path, writable=False)
            try:
                yield from self._segment(file, segment)
            finally:
                file.close()
            if self._is_full:
                return
            # There may be a gap behind the last batch.
            self._map.latest_offset = segment.next_base_offset - 1

    def _segment(self, file: File, segment: SourceSegment) -> Iterator[int]:
        position = segment.first_position
        while position < segment.size_bytes and not self._is_full:
            self._window.fill(file, position, segment.size_bytes)
            try:
                done = self._index(self._window.view)
            except CorruptBatchError as error:
                raise CorruptBatchError(f"{file.path}, from byte {position} on: {error}") from error
            position += done
            self._stats.map_bytes_read += done
            yield done

    def _index(self, view: memoryview) -> int:
        """Take in the batches of a window. Returns where the last whole one ends."""
        at: int = 0
        while True:
            begun = at
            status, at, count = batch_runs.index_run(self._map, view, at, len(view), self._first_offset, self._starts)
            self._check(view, count, at)
            if status == batch_runs.AT_SPECIAL:
                header = read_header(view, at)
                check_batch(view, header, at)
                if not self._index_special(view, at, header):
                    return at
                at += header.size_bytes
            elif status == batch_runs.AT_FULL:
                self._is_full = True
                return at
            elif status == batch_runs.AT_DAMAGE:
                raise CorruptBatchError(f"byte {at} begins no batch that can be read")
            elif at == begun:
                return at

    def _check(self, view: memoryview, count: int, end: int) -> None:
        starts = self._starts
        for number in range(count):
            start = starts[number]
            stop = starts[number + 1] if number + 1 < count else end
            if crc32c(view[start + CHECKED_POSITION : stop]) != CRC_LAYOUT.unpack_from(view, start + CRC_POSITION)[0]:
                raise CorruptBatchError(f"the checksum of the batch at byte {start} is wrong")

    def _index_special(self, view: memoryview, at: int, header: BatchHeader) -> bool:
        """A batch that is compressed, of a transaction, or a marker. False where the map is full."""
        if header.is_control:
            self._transactions.may_go(header, view, at)
        elif not self._transactions.is_aborted(header):
            records = records_of(view, header, at)
            status = batch_runs.index_records(
                self._map,
                records,
                0,
                len(records),
                header.record_count,
                header.base_offset,
                header.last_offset_delta,
                self._first_offset,
            )
            if status == batch_runs.AT_FULL:
                self._is_full = True
                return False
            if status == batch_runs.AT_DAMAGE:
                raise CorruptBatchError(f"the records of the batch at byte {at} cannot be read")
        if header.last_offset >= self._first_offset:
            self._map.latest_offset = header.last_offset
        return True
