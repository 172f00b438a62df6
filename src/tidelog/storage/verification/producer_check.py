"""Checks what a partition's files say about its producers: snapshots and the indexes of aborted transactions.

Both are compared with what the log says (`expected_producers`). How sure one can be depends on what the log still holds. Before
its first segment, behind damage and where compaction has removed records and markers, producers and transactions cannot be
worked out any more: what began before `_certain_from` is left alone. A producer that is missing from a snapshot is no finding
unless it has a transaction open, since producers expire by the clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.files import Files
from tidelog.storage.producer_snapshot import ProducerSnapshotEntry, read_snapshot, snapshot_name
from tidelog.storage.segment import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX, file_name
from tidelog.storage.verification.expected_producers import ExpectedProducers
from tidelog.storage.verification.findings import PartitionFacts, Report
from tidelog.storage.verification.index_scan import TransactionEntry, TransactionIndexScan
from tidelog.storage.verification.log_scan import LogScan, ScannedBatch
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import HEADER_BYTES


class ProducerCheck:
    """The snapshots and transaction indexes of one partition, beside the batches of its log."""

    def __init__(
        self, files: Files, directory: str, shown: str, report: Report, facts: PartitionFacts, snapshots: Iterable[int]
    ) -> None:
        """`snapshots` are the offsets of the snapshots in the directory."""
        self._files = files
        self._directory = directory
        self._shown = shown
        self._report = report
        self._facts = facts
        self._snapshots = sorted(snapshots)
        self._expected = ExpectedProducers()
        self._certain_from = 0
        # Snapshots that the log has reached, with what the log says at their offset.
        self._reached: list[tuple[int, dict[int, ProducerSnapshotEntry]]] = []
        # The transaction index of the segment that is being read; None if it is damaged.
        self._aborted: list[TransactionEntry] | None = None
        self._base_offset = 0

    def restart_at(self, offset: int) -> None:
        """Begin with a segment before which the log is not known. A snapshot at its first offset is taken at its word."""
        self._certain_from = offset
        entries = self._read_snapshot(offset) if offset in self._snapshots else None
        self._expected = ExpectedProducers(entries or ())
        self._snapshots = self._snapshots[bisect_right(self._snapshots, offset) :]

    def begin_segment(self, base_offset: int) -> None:
        """Read the segment's transaction index: before its log, which may be growing."""
        self._base_offset = base_offset
        path = f"{self._directory}/{file_name(base_offset, TRANSACTION_INDEX_SUFFIX)}"
        self._aborted = []
        try:
            if not self._files.exists(path):
                return
            file = self._files.open(path, writable=False)
            try:
                scan = TransactionIndexScan(file, base_offset)
                self._aborted.extend(entry for _, entry in scan)
            finally:
                file.close()
        except StorageError as error:
            self._report.error(self._shown_index, str(error))
            self._aborted = None
            return
        if scan.damage is not None:
            self._aborted = None
            if self._facts.is_recovered(base_offset):
                sentence = f"{scan.damage.sentence}; recovery builds the index again"
                self._report.warning(self._shown_index, sentence, scan.damage.position)
            else:
                self._report.error(self._shown_index, scan.damage.sentence, scan.damage.position)

    def add(self, batch: ScannedBatch) -> None:
        """Take in the next batch of the log."""
        header = batch.header
        while self._snapshots and self._snapshots[0] <= header.base_offset:
            self._reach_snapshot()
        try:
            self._expected.add(header, batch.data)
        except CorruptBatchError as error:
            self._report.error(
                self._shown + file_name(self._base_offset, LOG_SUFFIX),
                f"the marker in the control batch at offset {header.base_offset} cannot be read: {error}",
                batch.position + HEADER_BYTES,
            )
            self.forget_before(header.next_offset)

    def forget_before(self, offset: int) -> None:
        """Doubt what began before `offset`: records were taken out of the log there."""
        self._certain_from = max(self._certain_from, offset)

    def end_segment(self, scan: LogScan) -> None:
        """Compare, now that it is known whether the segment was compacted."""
        aborted = self._expected.take_aborted()
        if self._aborted is not None and scan.damage is None:
            self._compare_aborted(self._aborted, aborted, scan.next_offset or 0)
        self._compare_reached()

    def finish(self, log_end_offset: int) -> None:
        """Compare the snapshots that are left, at the end of a log that is whole."""
        while self._snapshots and self._snapshots[0] <= log_end_offset:
            self._reach_snapshot()
        has_one_at_end = any(offset == log_end_offset for offset, _ in self._reached)
        self._compare_reached()
        for offset in self._snapshots:
            self._report.unless_unclean(
                self._facts,
                self._shown + snapshot_name(offset),
                f"the snapshot is of offset {offset}, and the log ends at {log_end_offset}",
            )
        is_missing = not has_one_at_end and not self._snapshots and log_end_offset > self._base_offset
        if is_missing and self._facts.was_clean and self._expected.producers:
            self._report.warning(
                self._shown + snapshot_name(log_end_offset),
                "the file is missing after a clean stop: what the producers did last must be read from the log again",
            )

    # Aborted transactions

    @property
    def _shown_index(self) -> str:
        return self._shown + file_name(self._base_offset, TRANSACTION_INDEX_SUFFIX)

    def _compare_aborted(self, found: list[TransactionEntry], expected: list[TransactionEntry], end: int) -> None:
        """One finding at most, as everywhere."""
        by_end = {entry.last_offset: entry for entry in expected}
        for entry in found:
            aborted = by_end.pop(entry.last_offset, None)
            if entry.last_offset >= end:
                self._report.unless_unclean(
                    self._facts, self._shown_index, f"it says {_transaction(entry)}; the segment ends at offset {end}"
                )
                return
            if entry.first_offset < self._certain_from:
                continue
            if aborted is None:
                self._report.error(self._shown_index, f"it says {_transaction(entry)}; the log has no such abort")
                return
            if not self._agree(entry, aborted):
                self._report.error(
                    self._shown_index, f"it says {_transaction(entry)}; the log says {_transaction(aborted)}"
                )
                return
        missing = next((entry for entry in by_end.values() if entry.first_offset >= self._certain_from), None)
        if missing is not None:
            sentence = f"an aborted transaction is not in it: {_transaction(missing)}"
            if self._facts.is_recovered(self._base_offset):
                self._report.warning(self._shown_index, f"{sentence}; recovery builds the index again")
            else:
                self._report.error(self._shown_index, sentence)

    def _agree(self, entry: TransactionEntry, aborted: TransactionEntry) -> bool:
        # The transaction that held the last stable offset back may be one that the log no longer knows of.
        if entry.last_stable_offset < min(self._certain_from, aborted.last_stable_offset):
            aborted = aborted._replace(last_stable_offset=entry.last_stable_offset)
        return entry == aborted

    # Snapshots

    def _read_snapshot(self, offset: int) -> list[ProducerSnapshotEntry] | None:
        shown = self._shown + snapshot_name(offset)
        try:
            return read_snapshot(self._files, f"{self._directory}/{snapshot_name(offset)}")
        except DamagedFileError as error:
            if self._facts.is_recovered(offset):
                self._report.warning(shown, f"{error.reason}; recovery works the producers out again")
            else:
                self._report.error(shown, error.reason)
        except StorageError as error:
            if not error.is_missing:
                self._report.error(shown, str(error))
        return None

    def _reach_snapshot(self) -> None:
        self._reached.append((self._snapshots.pop(0), dict(self._expected.producers)))

    def _compare_reached(self) -> None:
        for offset, producers in self._reached:
            entries = self._read_snapshot(offset)
            if entries is not None and (difference := self._difference(offset, entries, producers)) is not None:
                self._report.error(self._shown + snapshot_name(offset), difference)
        self._reached.clear()

    def _difference(
        self, offset: int, entries: list[ProducerSnapshotEntry], producers: dict[int, ProducerSnapshotEntry]
    ) -> str | None:
        """The first thing in which a snapshot and the log disagree."""
        for entry in entries:
            name = f"producer {entry.producer_id}"
            expected = producers.get(entry.producer_id)
            if entry.last_offset >= offset:
                return (
                    f"{name} has its last batch at offset {entry.last_offset}, and the snapshot is of offset {offset}"
                )
            if expected is None:
                # Its records may be gone from the log: a producer outlives them.
                if entry.last_offset >= self._certain_from:
                    return f"{name} has its last batch at offset {entry.last_offset}, and the log has none of it"
            elif expected.last_offset >= self._certain_from and (field := self._differing_field(entry, expected)):
                says, is_so = getattr(entry, field), getattr(expected, field)
                return f"{name}: the snapshot says {field.replace('_', ' ')} {says}, the log says {is_so}"
        seen = {entry.producer_id for entry in entries}
        for producer_id, expected in producers.items():
            if producer_id not in seen and expected.transaction_first_offset >= self._certain_from:
                return (
                    f"producer {producer_id} is not in it, and has a transaction open "
                    f"from offset {expected.transaction_first_offset} on"
                )
        return None

    def _differing_field(self, entry: ProducerSnapshotEntry, expected: ProducerSnapshotEntry) -> str | None:
        for field, says, is_so in zip(entry._fields, entry, expected, strict=True):
            is_of_lost_marker = field == "coordinator_epoch" and is_so == -1
            is_of_lost_records = field == "transaction_first_offset" and 0 <= says < self._certain_from
            if says != is_so and not is_of_lost_marker and not is_of_lost_records:
                return field
        return None


def _transaction(entry: TransactionEntry) -> str:
    return (
        f"producer {entry.producer_id} from offset {entry.first_offset} to {entry.last_offset}, "
        f"last stable offset {entry.last_stable_offset}"
    )
