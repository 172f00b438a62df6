"""Checks a data directory: its own files, every partition in it, and the one against the other.

`verify` takes what `data_directories` finds at a path, and only reads. It may be run on the directory of a broker that
runs: the small files are read before the logs they speak of, so that what a log has gained since explains itself. The lock is
not touched: closing a file that this very process has locked would drop its lock.

While a node uses the directory (its lock is held), segments are replaced and files come and go between two reads. A partition in
which something seems wrong is then looked at again, and only what is found every time is a finding.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from tidelog.model.ids import Offset, TopicId, TopicName, TopicPartition, uuid_to_text
from tidelog.storage import clean_shutdown, meta_properties, partition_metadata
from tidelog.storage.checkpoint_file import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offsets,
)
from tidelog.storage.errors import StorageError
from tidelog.storage.files import Files
from tidelog.storage.log_directory import LOCK_FILE
from tidelog.storage.partition_directory import DirectoryKind, PartitionDirectory, parse_name
from tidelog.storage.verification.data_directories import (
    CHECKPOINTS,
    DATA_DIRECTORY_NAMES,
    directories_at,
    is_partition,
)
from tidelog.storage.verification.findings import PartitionFacts, Report, Severity
from tidelog.storage.verification.metadata_check import (
    BOOTSTRAP_SNAPSHOT,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    KnownTopics,
    check_quorum_state,
    check_snapshot,
    check_snapshots,
    is_metadata_file,
)
from tidelog.storage.verification.partition_check import PartitionCheck

# Compaction and retention change a segment at a time: what two more looks find as well is not their doing.
LOOKS_MAX = 3

Checkpoints = dict[str, dict[TopicPartition, Offset]]


def verify(files: Files, path: str, *, decodes_records: bool = False) -> Report:
    """Check what `path` means: a data directory, several of them, or one partition.

    With `decodes_records` every record is looked into. NotADataDirectoryError or StorageError where there is nothing
    that could be checked; all else is a finding.
    """
    report = Report()
    for directory in directories_at(files, path):
        names = files.list_directory(directory)
        if is_partition(names):
            found = _verify_partition(files, directory, decodes_records=decodes_records)
        else:
            found = DataDirectoryCheck(files, directory, names, decodes_records=decodes_records).run()
        # Findings below what was named are shown as they are found from there.
        below = directory.removeprefix(path.rstrip("/")).lstrip("/") if files.is_dir(path) else ""
        report.include(found, f"{below}/" if below else "")
    return report


def _verify_partition(files: Files, directory: str, *, decodes_records: bool) -> Report:
    """Check one partition, with what the data directory around it says if there is one."""
    report = Report()
    absolute = os.path.abspath(directory)
    parent = os.path.dirname(absolute)
    named = parse_name(os.path.basename(absolute))
    checkpoints: Checkpoints = {}
    was_clean = in_use = False
    if files.exists(f"{parent}/{meta_properties.FILE_NAME}"):
        in_use = files.is_locked(f"{parent}/{LOCK_FILE}")
        was_clean = clean_shutdown.was_clean_shutdown(files, parent)
        # What is wrong with the parent's files is not this partition's finding.
        checkpoints = _read_checkpoints(files, parent, Report())
    partition = named.topic_partition if named is not None else None
    _PartitionLook(
        files,
        directory,
        "",
        partition,
        checkpoints,
        KnownTopics(report),
        was_clean=was_clean,
        in_use=in_use,
        decodes_records=decodes_records,
    ).look(report)
    return report


class DataDirectoryCheck:
    """One data directory, checked by `run`."""

    def __init__(self, files: Files, directory: str, names: list[str], *, decodes_records: bool) -> None:
        self._files = files
        self._directory = directory
        self._names = names
        self._decodes_records = decodes_records
        self._report = Report()
        # By topic: its id, and the partition that named it.
        self._topic_ids: dict[TopicName, tuple[TopicId, TopicPartition]] = {}
        self._known_topics = KnownTopics(self._report)
        self._in_use = files.is_locked(f"{directory}/{LOCK_FILE}")

    def run(self) -> Report:
        self._check_meta_properties()
        was_clean = self._check_clean_shutdown()
        checkpoints = _read_checkpoints(self._files, self._directory, self._report)
        partitions = self._sort_names()
        self._check_existence(checkpoints, self._existing(partitions.values()))
        if BOOTSTRAP_SNAPSHOT in self._names:
            path = f"{self._directory}/{BOOTSTRAP_SNAPSHOT}"
            check_snapshot(self._files, path, BOOTSTRAP_SNAPSHOT, self._report, self._known_topics)
        # The metadata first: they name the topics of all others.
        for name, named in sorted(partitions.items(), key=lambda each: each[1].topic_partition.topic != METADATA_TOPIC):
            check = _PartitionLook(
                self._files,
                f"{self._directory}/{name}",
                f"{name}/",
                named.topic_partition,
                # The checkpoints are about the partition that serves, not about the one that is to replace it.
                checkpoints if named.kind is DirectoryKind.CURRENT else {},
                self._known_topics,
                was_clean=was_clean,
                in_use=self._in_use,
                decodes_records=self._decodes_records,
            ).look(self._report)
            if check.topic_id is not None:
                self._check_topic_id(f"{name}/{partition_metadata.FILE_NAME}", named.topic_partition, check.topic_id)
        return self._report

    def _check_meta_properties(self) -> None:
        name = meta_properties.FILE_NAME
        try:
            if meta_properties.read_meta_properties(self._files, self._directory) is None:
                self._report.warning(name, "the file is missing: no node knows the directory as its own")
        except StorageError as error:
            self._report.error(name, error.reason)

    def _check_clean_shutdown(self) -> bool:
        """Whether the directory was stopped cleanly; also if the mark is damaged, since its being there is what counts."""
        name = clean_shutdown.FILE_NAME
        if name not in self._names:
            return False
        try:
            mark = json.loads(self._files.read_bytes(f"{self._directory}/{name}", clean_shutdown.FILE_BYTES_MAX))
            if not isinstance(mark, dict) or type(mark.get("brokerEpoch")) is not int:
                self._report.warning(name, "it names no broker epoch: the controller will take the stop as unclean")
        except StorageError as error:
            if error.is_missing:
                return False
            self._report.warning(name, error.reason)
        except (ValueError, RecursionError):
            self._report.warning(name, "it is not JSON: the controller will take the stop as unclean")
        return True

    def _sort_names(self) -> dict[str, PartitionDirectory]:
        """Report what does not belong, and return the partitions to check."""
        partitions = {}
        unknown = []
        for name in self._names:
            named = parse_name(name)
            if name in DATA_DIRECTORY_NAMES:
                continue
            if named is None or not self._files.is_dir(f"{self._directory}/{name}"):
                unknown.append(name)
            elif named.kind is DirectoryKind.DELETE:
                self._report.note(name, "a partition that waits to be deleted; not checked")
            elif named.kind is DirectoryKind.STRAY:
                self._report.warning(name, "a partition that the cluster did not know, set aside; not checked")
            else:
                partitions[name] = named
        if unknown:
            more = f" (and {len(unknown) - 1} more like it)" if len(unknown) > 1 else ""
            self._report.note(unknown[0], f"it is none of Kafka's{more}")
        return partitions

    def _existing(self, partitions: Iterable[PartitionDirectory]) -> set[TopicPartition]:
        existing = {named.topic_partition for named in partitions}
        if self._in_use:
            # The checkpoints may tell of one that has come since the directory was listed.
            listed = map(parse_name, self._files.list_directory(self._directory))
            existing |= {named.topic_partition for named in listed if named is not None}
        return existing

    def _check_existence(self, checkpoints: Checkpoints, existing: set[TopicPartition]) -> None:
        for name, offsets in checkpoints.items():
            missing = sorted(offsets.keys() - existing)
            if missing:
                more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
                self._report.warning(name, f"it names {missing[0]}{more}, and there is no such partition here")

    def _check_topic_id(self, shown: str, partition: TopicPartition, topic_id: TopicId) -> None:
        known, other = self._topic_ids.setdefault(partition.topic, (topic_id, partition))
        if known != topic_id:
            self._report.error(
                shown, f"it says topic id {uuid_to_text(topic_id)}, and {other} says {uuid_to_text(known)}"
            )
            return
        named = {METADATA_TOPIC: {METADATA_TOPIC_ID}, **self._known_topics.ids}
        if len(named) == 1 and partition.topic != METADATA_TOPIC:
            return
        if partition.topic not in named:
            self._report.warning(
                shown,
                f"the cluster metadata know no topic {partition.topic}: Kafka will set the partition aside as a stray one",
            )
        elif topic_id not in named[partition.topic]:
            ids = ", ".join(sorted(map(uuid_to_text, named[partition.topic])))
            self._report.error(shown, f"it says topic id {uuid_to_text(topic_id)}, and the cluster metadata say {ids}")


def _read_checkpoints(files: Files, directory: str, report: Report) -> Checkpoints:
    checkpoints: Checkpoints = {}
    for name in CHECKPOINTS:
        try:
            checkpoints[name] = read_offsets(files, f"{directory}/{name}")
        except StorageError as error:
            report.error(name, error.reason)
    for name, offsets in checkpoints.items():
        for partition, offset in offsets.items():
            if offset < 0:
                report.error(name, f"it gives {partition} the impossible offset {offset}")
    return checkpoints


class _PartitionLook:
    """One partition's directory, with all that is known of it from outside."""

    def __init__(
        self,
        files: Files,
        directory: str,
        shown: str,
        partition: TopicPartition | None,
        checkpoints: Checkpoints,
        topics: KnownTopics,
        *,
        was_clean: bool,
        in_use: bool,
        decodes_records: bool,
    ) -> None:
        self._files = files
        self._directory = directory
        self._shown = shown
        self._topics = topics
        self._decodes_records = decodes_records
        self._is_metadata = partition is not None and partition.topic == METADATA_TOPIC

        def offset_in(name: str) -> Offset | None:
            return checkpoints.get(name, {}).get(partition) if partition is not None else None

        self._facts = PartitionFacts(
            # The metadata log is no part of a broker's clean stop: it is recovered at every start.
            was_clean=was_clean and not self._is_metadata,
            recovery_point=offset_in(RECOVERY_POINT_CHECKPOINT),
            log_start_offset=offset_in(LOG_START_OFFSET_CHECKPOINT),
            high_watermark=offset_in(REPLICATION_OFFSET_CHECKPOINT),
            cleaner_offset=offset_in(CLEANER_OFFSET_CHECKPOINT),
            is_internal=partition is not None and partition.topic.startswith("__"),
            in_use=in_use,
        )

    def look(self, report: Report) -> PartitionCheck:
        """Check it once; in a directory that is in use until nothing is wrong, or as often as tells that it stays so."""
        # The metadata log is read once: what it says of topics counts for all other partitions.
        if not self._facts.in_use or self._is_metadata:
            return self._check(report)
        first = Report()
        check = self._check(first)
        found = first.findings
        for _ in range(LOOKS_MAX - 1):
            if all(finding.severity is Severity.NOTE for finding in found) or not self._files.is_dir(self._directory):
                break
            again = Report()
            check = self._check(again)
            found = [finding for finding in found if finding in again.findings]
        report.include(Report(found, first.partitions, first.segments, first.batches, first.bytes_checked), "")
        return check

    def _check(self, report: Report) -> PartitionCheck:
        files, directory, shown, topics = self._files, self._directory, self._shown, self._topics
        check = PartitionCheck(files, directory, shown, report, self._facts, decodes_records=self._decodes_records)
        if not self._is_metadata:
            check.run()
            return check
        try:
            names = frozenset(filter(is_metadata_file, files.list_directory(directory)))
            check.run(names, topics.add)
            check_snapshots(files, directory, shown, report, topics, log_start_offset=check.log_start_offset)
            check_quorum_state(files, directory, shown, report, last_epoch=check.last_epoch)
        except StorageError as error:
            report.error(shown.rstrip("/") or ".", str(error))
        return check
