"""One of a node's log directories: the partitions in it, and what the files beside them say of them all.

    .lock                                held while a node uses the directory
    meta.properties                      whose it is
    .kafka_cleanshutdown                 the last stop was clean; removed first thing on a start, written last on a clean stop
    recovery-point-offset-checkpoint     up to where each log has been forced to disk
    log-start-offset-checkpoint          where a log starts, if not with its first segment
    replication-offset-checkpoint        the high watermarks
    cleaner-offset-checkpoint            up to where compaction has been
    <topic>-<partition>/                 a log each; see `partition_directory` for suffixes

    online -> offline                    at the first fault of the disk, for good: partitions raise, nothing more is written
           -> closed                     by `close`

A directory that goes offline says so once, to `on_offline`, with the reason as one sentence. Other directories go on.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping
from typing import Self

from tidelog.model.ids import BrokerEpoch, Offset, TopicId, TopicName, TopicPartition
from tidelog.model.pending import Pending
from tidelog.storage.checkpoint_file import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offsets,
    write_offsets,
)
from tidelog.storage.clean_shutdown import (
    read_clean_shutdown_epoch,
    remove_clean_shutdown,
    was_clean_shutdown,
    write_clean_shutdown,
)
from tidelog.storage.closing import Closing
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.files import Files, Lock, parent_of
from tidelog.storage.log_config import LogConfig
from tidelog.storage.meta_properties import MetaProperties, read_meta_properties
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.partition_directory import (
    NAME_LENGTH_MAX,
    DirectoryKind,
    directory_name,
    parse_name,
    suffixed_name,
)
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.recovery import LastKnown, new_log, open_log
from tidelog.storage.removals import DelayedRemovals
from tidelog.storage.seams import Seams
from tidelog.storage.settling import Settling

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"

# The metadata log is the quorum's own: it is opened by itself, and its files do not wait for the others.
METADATA_TOPIC = TopicName("__cluster_metadata")

# producer.id.expiration.ms
PRODUCER_ID_EXPIRATION_MS = 24 * 60 * 60 * 1000

ConfigOf = Callable[[TopicName], LogConfig]


class LogDirectory:
    """An open log directory. `open` locks it; `load` opens the partitions; `close` stops cleanly."""

    def __init__(
        self,
        seams: Seams,
        path: str,
        lock: Lock,
        identity: MetaProperties | None,
        *,
        config_of: ConfigOf,
        on_offline: Callable[[LogDirectory, StorageError], None],
        open_segments: OpenSegments,
        producer_id_expiration_ms: int,
    ) -> None:
        self.seams = seams
        self.path = path
        self.identity = identity
        self.open_segments = open_segments
        self.removals = DelayedRemovals(seams, self.report_fault)
        self._settling = Settling(seams, path, self.report_fault)
        self.fault: StorageError | None = None
        self.partitions: dict[TopicPartition, PartitionLog] = {}
        self.future_partitions: dict[TopicPartition, PartitionLog] = {}
        self.cleaner_offsets: dict[TopicPartition, Offset] = {}
        self.was_clean = False
        self.last_broker_epoch: BrokerEpoch | None = None
        self.on_expired: Callable[[TopicPartition, PartitionLog], None] | None = None
        """Told of a log whose start retention has moved."""
        self._files = seams.files
        self._lock = lock
        self._config_of = config_of
        self._on_offline = on_offline
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._log_starts: dict[TopicPartition, Offset] = {}
        self._recovery_points: dict[TopicPartition, Offset] = {}
        # By checkpoint, the names of deleted logs of which it still tells. A new log of such a name must not be taken for it.
        self._stale: dict[str, set[TopicPartition]] = {
            name: set() for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT)
        }
        # Not before all logs are there may the checkpoints be replaced: they would lose those that are still to come.
        self._is_loaded = False
        self._is_let_go = False

    @classmethod
    def open(
        cls,
        seams: Seams,
        path: str,
        *,
        config_of: ConfigOf,
        on_offline: Callable[[LogDirectory, StorageError], None] | None = None,
        open_segments: OpenSegments | None = None,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> Self:
        """Lock a directory, making it if there is none. StorageError if it is in use or cannot be used."""
        _make_directory_durably(seams.files, path)
        lock = seams.files.lock(f"{path}/{LOCK_FILE}")
        try:
            identity = read_meta_properties(seams.files, path)
        except StorageError:
            lock.release()
            raise
        return cls(
            seams,
            path,
            lock,
            identity,
            config_of=config_of,
            on_offline=_log_offline if on_offline is None else on_offline,
            open_segments=OpenSegments() if open_segments is None else open_segments,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )

    @property
    def is_offline(self) -> bool:
        return self.fault is not None

    # --- loading -----------------------------------------------------------------------------------------------------------

    def load(self, *, is_stray: Callable[[PartitionLog], bool] | None = None) -> None:
        """Open every partition. `is_stray` says which belong to no topic any more: those are set aside, not deleted.

        On a fault the directory is offline afterwards; nothing is raised.
        """
        try:
            self.was_clean = was_clean_shutdown(self._files, self.path)
            self.last_broker_epoch = read_clean_shutdown_epoch(self._files, self.path)
            # From here on a crash must be noticed by the next start.
            remove_clean_shutdown(self._files, self.path)
            self._recovery_points = self._read(RECOVERY_POINT_CHECKPOINT)
            self._log_starts = self._read(LOG_START_OFFSET_CHECKPOINT)
            self.cleaner_offsets = self._read(CLEANER_OFFSET_CHECKPOINT)
            high_watermarks = self._read(REPLICATION_OFFSET_CHECKPOINT)
            for name in self._files.list_directory(self.path):
                directory = parse_name(name)
                if directory is None or directory.topic_partition.topic == METADATA_TOPIC:
                    continue
                if not self._files.is_dir(f"{self.path}/{name}"):
                    continue
                self._load_partition(name, directory.topic_partition, directory.kind, high_watermarks, is_stray)
            self._is_loaded = True
            self._stale[RECOVERY_POINT_CHECKPOINT] = self._recovery_points.keys() - self.partitions.keys()
            self._stale[LOG_START_OFFSET_CHECKPOINT] = self._log_starts.keys() - self.partitions.keys()
            self._stale[CLEANER_OFFSET_CHECKPOINT] = self.cleaner_offsets.keys() - self.partitions.keys()
            for gone in self._stale[CLEANER_OFFSET_CHECKPOINT]:
                del self.cleaner_offsets[gone]
            known = bool(self.partitions or self._recovery_points or self._log_starts or high_watermarks)
            if known and not self.was_clean:
                # A log that came back shorter, or not at all, must not be taken for durable by what it was before. At a first
                # start there is none, and six fsyncs would be most of what it waits for the disk.
                self.save_recovery_points()
                self.save_log_start_offsets()
                self.save_high_watermarks()
        except StorageError as error:
            self.report_fault(error)

    def _load_partition(
        self,
        name: str,
        topic_partition: TopicPartition,
        kind: DirectoryKind,
        high_watermarks: Mapping[TopicPartition, Offset],
        is_stray: Callable[[PartitionLog], bool] | None,
    ) -> None:
        path = f"{self.path}/{name}"
        if kind is DirectoryKind.DELETE:
            self.removals.add([path], self._config_of(topic_partition.topic).file_delete_delay_ms)
            return
        if kind is DirectoryKind.STRAY:
            logger.warning("%s belongs to no topic; it is kept, and not used", path)
            return
        partitions = self.partitions if kind is DirectoryKind.CURRENT else self.future_partitions
        if topic_partition in partitions:
            raise DamagedFileError(path, f"there is a second directory for {topic_partition}; delete one of the two")
        # Kafka's checkpoints know a partition by its name alone, the current one's.
        is_current = kind is DirectoryKind.CURRENT
        log = self._open_log(path, topic_partition, was_clean=self.was_clean, known=is_current)
        if is_current and is_stray is not None and is_stray(log):
            log.release()
            log.rename_directory(
                f"{self.path}/{suffixed_name(topic_partition, DirectoryKind.STRAY, self.seams.random)}"
            )
            logger.warning("%s belongs to no topic that the cluster knows; it is now %s", path, log.directory)
            return
        log.set_high_watermark(high_watermarks.get(topic_partition, Offset(0)))
        partitions[topic_partition] = log

    def _open_log(self, path: str, topic_partition: TopicPartition, *, was_clean: bool, known: bool) -> PartitionLog:
        last = LastKnown(was_clean=was_clean)
        if known:
            last = LastKnown(
                self._log_starts.get(topic_partition, Offset(0)),
                self._recovery_points.get(topic_partition, Offset(0)),
                was_clean,
                was_compacted=topic_partition in self.cleaner_offsets,
            )
        return open_log(
            self,
            path,
            topic_partition,
            self._config_of(topic_partition.topic),
            last,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
        )

    def _read(self, name: str) -> dict[TopicPartition, Offset]:
        """A checkpoint. One that makes no sense says nothing, as in Kafka: everything is then read again."""
        try:
            return read_offsets(self._files, f"{self.path}/{name}")
        except DamagedFileError as error:
            logger.warning("%s; it is taken as empty", error)
            return {}

    # --- partitions --------------------------------------------------------------------------------------------------------

    def create_partition(
        self, topic_partition: TopicPartition, topic_id: TopicId | None, *, is_future: bool = False
    ) -> PartitionLog:
        """A new, empty log. The one that exists, if there is one.

        Nobody waits for the disk: `settle_new` has slow work force directory and topic id there, and the first record does so
        itself where it comes before.
        """
        partitions = self.future_partitions if is_future else self.partitions
        existing = partitions.get(topic_partition)
        if existing is not None:
            return existing
        self._check_online()
        name = directory_name(topic_partition)
        if is_future:
            name = suffixed_name(topic_partition, DirectoryKind.FUTURE, self.seams.random)
        path = f"{self.path}/{name}"
        if len(name) > NAME_LENGTH_MAX:
            # The topic's fault and not the disk's, so that the directory stays online.
            raise StorageError(path, "create", errno.ENAMETOOLONG)
        try:
            if any(topic_partition in names for names in self._stale.values()):
                self._forget_stale()
            if self._files.exists(path):
                # Something else has left it here, or a disk that failed once.
                log = self._open_log(path, topic_partition, was_clean=False, known=False)
                if topic_id is not None:
                    log.assign_topic_id(topic_id)
            else:
                self._files.make_directory(path)
                log = new_log(
                    self,
                    path,
                    topic_partition,
                    self._config_of(topic_partition.topic),
                    topic_id,
                    producer_id_expiration_ms=self._producer_id_expiration_ms,
                )
        except StorageError as error:
            self.report_fault(error)
            raise
        partitions[topic_partition] = log
        self._settling.add(log)
        return log

    def settle_later(self, log: PartitionLog) -> None:
        """A log that was found without an owner has got one."""
        self._settling.add(log)

    def settle_new(self) -> None:
        """Have slow work force the new logs to disk, as far as they have to be there before their first record."""
        if not self.is_offline:
            self._settling.begin()

    def _forget_stale(self) -> None:
        """Have the checkpoints tell of nothing but the logs that there are, and the names of deleted ones be gone."""
        self._files.sync_directory(self.path)
        self.save_recovery_points()
        self.save_log_start_offsets()
        if self._stale[CLEANER_OFFSET_CHECKPOINT]:
            self.save_cleaner_offsets()

    def open_metadata_log(self, topic_partition: TopicPartition) -> PartitionLog:
        """The log of the metadata quorum, made if there is none. It is not among `partitions`, and is always recovered."""
        self._check_online()
        path = f"{self.path}/{directory_name(topic_partition)}"
        try:
            self._files.make_directory(path)
            self._files.sync_directory(self.path)
            return self._open_log(path, topic_partition, was_clean=False, known=False)
        except StorageError as error:
            self.report_fault(error)
            raise

    def delete_partition(self, topic_partition: TopicPartition, *, is_future: bool = False) -> None:
        """Take a log out of use. Its directory is renamed at once, and removed after `file.delete.delay.ms`.

        Nobody waits for the disk: a crash may bring the directory back, as one that belongs to no topic any more.
        """
        self._set_aside(topic_partition, DirectoryKind.DELETE, is_future=is_future)

    def set_aside_stray(self, topic_partition: TopicPartition) -> None:
        """Take a log out of use that belongs to no topic any more, and keep its files for a person to look at."""
        self._set_aside(topic_partition, DirectoryKind.STRAY, is_future=False)

    def _set_aside(self, topic_partition: TopicPartition, kind: DirectoryKind, *, is_future: bool) -> None:
        self._check_online()
        partitions = self.future_partitions if is_future else self.partitions
        log = partitions.pop(topic_partition)
        log.release()
        log.rename_directory(
            f"{self.path}/{suffixed_name(topic_partition, kind, self.seams.random)}", sync=kind is DirectoryKind.STRAY
        )
        if kind is DirectoryKind.DELETE:
            self.removals.add([log.directory], log.config.file_delete_delay_ms)
        if not is_future:
            self._log_starts.pop(topic_partition, None)
            self._recovery_points.pop(topic_partition, None)
            self._stale[RECOVERY_POINT_CHECKPOINT].add(topic_partition)
            self._stale[LOG_START_OFFSET_CHECKPOINT].add(topic_partition)
            if self.cleaner_offsets.pop(topic_partition, None) is not None:
                self._stale[CLEANER_OFFSET_CHECKPOINT].add(topic_partition)

    def promote_future(self, topic_partition: TopicPartition) -> PartitionLog:
        """The future log of a partition has caught up: it becomes the current one of this directory."""
        self._check_online()
        log = self.future_partitions.pop(topic_partition)
        log.rename_directory(f"{self.path}/{directory_name(topic_partition)}")
        self.partitions[topic_partition] = log
        return log

    # --- checkpoints -------------------------------------------------------------------------------------------------------

    def save_recovery_points(self) -> None:
        """Write down up to where each log has been forced to disk."""
        points = {partition: log.recovery_point for partition, log in self.partitions.items()}
        self._save(RECOVERY_POINT_CHECKPOINT, {**self._not_loaded(self._recovery_points), **points})

    def save_log_start_offsets(self) -> None:
        """Write down where the logs start that do not start with their first segment."""
        starts = {
            partition: log.log_start_offset for partition, log in self.partitions.items() if log.needs_saved_start()
        }
        self._save(LOG_START_OFFSET_CHECKPOINT, {**self._not_loaded(self._log_starts), **starts})
        for log in self.partitions.values():
            log.log_start_saved()

    def save_high_watermarks(self) -> None:
        """Write down the high watermarks."""
        marks = {partition: log.high_watermark for partition, log in self.partitions.items()}
        self._save(REPLICATION_OFFSET_CHECKPOINT, marks)

    def save_cleaner_offsets(self) -> None:
        """Write down up to where compaction has been."""
        self._save(CLEANER_OFFSET_CHECKPOINT, self.cleaner_offsets)

    def note_cleaned(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """A log has been cleaned up to `offset`, durably."""
        self.cleaner_offsets[topic_partition] = offset
        self.save_cleaner_offsets()

    def note_truncated(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """What is appended behind a truncation is dirty again."""
        if self.cleaner_offsets.get(topic_partition, offset) > offset and topic_partition in self.partitions:
            self.note_cleaned(topic_partition, offset)

    def _not_loaded(self, known: Mapping[TopicPartition, Offset]) -> Mapping[TopicPartition, Offset]:
        return {} if self._is_loaded else known

    def _save(self, name: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        self._check_online()
        try:
            write_offsets(self._files, f"{self.path}/{name}", offsets)
        except StorageError as error:
            self.report_fault(error)
            raise
        if self._is_loaded and name in self._stale:
            self._stale[name].clear()

    # --- what time brings --------------------------------------------------------------------------------------------------

    def apply_retention(self, applies_to: Callable[[PartitionLog], bool] = lambda _log: True) -> int:
        """Remove what has expired in all logs. Returns how many segments that were. The start offsets are saved once for all."""
        self._check_online()
        logs = [log for log in [*self.partitions.values(), *self.future_partitions.values()] if applies_to(log)]
        for log in logs:
            if log.expire() and self.on_expired is not None:
                self.on_expired(log.topic_partition, log)
        return sum(log.remove_segments_before_start() for log in logs)

    def flush_due(self) -> int:
        """Begin to flush the logs for which `flush.ms` is over. Returns how many."""
        self._check_online()
        due = [log for log in self.partitions.values() if log.is_flush_due()]
        for log in due:
            log.flush_in_background()
        return len(due)

    def expire_producers(self) -> int:
        """Forget silent producers in all logs. Returns how many."""
        return sum(log.expire_producers() for log in self.partitions.values())

    # --- the end -----------------------------------------------------------------------------------------------------------

    def report_fault(self, error: StorageError) -> None:
        """Go offline: the first fault counts, and is told."""
        if self.fault is not None:
            return
        self.fault = error
        for log in [*self.partitions.values(), *self.future_partitions.values()]:
            if log.fault is None:
                log.fault = error
            log.release()
        self._on_offline(self, error)

    def close(self, broker_epoch: BrokerEpoch) -> Pending[None]:
        """Stop cleanly: logs first, then the checkpoints, then the mark, then the lock. A fault leaves the mark unwritten.

        Complete when the lock is released. The logs are forced to disk by slow work, several at a time.
        """
        logs = [] if self.is_offline else [*self.partitions.values(), *self.future_partitions.values()]
        closed: Pending[None] = Pending()

        def logs_closed(_: None) -> None:
            if not self._is_let_go:
                self._write_end(broker_epoch)
                self._let_go()
            closed.complete(None)

        Closing(logs, self.seams.slow_work, self.report_fault).done.then(logs_closed)
        return closed

    def _write_end(self, broker_epoch: BrokerEpoch) -> None:
        if self.is_offline or not self._is_loaded:
            return
        try:
            self.save_recovery_points()
            self.save_log_start_offsets()
            self.save_high_watermarks()
            write_clean_shutdown(self._files, self.path, broker_epoch)
        except StorageError as error:
            self.report_fault(error)

    def abandon(self) -> None:
        """Let go of everything as it is, as a crash would: the next start recovers."""
        for log in [*self.partitions.values(), *self.future_partitions.values()]:
            log.release()
        self._let_go()

    def _let_go(self) -> None:
        self._is_let_go = True
        self._lock.release()

    def _check_online(self) -> None:
        if self.fault is not None:
            raise StorageError(self.path, "use", None, f"the log directory is offline, because of this: {self.fault}")


def _make_directory_durably(files: Files, path: str) -> None:
    missing = []
    while not files.exists(path):
        missing.append(path)
        path = parent_of(path)
    for each in reversed(missing):
        files.make_directory(each)
        files.sync_directory(parent_of(each))


def _log_offline(directory: LogDirectory, error: StorageError) -> None:
    logger.error(
        "log directory %s is offline, with its %d partitions: %s", directory.path, len(directory.partitions), error
    )
