"""Checks the directory of one partition: every file of it against every other.

    .log .index .timeindex     `segment_check`, one segment after the other; together they must not overlap
    .txnindex .snapshot        `producer_check`: aborted transactions and producers as the log has them
    leader-epoch-checkpoint    `epoch_check`: every batch lies in the range of its own epoch
    partition.metadata         is there and names a topic id

How bad a finding is depends on the stop: what recovery will repair after an unclean one is a warning, the same after a clean one
an error. Where nothing tells (a partition's directory by itself), the last segment counts as unclean and the others do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tidelog.model.ids import TopicId
from tidelog.storage import partition_metadata
from tidelog.storage.checkpoint_file import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.errors import StorageError
from tidelog.storage.files import Files
from tidelog.storage.producer_snapshot import offset_of_snapshot
from tidelog.storage.segment import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX
from tidelog.storage.verification.epoch_check import EpochCheck
from tidelog.storage.verification.findings import PartitionFacts, Report, Severity
from tidelog.storage.verification.log_scan import LogScan, ScannedBatch
from tidelog.storage.verification.producer_check import ProducerCheck
from tidelog.storage.verification.segment_check import SegmentCheck

_SEGMENT_FILE = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex)", re.ASCII)
_NAMES = {LEADER_EPOCH_CHECKPOINT, partition_metadata.FILE_NAME}

_LEFT_BEHIND = {
    DELETED_SUFFIX: (Severity.NOTE, "it waits to be deleted"),
    CLEANED_SUFFIX: (Severity.WARNING, "left by a compaction that did not finish; the next start removes it"),
    SWAP_SUFFIX: (Severity.WARNING, "left by a compaction that did not finish; the next start puts it in place"),
    ".tmp": (Severity.NOTE, "left by a write that did not finish"),
    ".part": (Severity.NOTE, "left by a snapshot that did not finish"),
    "": (Severity.NOTE, "it is none of Kafka's"),
}


class PartitionCheck:
    """One partition, checked by `run`. What it learns is left in its attributes."""

    def __init__(
        self,
        files: Files,
        directory: str,
        shown: str,
        report: Report,
        facts: PartitionFacts,
        *,
        decodes_records: bool = False,
    ) -> None:
        """`shown` comes before the names of files in findings: empty, or with a slash at its end."""
        self.topic_id: TopicId | None = None
        self.log_start_offset = 0
        self.log_end_offset: int | None = None
        """None if the end of the log is not known, because it is damaged or not there."""
        self.last_epoch = -1
        self._files = files
        self._directory = directory
        self._shown = shown
        self._report = report
        self._facts = facts
        self._decodes_records = decodes_records

    def run(
        self, known_names: frozenset[str] = frozenset(), each: Callable[[str, ScannedBatch], None] | None = None
    ) -> None:
        """Check everything. `known_names` are files that are somebody else's to check.

        `each` is given every batch of the log, and the path of its file as findings show it.
        """
        self._each = each
        try:
            names = self._files.list_directory(self._directory)
        except StorageError as error:
            self._report.error(self._shown_directory, str(error))
            return
        self._report.partitions += 1
        base_offsets = self._sort_names(names, known_names)
        self._read_partition_metadata()
        self._epochs = EpochCheck(self._files, self._directory, self._shown, self._report, self._facts)
        if not base_offsets:
            self._report.warning(self._shown_directory, "there is no segment in the partition's directory")
            return
        snapshots = [offset for name in names if (offset := offset_of_snapshot(name)) is not None]
        self._producers = ProducerCheck(self._files, self._directory, self._shown, self._report, self._facts, snapshots)
        self.log_start_offset = max(self._facts.log_start_offset or 0, base_offsets[0])
        self._producers.restart_at(base_offsets[0])
        for base_offset, following in zip(base_offsets, [*base_offsets[1:], None], strict=True):
            self._check_segment(base_offset, following)
        self.last_epoch = self._epochs.last_epoch
        if self.log_end_offset is not None:
            self._producers.finish(self.log_end_offset)
            self._epochs.finish(self.log_end_offset)
            self._check_facts(self.log_end_offset)

    @property
    def _shown_directory(self) -> str:
        return self._shown.rstrip("/") or "."

    def _sort_names(self, names: list[str], known_names: frozenset[str]) -> list[int]:
        """Report what does not belong, and return the base offsets of the segments in order."""
        segment_files = [match for name in names if (match := _SEGMENT_FILE.fullmatch(name)) is not None]
        base_offsets = {int(match[1]) for match in segment_files if match[2] == LOG_SUFFIX}
        for match in segment_files:
            if int(match[1]) not in base_offsets:
                self._report.warning(self._shown + match[0], "an index without its log file; the next start removes it")
        left: dict[str, list[str]] = {}
        for name in names:
            is_known = name in _NAMES or name in known_names or offset_of_snapshot(name) is not None
            if not is_known and _SEGMENT_FILE.fullmatch(name) is None:
                suffix = "." + name.rpartition(".")[2]
                left.setdefault(suffix if suffix in _LEFT_BEHIND else "", []).append(name)
        for suffix, found in left.items():
            severity, sentence = _LEFT_BEHIND[suffix]
            if self._facts.in_use and suffix in {CLEANED_SUFFIX, SWAP_SUFFIX}:
                severity, sentence = Severity.NOTE, "of a compaction that is under way"
            more = f" (and {len(found) - 1} more like it)" if len(found) > 1 else ""
            self._report.add(severity, self._shown + found[0], sentence + more)
        return sorted(base_offsets)

    def _read_partition_metadata(self) -> None:
        shown = self._shown + partition_metadata.FILE_NAME
        try:
            self.topic_id = partition_metadata.read_partition_metadata(self._files, self._directory)
        except StorageError as error:
            self._report.error(shown, error.reason)
            return
        if self.topic_id is None:
            self._report.warning(
                shown, "the file is missing: Kafka takes the partition for a stray one and sets it aside"
            )

    def _check_segment(self, base_offset: int, following: int | None) -> None:
        facts = self._facts
        is_finished = following is not None and (facts.recovery_point is None or following <= facts.recovery_point)
        segment = SegmentCheck(
            self._files,
            self._directory,
            self._shown,
            base_offset,
            self._report,
            is_trusted=facts.was_clean or is_finished,
            decodes_records=self._decodes_records,
        )
        shown = segment.shown(LOG_SUFFIX)
        if self.log_end_offset is not None and self.log_end_offset < base_offset:
            self._report_gap(shown, self.log_end_offset, base_offset)
        self._shown_log = shown
        self._producers.begin_segment(base_offset)
        try:
            scan = segment.run(self._add)
        except StorageError as error:
            self._report.error(shown, str(error))
            scan = None
        if scan is None:
            self._lose_track(following)
            return
        end = scan.next_offset if scan.next_offset is not None else base_offset
        if segment.gap is not None:
            self._report_gap(shown, *segment.gap)
        if segment.is_compacted or segment.gap is not None or self._is_compacted(base_offset):
            self._producers.forget_before(end)
        self._producers.end_segment(scan)
        self.log_end_offset = end
        if following is not None and end > following:
            self._report.error(shown, f"it reaches offset {end - 1}, and the next segment begins at {following}")
            self._lose_track(following)
        if scan.damage is not None:
            self._report_damage(scan, shown, following)
        elif scan.zeros:
            self._report.note(
                shown,
                f"{scan.zeros} zero bytes to the end: preallocated space, or a write that a crash swallowed",
                scan.position,
            )

    def _add(self, batch: ScannedBatch) -> None:
        self._epochs.add(batch.header, self.log_start_offset)
        self._producers.add(batch)
        if self._each is not None:
            self._each(self._shown_log, batch)

    def _report_gap(self, shown: str, expected: int, found: int) -> None:
        """Offsets that are missing are compaction's doing, or were in a file that is gone."""
        self._producers.forget_before(found)
        if not self._facts.is_internal and not self._is_compacted(expected):
            self._report.warning(
                shown,
                f"offsets {expected} to {found - 1} are missing: compaction leaves such gaps, and so does a lost file",
            )

    def _is_compacted(self, offset: int) -> bool:
        return self._facts.cleaner_offset is not None and offset < self._facts.cleaner_offset

    def _report_damage(self, scan: LogScan, shown: str, following: int | None) -> None:
        damage, offset = scan.damage, scan.next_offset or 0
        if damage is None:
            return
        is_torn_tail = following is None and damage.resumes_at is None
        if is_torn_tail and self._facts.is_recovered(offset):
            self._report.warning(
                shown,
                f"{damage.sentence}; recovery will cut the log at byte {damage.batch_position}, offset {offset}",
                damage.position,
            )
            return
        behind = (
            f"whole batches go on at byte {damage.resumes_at}, offset {damage.resumes_offset}"
            if damage.resumes_at is not None
            else "no whole batch follows in it"
        )
        self._report.error(
            shown,
            f"{damage.sentence}; the file is whole up to byte {damage.batch_position}, offset {offset}, and {behind}",
            damage.position,
        )
        if not is_torn_tail:
            self._lose_track(following)

    def _lose_track(self, following: int | None) -> None:
        """What a segment held is not known: go on with the next one as if it were the first."""
        self.log_end_offset = None
        if following is not None:
            self._producers.restart_at(following)

    def _check_facts(self, log_end_offset: int) -> None:
        """The offsets that the log directory's checkpoints give the partition."""
        facts = self._facts
        for name, offset in (
            ("recovery-point-offset-checkpoint", facts.recovery_point),
            ("log-start-offset-checkpoint", facts.log_start_offset),
        ):
            if offset is not None and offset > log_end_offset:
                self._report.error(
                    self._shown_directory, f"the {name} says {offset}, and the log ends at {log_end_offset}"
                )
        for name, offset in (
            ("replication-offset-checkpoint", facts.high_watermark),
            ("cleaner-offset-checkpoint", facts.cleaner_offset),
        ):
            if offset is not None and offset > log_end_offset:
                self._report.unless_unclean(
                    facts, self._shown_directory, f"the {name} says {offset}, and the log ends at {log_end_offset}"
                )
