"""Which transactions of a stored log were aborted, and where the first open one begins: what `read_committed` leaves out.

Aborted ones are listed in `.txnindex` beside the segment that has their marker. A segment that is still being written has been
left by its node at any moment, so that the last one is walked instead: from the producers that the snapshot at its first offset
knows, marker by marker. Without that snapshot the walk begins at an earlier one, or with the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.spark.errors import UnreadableError
from tidelog.spark.stored.stored_log import StoredLog, StoredSegment, opened
from tidelog.storage.errors import StorageError
from tidelog.storage.producer_replay import marker_of
from tidelog.storage.producer_snapshot import offset_of_snapshot, read_snapshot
from tidelog.storage.verification.index_scan import TransactionIndexScan
from tidelog.wire.batch_errors import CorruptBatchError


@dataclass(frozen=True, slots=True, order=True)
class StoredAbort:
    """An aborted transaction, from its first record to its marker."""

    first_offset: int
    last_offset: int
    producer_id: int


@dataclass(frozen=True, slots=True)
class StoredTransactions:
    """All that a reader of committed records has to know of a log."""

    aborted: tuple[StoredAbort, ...]
    last_stable_offset: int

    def aborted_in(self, start: int, end: int) -> tuple[StoredAbort, ...]:
        """Those with records from `start` up to `end`."""
        return tuple(each for each in self.aborted if each.first_offset < end and each.last_offset >= start)


def stored_transactions(log: StoredLog) -> StoredTransactions:
    """UnreadableError where the files contradict themselves."""
    try:
        return _Walk(log).run()
    except (StorageError, CorruptBatchError) as error:
        raise UnreadableError(f"the transactions of {log.partition} cannot be told: {error}") from error


class _Walk:
    def __init__(self, log: StoredLog) -> None:
        self._log = log
        self._open: dict[int, int] = {}
        self._aborted: list[StoredAbort] = []

    def run(self) -> StoredTransactions:
        log = self._log
        walked = self._begin()
        for segment in log.segments:
            if segment.base_offset >= walked:
                self._walk(segment)
            else:
                self._read_index(segment)
        aborted = tuple(sorted(each for each in self._aborted if each.last_offset >= log.log_start_offset))
        return StoredTransactions(aborted, min(self._open.values(), default=log.end_offset))

    def _begin(self) -> int:
        """Take the producers of the last snapshot that lies at the start of a segment; where the walk begins."""
        log = self._log
        bases = {segment.base_offset for segment in log.segments}
        offsets = {offset_of_snapshot(name) for name in log.files.list_directory(log.directory)}
        for offset in sorted(bases & {each for each in offsets if each is not None}, reverse=True):
            try:
                entries = read_snapshot(log.files, f"{log.directory}/{offset:020d}.snapshot")
            except StorageError:
                # Cut off or changed: an earlier one and the log behind it say the same.
                continue
            self._open = {
                entry.producer_id: entry.transaction_first_offset
                for entry in entries
                if entry.transaction_first_offset >= 0
            }
            return offset
        return log.log_start_offset if not bases else min(bases)

    def _walk(self, segment: StoredSegment) -> None:
        log = self._log
        with opened(log.files, segment.log_path) as file:
            for position, header in log.headers(segment, file):
                if header.producer_id < 0 or not header.is_transactional:
                    continue
                if not header.is_control:
                    self._open.setdefault(header.producer_id, header.base_offset)
                    continue
                marker = marker_of(header, file.pread(header.size_bytes, position))
                first = self._open.pop(header.producer_id, None)
                if first is not None and marker is not None and not marker.is_commit:
                    self._aborted.append(StoredAbort(first, header.last_offset, header.producer_id))

    def _read_index(self, segment: StoredSegment) -> None:
        log = self._log
        path = f"{segment.path}.txnindex"
        if not log.files.exists(path):
            return
        with opened(log.files, path) as file:
            scan = TransactionIndexScan(file, segment.base_offset)
            for _, entry in scan:
                self._aborted.append(StoredAbort(entry.first_offset, entry.last_offset, entry.producer_id))
            if scan.damage is not None:
                raise UnreadableError(f"{path} is damaged: {scan.damage.sentence}")
