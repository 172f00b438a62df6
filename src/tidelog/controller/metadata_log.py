"""The metadata log on disk: `__cluster_metadata-0`, a partition like any other, and its snapshots.

    00000000000000000000.log ...                      records since the last snapshots, and their indexes
    00000000000000000040-0000000001.checkpoint        what came before offset 40, in fewer records
    quorum-state                                      the election, see `tidelog.raft.quorum_state`

It answers the questions of `tidelog.raft.LogView` and does what the machine's effects on the log say. Everything runs on the
node's own thread; syncs and the writing of snapshots are slow work. The caller holds the lock of the log directory.

A fault of this disk is a fault of the node: nothing is known of the cluster without the log. It is told once: `tell_faults`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from tidelog.controller.control_batches import build_control_batch, read_control
from tidelog.controller.formatting import METADATA_PARTITION
from tidelog.controller.snapshot_file import Snapshot, SnapshotHead, build_snapshot
from tidelog.controller.snapshot_store import SnapshotStore
from tidelog.model import controller_config as keys
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from tidelog.raft import quorum_state
from tidelog.raft.control_records import ControlRecord
from tidelog.raft.errors import QuorumStateError
from tidelog.raft.log_view import EMPTY_LOG_END, OffsetAndEpoch
from tidelog.raft.messages import Batch
from tidelog.raft.quorum_state import QuorumState
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.storage.checked_batches import check_copied
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.fetched import FetchIsolation
from tidelog.storage.files import read_if_present
from tidelog.storage.log_config import LogConfig
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.recovery import LastKnown, open_log
from tidelog.storage.removals import DelayedRemovals
from tidelog.storage.seams import Seams
from tidelog.storage.segment import LOG_SUFFIX, file_name
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.errors import MalformedError
from tidelog.wire.internal_records import FramedRecord, decode_metadata_record, encode_metadata_record
from tidelog.wire.record_batch import BatchHeader, each_batch
from tidelog.wire.records import Record, build_batch, decode_batch

T = TypeVar("T")

METADATA_TOPIC_ID = TopicId((1).to_bytes(16, "big"))

_PRODUCER_ID_EXPIRATION_MS = 24 * 60 * 60 * 1000
# What is replayed comes in pieces of this size.
_READ_BYTES = 1024 * 1024
# A start walks along the headers of the last file, and there are two idle records a second: with a new file after a snapshot
# a start is fast however old the cluster is.
_ROLL_AFTER_BYTES = 1024 * 1024
# Enough for a file of 22 MB. The indexes of the active file take their space at once, and a small node has little to give.
_INDEX_BYTES = 64 * 1024


class MetadataLogConfig(Struct, frozen=True):
    """Sizes and ages. A negative retention is none."""

    segment_bytes: int = keys.METADATA_LOG_SEGMENT_BYTES.default
    segment_ms: int = keys.METADATA_LOG_SEGMENT_MS.default
    retention_bytes: int = keys.METADATA_MAX_RETENTION_BYTES.default
    retention_ms: int = keys.METADATA_MAX_RETENTION_MS.default

    @classmethod
    def from_values(cls, values: ConfigValues) -> MetadataLogConfig:
        return cls(
            segment_bytes=values[keys.METADATA_LOG_SEGMENT_BYTES],
            segment_ms=values[keys.METADATA_LOG_SEGMENT_MS],
            retention_bytes=values[keys.METADATA_MAX_RETENTION_BYTES],
            retention_ms=values[keys.METADATA_MAX_RETENTION_MS],
        )

    def log_config(self) -> LogConfig:
        # Expiry is by snapshots, never by the segments' own age; a removed file has no reader that would need its name.
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            segment_index_bytes=_INDEX_BYTES,
            retention_bytes=-1,
            retention_ms=-1,
            file_delete_delay_ms=0,
        )


class LoggedBatch(Struct, frozen=True):
    """One batch of the log: metadata records, or the quorum's own control records, in which case `records` is empty."""

    base_offset: Offset
    next_offset: Offset
    epoch: LeaderEpoch
    timestamp_ms: int
    size_bytes: int
    records: tuple[FramedRecord, ...]
    control: tuple[ControlRecord, ...] = ()


class MetadataLog:
    """The log, open. Implements `tidelog.raft.log_view.LogView`."""

    def __init__(
        self,
        seams: Seams,
        log: PartitionLog,
        snapshots: SnapshotStore,
        config: MetadataLogConfig,
        host: _Host,
    ) -> None:
        self._seams = seams
        self._files = seams.files
        self._log = log
        self._snapshots = snapshots
        self._config = config
        self._host = host
        self._being_written: OffsetAndEpoch | None = None

    @classmethod
    def open(
        cls,
        seams: Seams,
        log_directory: str,
        config: MetadataLogConfig,
        *,
        open_segments: OpenSegments | None = None,
    ) -> MetadataLog:
        """The log in a log directory, made if there is none. All of it is durable on return."""
        path = f"{log_directory}/{METADATA_PARTITION}"
        files = seams.files
        if not files.is_dir(path):
            files.make_directory(path)
            files.sync_directory(log_directory)
        snapshots = SnapshotStore(files, path)
        latest = max(snapshots.ids, default=None)
        host = _Host(seams, open_segments or OpenSegments())
        # A snapshot is written after the log before it was synced, so there is nothing to recover before the last one.
        known = LastKnown(recovery_point=Offset(0) if latest is None else latest.offset)
        log = open_log(
            host,
            path,
            METADATA_PARTITION,
            config.log_config(),
            known,
            producer_id_expiration_ms=_PRODUCER_ID_EXPIRATION_MS,
        )
        if log.assign_topic_id(METADATA_TOPIC_ID) is not ErrorCode.NONE:
            raise DamagedFileError(f"{path}/partition.metadata", "it is not that of the metadata log")
        opened = cls(seams, log, snapshots, config, host)
        if latest is not None and latest > opened.end():
            # A crash came after a snapshot was fetched and before the log made way for it.
            log.truncate_fully_and_start_at(latest.offset)
        if opened.start_offset() > 0 and (latest is None or latest.offset < opened.start_offset()):
            raise DamagedFileError(
                path, f"the log begins at offset {opened.start_offset()}, and no snapshot holds what came before"
            )
        log.flush()
        files.sync_directory(path)
        return opened

    def tell_faults(self, on_fault: Callable[[StorageError], None]) -> None:
        """Whom to tell of the first fault of the disk, once."""
        self._host.on_fault = on_fault

    @property
    def directory(self) -> str:
        return self._log.directory

    @property
    def size_bytes(self) -> int:
        """Log and snapshots together."""
        return self._log.size_bytes + self._snapshots.size_bytes

    # --- what the machine asks ---------------------------------------------------------------------------------------------

    def end(self) -> OffsetAndEpoch:
        end_offset = self._log.log_end_offset
        epoch = self._log.leader_epochs.latest_epoch
        return OffsetAndEpoch(offset=end_offset, epoch=self._snapshot_epoch(end_offset) if epoch is None else epoch)

    def start_offset(self) -> Offset:
        return self._log.log_start_offset

    def end_of_epoch(self, epoch: LeaderEpoch) -> OffsetAndEpoch:
        found: LeaderEpoch | None = None
        for entry in self._log.leader_epochs.entries:
            if entry.epoch > epoch:
                if found is None:
                    break
                return OffsetAndEpoch(offset=entry.start_offset, epoch=found)
            found = entry.epoch
        if found is None:
            return self.earliest_snapshot_id() or EMPTY_LOG_END
        return OffsetAndEpoch(offset=self._log.log_end_offset, epoch=found)

    def epoch_before(self, offset: Offset) -> LeaderEpoch:
        epoch = self._log.leader_epochs.epoch_for_offset(offset - 1)
        return self._snapshot_epoch(offset) if epoch is None else epoch

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return min(self._snapshots.ids, default=None)

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return max(self._snapshots.ids, default=None)

    def snapshot_size_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        return self._snapshots.size_of(snapshot_id)

    def _snapshot_epoch(self, end_offset: Offset) -> LeaderEpoch:
        """The epoch of the last record before an offset that only a snapshot holds."""
        for snapshot_id in self._snapshots.ids:
            if snapshot_id.offset == end_offset:
                return snapshot_id.epoch
        return EMPTY_LOG_END.epoch

    # --- reading -----------------------------------------------------------------------------------------------------------

    def latest_snapshot(self) -> tuple[OffsetAndEpoch, Snapshot] | None:
        """The newest snapshot, read. `DamagedFileError` where it is not whole."""
        latest = self.latest_snapshot_id()
        return None if latest is None else (latest, self._snapshots.read(latest))

    def control_records(self) -> Iterator[tuple[Offset, ControlRecord]]:
        """Every control record that still counts, with its offset: those of the newest snapshot, then those of the log.

        The snapshot's count at the last offset that it holds; those of the bootstrap checkpoint at -1.
        """
        start = self.start_offset()
        latest = self.latest_snapshot_id()
        if latest is not None:
            start = latest.offset
            for record in self._snapshots.head(latest).control:
                yield Offset(start - 1), record
        for data, position, header in self._headers(start, self._log.log_end_offset):
            if header.is_control:
                for number, record in enumerate(self._control(data, position, header)):
                    yield Offset(header.base_offset + number), record

    def batches(self, start: Offset, end: Offset) -> Iterator[LoggedBatch]:
        """The batches from `start`, where one begins, up to `end`, exclusive, decoded."""
        for data, position, header in self._headers(start, end):
            records: tuple[FramedRecord, ...] = ()
            control: tuple[ControlRecord, ...] = ()
            if header.is_control:
                control = self._control(data, position, header)
            else:
                records = self._records(data, position, header)
            yield LoggedBatch(
                Offset(header.base_offset),
                Offset(header.next_offset),
                LeaderEpoch(header.partition_leader_epoch),
                header.max_timestamp,
                header.size_bytes,
                records,
                control,
            )

    def read_for_follower(self, offset: Offset, bytes_max: int) -> tuple[Batch, ...]:
        """Whole batches from `offset` on as a follower gets them: at least one where there is one."""
        found: list[Batch] = []
        size = 0
        for data, position, header in self._headers(offset, self._log.log_end_offset):
            size += header.size_bytes
            if found and size > bytes_max:
                break
            found.append(
                Batch(
                    Offset(header.base_offset),
                    Offset(header.next_offset),
                    LeaderEpoch(header.partition_leader_epoch),
                    self._control(data, position, header) if header.is_control else (),
                    data[position : position + header.size_bytes],
                )
            )
            if size >= bytes_max:
                break
        return tuple(found)

    def read_snapshot_bytes(self, snapshot_id: OffsetAndEpoch, position: int, bytes_max: int) -> bytes:
        """A piece of a snapshot, for a follower."""
        return self._snapshots.read_bytes(snapshot_id, position, bytes_max)

    def _headers(self, start: Offset, end: Offset) -> Iterator[tuple[bytes, int, BatchHeader]]:
        while start < end:
            fetched = self._log.read(start, _READ_BYTES, upper_bound=FetchIsolation.LOG_END)
            if isinstance(fetched, ErrorCode) or not fetched.regions:
                raise DamagedFileError(self.directory, f"offset {start} of the metadata log cannot be read")
            data = b"".join(region.read() for region in fetched.regions)
            for position, header in each_batch(data):
                if header.base_offset >= end:
                    return
                if header.base_offset >= start:
                    yield data, position, header
                    start = Offset(header.next_offset)

    def _control(self, data: bytes, position: int, header: BatchHeader) -> tuple[ControlRecord, ...]:
        try:
            return read_control(decode_batch(data, header, position))
        except (CorruptBatchError, MalformedError) as error:
            raise DamagedFileError(self.directory, f"the batch at offset {header.base_offset}: {error}") from error

    def _records(self, data: bytes, position: int, header: BatchHeader) -> tuple[FramedRecord, ...]:
        try:
            return tuple(
                decode_metadata_record(b"" if row.value is None else row.value)
                for row in decode_batch(data, header, position)
            )
        except (CorruptBatchError, MalformedError) as error:
            raise DamagedFileError(self.directory, f"the batch at offset {header.base_offset}: {error}") from error

    # --- what the machine's effects do -------------------------------------------------------------------------------------

    def append(self, batches: Sequence[Batch]) -> None:
        """Write batches at the end: the machine's control batches, records of this leader, or bytes from another one."""
        now_ms = self._seams.clock.now_ms()
        checked = check_copied(b"".join(_encoded(batch, now_ms) for batch in batches))
        appended = checked if isinstance(checked, AppendRefused) else self._log.append(checked, AppendRule.RAFT)
        is_refused = isinstance(appended, AppendRefused) or AppendRefused in map(type, appended)
        if is_refused or self._log.log_end_offset != batches[-1].next_offset:
            # Batches are checked before the machine hears of them, and it decides offsets and epochs.
            raise RuntimeError(f"the metadata log cannot take a batch that the quorum decided on: {appended}")

    def flush(self, then: Callable[[], None]) -> None:
        """Make all that is in the log durable, and call back."""
        self._log.flush_in_background(then)

    def truncate(self, end_offset: Offset) -> None:
        """Cut the log. Durable on return."""
        self._log.truncate_to(end_offset)
        if self._log.log_end_offset != end_offset:
            raise RuntimeError(
                f"the metadata log was cut at {self._log.log_end_offset}, where {end_offset} was asked for"
            )
        self._host.removals.run_due()

    def committed(self, offset: Offset) -> None:
        """Everything below is committed."""
        self._log.set_high_watermark(offset)

    def write_part(self, snapshot_id: OffsetAndEpoch, position: int, data: bytes) -> None:
        """Write a piece of a snapshot that is being fetched; position 0 begins it anew."""
        self._snapshots.write_part(snapshot_id, position, data)

    def abandon_part(self) -> None:
        """Remove what was fetched of a snapshot that is no longer wanted."""
        self._snapshots.abandon_part()

    def install_part(self, snapshot_id: OffsetAndEpoch) -> SnapshotHead:
        """Put a snapshot that was fetched to its end in the place of the log. Durable on return. What its head says."""
        head = self._snapshots.finish_part(snapshot_id)
        self._log.truncate_fully_and_start_at(snapshot_id.offset)
        for older in self._snapshots.ids:
            if older < snapshot_id:
                self._snapshots.remove(older)
        self._host.removals.run_due()
        return head

    # --- the election ------------------------------------------------------------------------------------------------------

    def read_quorum_state(self) -> QuorumState | None:
        """The election as it was written down last. `DamagedFileError` where it makes no sense: a vote must not be forgotten."""
        path = f"{self.directory}/{quorum_state.FILE_NAME}"
        content = read_if_present(self._files, path, quorum_state.TEXT_BYTES_MAX)
        if content is None:
            return None
        try:
            return quorum_state.from_text(content.decode("utf-8"))
        except (UnicodeDecodeError, QuorumStateError) as error:
            raise DamagedFileError(path, str(error)) from error

    def save_quorum_state(self, state: QuorumState, then: Callable[[], None]) -> None:
        """Write the election down, durably, and call back."""
        files, path = self._files, f"{self.directory}/{quorum_state.FILE_NAME}"
        data = quorum_state.to_text(state).encode("ascii")
        self._slowly(lambda: files.write_bytes_atomically(path, data), lambda _: then())

    # --- snapshots ---------------------------------------------------------------------------------------------------------

    def write_snapshot(
        self,
        snapshot_id: OffsetAndEpoch,
        head: SnapshotHead,
        records: Callable[[], Iterable[FramedRecord]],
        then: Callable[[], None],
    ) -> bool:
        """Write a snapshot away from the data path; `records` is called there. False where one is being written already.

        Everything before `snapshot_id` is committed. The log is synced first: a start takes what a snapshot covers for durable.
        """
        if self._being_written is not None or snapshot_id in self._snapshots:
            return False
        self._being_written = snapshot_id
        snapshots, now_ms = self._snapshots, self._seams.clock.now_ms()

        def work() -> int:
            batches = build_snapshot(head, records(), epoch=snapshot_id.epoch, timestamp_ms=now_ms)
            return snapshots.write(snapshot_id, batches)

        def written(size: int) -> None:
            self._being_written = None
            snapshots.add(snapshot_id, size)
            active = file_name(self._log.segment_base_offsets[-1], LOG_SUFFIX)
            if self._files.size_of(f"{self.directory}/{active}") > _ROLL_AFTER_BYTES:
                self._log.roll()
            then()

        self._log.flush_in_background(lambda: self._slowly(work, written))
        return True

    def clean(self) -> Offset | None:
        """Remove what has become too old or too much and is in a newer snapshot. The new start of the log, if it moved."""
        moved = False
        while len(self._snapshots) > 1 and self._is_oldest_expired():
            oldest, kept = self._snapshots.ids[:2]
            if kept.offset > self._log.high_watermark:
                break
            self._snapshots.remove(oldest)
            self._log.delete_records_before(kept.offset)
            self._log.remove_segments_before_start()
            moved = True
        if moved:
            self._host.removals.run_due()
        return self.start_offset() if moved else None

    def _is_oldest_expired(self) -> bool:
        if 0 <= self._config.retention_bytes < self.size_bytes:
            return True
        if self._config.retention_ms < 0:
            return False
        contained_ms = self._snapshots.head(self._snapshots.ids[0]).last_contained_ms
        return self._seams.clock.now_ms() - contained_ms > self._config.retention_ms

    # --- the end -----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop cleanly."""
        self.abandon_part()
        self._log.close()

    def release(self) -> None:
        """Let go of all files as they are, as a crash would."""
        self._snapshots.release()
        self._log.release()

    def _slowly(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        def done(outcome: T | BaseException) -> None:
            if isinstance(outcome, StorageError):
                self._host.report_fault(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                then(outcome)

        self._seams.slow_work.submit(work, done)


class _Host:
    """What the log needs of a log directory. Its start and recovery point follow from the snapshots, so none is saved."""

    def __init__(self, seams: Seams, open_segments: OpenSegments) -> None:
        self.seams = seams
        self.open_segments = open_segments
        self.removals = DelayedRemovals(seams, self.report_fault)
        self.on_fault: Callable[[StorageError], None] = _raise
        self._is_faulty = False

    def report_fault(self, error: StorageError) -> None:
        if not self._is_faulty:
            self._is_faulty = True
            self.on_fault(error)

    def save_recovery_points(self) -> None: ...

    def save_log_start_offsets(self) -> None: ...

    def note_truncated(self, topic_partition: TopicPartition, offset: Offset) -> None: ...


def _raise(error: StorageError) -> None:
    raise error


def _encoded(batch: Batch, now_ms: int) -> bytes:
    match batch.payload:
        case None:
            return build_control_batch(
                batch.control, base_offset=batch.base_offset, epoch=batch.epoch, timestamp_ms=now_ms
            )
        case bytes(data):
            return data
        case tuple(records):
            rows = [
                Record(batch.base_offset + number, now_ms, None, encode_metadata_record(record.message, record.version))
                for number, record in enumerate(records)
            ]
            return build_batch(rows, base_offset=batch.base_offset, leader_epoch=batch.epoch)
        case _:
            raise TypeError(f"{type(batch.payload).__name__} cannot be written to the metadata log")
