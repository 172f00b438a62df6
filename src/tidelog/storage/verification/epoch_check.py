"""Checks a partition's `leader-epoch-checkpoint`: every batch lies in the range of its own epoch.

The file must know the epochs of what the next start does not read again: all of the log after a clean stop, else what lies
before the recovery point. Apache Kafka makes the file with the log and writes it with the first batch of an epoch; Tidelog writes
it before the recovery point passes that batch, so that a running node may have none yet, or one that ends too early.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from tidelog.model.ids import NO_LEADER_EPOCH
from tidelog.storage.checkpoint_file import LEADER_EPOCH_CHECKPOINT, read_lines, to_int
from tidelog.storage.errors import StorageError
from tidelog.storage.files import Files
from tidelog.storage.leader_epochs import EpochEntry
from tidelog.storage.verification.findings import PartitionFacts, Report
from tidelog.wire.record_batch import BatchHeader


class EpochCheck:
    """The epochs of one partition, beside the batches of its log. Reports the first disagreement."""

    def __init__(self, files: Files, directory: str, shown: str, report: Report, facts: PartitionFacts) -> None:
        self.last_epoch = -1
        """The largest in the log."""
        self._path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self._shown = shown + LEADER_EPOCH_CHECKPOINT
        self._report = report
        self._facts = facts
        # Emptied where they can serve no more comparison.
        self._entries: list[EpochEntry] = []
        self._is_missing = not files.exists(self._path)
        try:
            self._read(files)
        except StorageError as error:
            self._entries.clear()
            report.error(self._shown, error.reason)

    def add(self, header: BatchHeader, log_start_offset: int) -> None:
        """Take in the next batch of the log."""
        epoch = header.partition_leader_epoch
        self.last_epoch = max(self.last_epoch, epoch)
        entries = self._entries
        # Batches from before there were epochs have none.
        if epoch == NO_LEADER_EPOCH or header.last_offset < log_start_offset:
            return
        if self._is_missing and not self._facts.is_recovered(header.base_offset):
            self._is_missing = False
            self._report.warning(
                self._shown, "the file is missing: leader and followers cannot tell where their logs part"
            )
        if not entries or (epoch > entries[-1].epoch and self._facts.is_recovered(header.base_offset)):
            return
        slot = bisect_right(entries, header.base_offset, key=lambda entry: entry.start_offset) - 1
        if (
            slot < 0
            and entries[0].start_offset <= header.last_offset
            and self._may_begin_at(entries[0], log_start_offset)
        ):
            slot = 0
        says = f"epoch {entries[slot].epoch}" if slot >= 0 else "none"
        if slot < 0 or entries[slot].epoch != epoch:
            entries.clear()
            self._report.error(
                self._shown,
                f"offset {header.base_offset} was written in leader epoch {epoch}, and the checkpoint says {says}",
            )

    def _may_begin_at(self, first: EpochEntry, log_start_offset: int) -> bool:
        """Where records were deleted up to the middle of a batch, the first epoch begins there.

        The log start offset is written less often, so that only after a clean stop it must be the same.
        """
        return not self._facts.was_clean or first.start_offset <= log_start_offset

    def finish(self, log_end_offset: int) -> None:
        """The log is whole and ends here."""
        if self._entries and self._entries[-1].start_offset > log_end_offset:
            epoch, start_offset = self._entries[-1]
            self._report.unless_unclean(
                self._facts,
                self._shown,
                f"epoch {epoch} begins at offset {start_offset}, and the log ends at {log_end_offset}",
            )

    def _read(self, files: Files) -> None:
        for epoch, start_offset in read_lines(files, self._path, fields=2):
            self._entries.append(EpochEntry(to_int(self._path, epoch, bits=32), to_int(self._path, start_offset)))  # type: ignore[arg-type]
        for before, after in pairwise(self._entries):
            if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
                self._report.error(
                    self._shown,
                    f"epoch {after.epoch} from offset {after.start_offset} follows "
                    f"epoch {before.epoch} from offset {before.start_offset}: both must rise",
                )
                self._entries.clear()
                return
