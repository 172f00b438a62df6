"""Checks one segment: its log file byte by byte, and its two sparse indexes against the batches they name.

All three are read once, side by side, a window at a time. `index_check` says what an index must agree with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidelog.storage.errors import StorageError
from tidelog.storage.files import File, Files
from tidelog.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, RELATIVE_OFFSET_MAX, TIME_INDEX_SUFFIX, file_name
from tidelog.storage.verification.findings import Report
from tidelog.storage.verification.index_check import IndexFault, OffsetIndexCheck, TimeIndexCheck
from tidelog.storage.verification.index_scan import IndexScan, OffsetEntry, OffsetIndexScan, TimeEntry, TimeIndexScan
from tidelog.storage.verification.log_scan import LogScan, ScannedBatch
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import HEADER_BYTES, BatchHeader, TimestampType
from tidelog.wire.records import decode_batch

_Scan = TypeVar("_Scan", OffsetIndexScan, TimeIndexScan)


class SegmentCheck:
    """One segment, checked by `run`. What it learns of the log is left in its attributes."""

    def __init__(
        self,
        files: Files,
        directory: str,
        shown_directory: str,
        base_offset: int,
        report: Report,
        *,
        is_trusted: bool,
        decodes_records: bool,
    ) -> None:
        """`is_trusted`: the segment was finished, and recovery will not look at it. What a crash may leave is an error then."""
        self.base_offset = base_offset
        self.is_compacted = False
        """Whether records are missing from batches, or batches from the file, as compaction leaves it."""
        self.gap: tuple[int, int] | None = None
        """The first offsets that are missing between two batches: from, and up to, exclusive."""
        self.largest_timestamp = -1
        self._files = files
        self._directory = directory
        self._shown_directory = shown_directory
        self._report = report
        self._is_trusted = is_trusted
        self._decodes_records = decodes_records
        self._opened: list[File] = []

    def run(self, each: Callable[[ScannedBatch], None]) -> LogScan | None:
        """Check everything, handing over each batch. The finished scan of the log; None where there is nothing to scan."""
        try:
            offsets = self._open_index(INDEX_SUFFIX, OffsetIndexScan)
            times = self._open_index(TIME_INDEX_SUFFIX, TimeIndexScan)
            log = self._open(LOG_SUFFIX)
            if log is None:
                return None
            scan = LogScan(log, base_offset=self.base_offset)
            offset_check = OffsetIndexCheck(offsets) if offsets is not None else None
            time_check = TimeIndexCheck(times) if times is not None else None
            expected = self.base_offset
            for batch in scan:
                expected = self._look_at(batch, expected)
                if offset_check is not None:
                    offset_check.add(batch)
                if time_check is not None:
                    time_check.add(batch)
                each(batch)
            self._report.segments += 1
            self._report.batches += scan.batches
            self._report.bytes_checked += scan.size
            if offset_check is not None:
                offset_check.finish(scan, has_grown=log.size() > scan.size)
                self._report_index(INDEX_SUFFIX, offset_check.scan, offset_check.fault)
            if time_check is not None:
                time_check.finish(scan, has_grown=log.size() > scan.size)
                self._report_index(TIME_INDEX_SUFFIX, time_check.scan, time_check.fault)
                self._check_last_time(scan, time_check)
            return scan
        finally:
            for file in self._opened:
                file.close()

    def shown(self, suffix: str) -> str:
        """The path of a file as a finding names it."""
        return self._shown_directory + file_name(self.base_offset, suffix)

    def _open(self, suffix: str) -> File | None:
        path = f"{self._directory}/{file_name(self.base_offset, suffix)}"
        try:
            file = self._files.open(path, writable=False)
        except StorageError as error:
            if error.is_missing:
                sentence = (
                    "it went away while it was being checked"
                    if suffix == LOG_SUFFIX
                    else "the file is missing; the next start builds it again"
                )
                (self._report.note if suffix == LOG_SUFFIX else self._report.warning)(self.shown(suffix), sentence)
            else:
                self._report.error(self.shown(suffix), str(error))
            return None
        self._opened.append(file)
        return file

    def _open_index(self, suffix: str, scan: type[_Scan]) -> _Scan | None:
        file = self._open(suffix)
        return scan(file, self.base_offset) if file is not None else None

    def _look_at(self, batch: ScannedBatch, expected: int) -> int:
        """Check one batch by itself, and as the one at `expected`. The offset after it."""
        header = batch.header
        if header.base_offset > expected and self.gap is None:
            self.gap = (expected, header.base_offset)
        if header.record_count <= header.last_offset_delta:
            self.is_compacted = True
        elif header.record_count > header.last_offset_delta + 1:
            self._report.error(
                self.shown(LOG_SUFFIX),
                f"the batch at offset {header.base_offset} says it has {header.record_count} records "
                f"in {header.last_offset_delta + 1} offsets",
                batch.position,
            )
        if header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            self._report.error(
                self.shown(LOG_SUFFIX),
                f"the batch at offset {header.base_offset} is too far from the segment's first, {self.base_offset}: "
                "no index can name it",
                batch.position,
            )
        self.largest_timestamp = max(self.largest_timestamp, header.max_timestamp)
        if self._decodes_records:
            self._decode(batch)
        return header.next_offset

    def _decode(self, batch: ScannedBatch) -> None:
        header = batch.header
        try:
            records = decode_batch(batch.data, header)
        except CorruptBatchError as error:
            self._report.error(
                self.shown(LOG_SUFFIX),
                f"the checksum of the batch at offset {header.base_offset} is right, but its records do not decode: {error}",
                batch.position + HEADER_BYTES,
            )
            return
        if records and header.timestamp_type is TimestampType.CREATE_TIME:
            largest = max(record.timestamp for record in records)
            if largest != header.max_timestamp and not _is_rewritten(header):
                self._report.error(
                    self.shown(LOG_SUFFIX),
                    f"the batch at offset {header.base_offset} says its largest timestamp is {header.max_timestamp}, "
                    f"and its records say {largest}",
                    batch.position,
                )

    def _report_index(
        self, suffix: str, scan: IndexScan[OffsetEntry] | IndexScan[TimeEntry], fault: IndexFault | None
    ) -> None:
        if fault is None and scan.damage is not None:
            fault = IndexFault(*scan.damage)
        if fault is not None and self._is_trusted:
            self._report.error(self.shown(suffix), fault.sentence, fault.position)
        elif fault is not None:
            self._report.warning(
                self.shown(suffix), f"{fault.sentence}; recovery builds the index again", fault.position
            )
        elif scan.zeros and self._is_trusted:
            self._report.note(
                self.shown(suffix),
                f"{scan.zeros} zero bytes to the end: preallocated space that nobody trimmed",
                scan.size - scan.zeros,
            )

    def _check_last_time(self, scan: LogScan, check: TimeIndexCheck) -> None:
        """A segment that is no longer appended to has its largest timestamp in the time index: searches by time skip by it."""
        if check.fault is not None or check.scan.damage is not None or scan.damage is not None:
            return
        if self._is_trusted and check.largest_entry < self.largest_timestamp:
            self._report.warning(
                self.shown(TIME_INDEX_SUFFIX),
                f"the segment's largest timestamp, {self.largest_timestamp}, is not in it "
                f"(its last is {check.largest_entry}): a search by time may miss records",
            )


def _is_rewritten(header: BatchHeader) -> bool:
    """Whether compaction may have taken the record with the largest timestamp: it keeps the header's."""
    return header.record_count <= header.last_offset_delta or header.has_delete_horizon
