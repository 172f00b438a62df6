"""The log of one partition: segments in a row, seen as one sequence of offsets.

    log_start_offset ............ high_watermark ............ log_end_offset
    what may be read first        what all in-sync replicas    what the next append gets
                                  have; moved by replication
    recovery_point: everything before it has been forced to disk; after a crash nothing before it is read again

A log is used from one thread, that of its node's event loop: appends go to the page cache at once, and only syncs that nobody
waits for are handed to `SlowWork`. What a client did wrong is a value (`AppendRefused`, `ErrorCode`). A fault of the disk is a
`StorageError`: the log directory is told, goes offline as a whole, and every later call raises.

Where this differs from Kafka, it is on the safe side: a truncation is durable when it returns, and it never leaves offsets
without a batch before the log's end; segments go only after the log's new start is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn, Protocol

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    Offset,
    TimestampMs,
    TopicId,
    TopicPartition,
)
from tidelog.storage.append import (
    NOT_TRANSACTIONAL,
    AppendInfo,
    AppendRefused,
    CheckedBatch,
    PlacedBatch,
    accept_batches,
    pack_place,
    place_batches,
)
from tidelog.storage.durability import Durability, SyncWork
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.file_region import FileRegion
from tidelog.storage.files import parent_of
from tidelog.storage.leader_epochs import EpochEndOffset, LeaderEpochs
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_reader import FoundRegion, LogReader
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.partition_metadata import (
    begin_partition_metadata,
    force_partition_metadata,
    name_partition_metadata,
)
from tidelog.storage.producer_append import AppendOrigin, Duplicate, EndTransactionMarker, PreparedUpdate, ProducerState
from tidelog.storage.producer_replay import apply_update, marker_of, replay_batch
from tidelog.storage.producer_state import ProducerStateTable
from tidelog.storage.removals import DelayedRemovals
from tidelog.storage.retention import expired_until
from tidelog.storage.seams import Seams
from tidelog.storage.segment import (
    DELETED_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SWAP_SUFFIX,
    FoundTimestamp,
    Segment,
    WrittenBatch,
)
from tidelog.storage.segment_list import SegmentList
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import BATCH_OVERHEAD, BytesLike, TimestampType, read_header

OFFSET_MAX = 2**63 - 1


class LogHost(Protocol):
    """What a log needs of the log directory that it lies in."""

    @property
    def seams(self) -> Seams: ...

    @property
    def open_segments(self) -> OpenSegments: ...

    @property
    def removals(self) -> DelayedRemovals: ...

    def report_fault(self, error: StorageError) -> None:
        """The disk failed: the directory goes offline."""
        ...

    def save_recovery_points(self) -> None:
        """Make the recovery points of all its logs durable: one of them has gone back."""
        ...

    def save_log_start_offsets(self) -> None:
        """Make the start offsets of all its logs durable, and tell each by `log_start_saved`."""
        ...

    def note_truncated(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """A log ends at `offset` now: what the cleaner's checkpoint says of it must not lie behind."""
        ...


@dataclass(slots=True)
class LogParts:
    """What a log is put together from when it is opened: see `recovery`."""

    segments: SegmentList
    leader_epochs: LeaderEpochs
    producers: ProducerStateTable
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    topic_id: TopicId | None
    is_durable: bool
    """Whether all of it is on disk as it is in memory, so that a clean stop has nothing to write."""
    is_settled: bool = True
    """Whether the topic id and the directory's name are on disk: see `settling`."""


class PartitionLog:
    """One partition on disk. `recovery.open_log` and `LogDirectory` make them."""

    def __init__(
        self, host: LogHost, directory: str, topic_partition: TopicPartition, config: LogConfig, parts: LogParts
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.config = config
        self.topic_id = parts.topic_id
        self.leader_epochs = parts.leader_epochs
        self.producers = parts.producers
        self.log_start_offset = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self.high_watermark = parts.log_start_offset
        self.fault: StorageError | None = None
        self.is_settled = parts.is_settled
        self._host = host
        self._seams = host.seams
        self._segments = parts.segments
        self._is_durable = parts.is_durable
        # The epoch of the last append: nothing is to be noted for another one of it.
        self._assigned_epoch: int = NO_LEADER_EPOCH
        self._reader = LogReader(parts.segments)
        self._durability = Durability(host.seams, parts.segments, directory, parts.recovery_point, self._note_fault)
        self._saved_log_start_offset = parts.log_start_offset
        # How to have the cleaning that is under way end.
        self._abandon_cleaning: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory}, [{self.log_start_offset}, {self.log_end_offset}))"

    # --- what is known -----------------------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_base_offsets(self) -> list[int]:
        return self._segments.base_offsets

    @property
    def first_unstable_offset(self) -> Offset | None:
        """The first offset in the log whose transaction is open, or ended above the high watermark."""
        first = self.producers.first_unstable_offset
        return None if first is None else max(first, self.log_start_offset)

    @property
    def last_stable_offset(self) -> Offset:
        """How far a reader of committed records may see."""
        first = self.producers.first_unstable_offset
        if first is None or first >= self.high_watermark:
            return self.high_watermark
        return max(first, self.log_start_offset)

    def set_high_watermark(self, offset: int) -> Offset:
        """Move the high watermark, within the log. Returns where it is now."""
        self.high_watermark = Offset(min(max(offset, self.log_start_offset), self.log_end_offset))
        self.producers.on_high_watermark_updated(self.high_watermark)
        return self.high_watermark

    def commit_up_to(self, offset: int) -> None:
        """`set_high_watermark` for an offset within the log that is beyond the present one."""
        self.high_watermark = Offset(offset)
        self.producers.on_high_watermark_updated(offset)

    # --- appending ---------------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        buffer: BytesLike,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        guard: int | None = None,
    ) -> AppendInfo | AppendRefused:
        """Append whole batches, giving them the next offsets and the leader's epoch, with one write.

        The batches are restamped in place, so `buffer` belongs to the log from here on; bytes are copied first. `guard`: see
        `ProducerStateTable.prepare`.
        """
        if self.fault is not None:
            self._raise_offline()
        if isinstance(buffer, bytes) or (isinstance(buffer, memoryview) and buffer.readonly):
            buffer = bytearray(buffer)
        append_time_ms = None
        if self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            append_time_ms = self._seams.clock.now_ms()
        placed = place_batches(
            buffer,
            origin=origin,
            first_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            append_time_ms=append_time_ms,
        )
        if isinstance(placed, AppendRefused):
            return placed
        if not placed:
            return AppendRefused(ErrorCode.INVALID_RECORD, "there is no record batch to append")
        return self._append(buffer, placed, origin, append_time_ms, transaction_version, guard)

    def append_run(self, run: Sequence[CheckedBatch], leader_epoch: int) -> Sequence[int | AppendInfo | AppendRefused]:
        """`append_as_leader` for several batches that have been checked, each by itself, with one write for all of them.

        Of each: its first offset, what it repeats, or why it was refused. Only where records keep their producers' time.
        """
        if self.fault is not None:
            self._raise_offline()
        size = last_offset_max = 0
        newest: int = NO_TIMESTAMP
        for view, delta, max_timestamp, _, _, _, _ in run:
            size += len(view)
            last_offset_max += delta + 1
            newest = max(newest, max_timestamp)
        segment = self._segments.active
        offset: int = self.log_end_offset
        last_offset_max += offset
        try:
            fits = (
                size <= self.config.segment_bytes
                and last_offset_max <= OFFSET_MAX
                and not segment.should_roll(self.config, size, last_offset_max, newest)
            )
        except StorageError as error:
            self._fail(error)
        if not fits:
            # What a producer's snapshot at the roll may know depends on which batch comes first in the new segment.
            return [
                self.append_as_leader(
                    batch.view, leader_epoch, guard=None if batch.guard == NOT_TRANSACTIONAL else batch.guard
                )
                for batch in run
            ]
        outcomes: list[int | AppendInfo | AppendRefused] = []
        views: list[memoryview] = []
        written: list[WrittenBatch] = []
        for batch in run:
            view, delta, max_timestamp, producer_id, _, _, _ = batch
            if producer_id >= 0:
                refused = self._follow_sequence(batch, offset)
                if refused is not None:
                    outcomes.append(refused)
                    continue
            size = len(view)
            pack_place(view, 0, offset, size - BATCH_OVERHEAD, leader_epoch)
            views.append(view)
            written.append((size, offset + delta, max_timestamp))
            outcomes.append(offset)
            offset += delta + 1
        if views:
            try:
                if leader_epoch != self._assigned_epoch and leader_epoch >= 0:
                    self._assign_epoch(leader_epoch, self.log_end_offset)
                self._is_durable = False
                segment.append(views, written)
                self.log_end_offset = Offset(offset)
                self.producers.update_map_end_offset(offset)
                if offset - self._durability.recovery_point >= self.config.flush_messages:
                    self._flush()
            except StorageError as error:
                self._fail(error)
        return outcomes

    def append_built(self, batch: bytearray, record_count: int, max_timestamp: int, leader_epoch: int) -> Offset | None:
        """`append_as_leader` for one whole batch of records that this node has just made, outside of any transaction and with
        their own time. Returns its first offset. None: nothing is written, and the batch is to go the ordinary way."""
        if self.fault is not None:
            self._raise_offline()
        config, offset, size = self.config, self.log_end_offset, len(batch)
        end = offset + record_count
        if end > OFFSET_MAX or leader_epoch != self._assigned_epoch:
            return None
        pack_place(batch, 0, offset, size - BATCH_OVERHEAD, leader_epoch)
        self._is_durable = False
        try:
            if not self._segments.active.append_one(config, batch, size, end - 1, max_timestamp):
                return None
            self.log_end_offset = Offset(end)
            self.producers.update_map_end_offset(end)
            if end - self._durability.recovery_point >= config.flush_messages:
                self._flush()
        except StorageError as error:
            self._fail(error)
        return offset

    def append_marker(
        self,
        batch: bytes,
        marker: EndTransactionMarker,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        transaction_version: int,
    ) -> int | AppendRefused:
        """`append_as_leader` for the marker that ends a transaction, which its coordinator has just made. Returns its offset.

        `batch` says what the other arguments do, and is not looked into.
        """
        if self.fault is not None:
            self._raise_offline()
        config, segment, offset, size = self.config, self._segments.active, self.log_end_offset, len(batch)
        keeps_create_time = config.message_timestamp_type is TimestampType.CREATE_TIME
        if leader_epoch == self._assigned_epoch and offset < OFFSET_MAX and keeps_create_time:
            state = self.producers.committed_by(producer_id, producer_epoch, marker, transaction_version)
            if state is not None and self._append_commit(batch, marker, state, producer_epoch, leader_epoch):
                return offset
        try:
            fits = (
                producer_id >= 0
                and keeps_create_time
                and size <= config.segment_bytes
                and offset < OFFSET_MAX
                and not segment.should_roll(config, size, offset, marker.timestamp)
            )
        except StorageError as error:
            self._fail(error)
        if not fits:
            appended = self.append_as_leader(
                batch, leader_epoch, origin=AppendOrigin.COORDINATOR, transaction_version=transaction_version
            )
            return appended if isinstance(appended, AppendRefused) else appended.first_offset
        update = self.producers.prepare_end(producer_id, producer_epoch, offset, marker, transaction_version)
        if isinstance(update, ErrorCode):
            return AppendRefused(update, f"producer {producer_id}: {update.message}")
        # A copy: the same marker goes to every partition of the transaction.
        placed = bytearray(batch)
        pack_place(placed, 0, offset, size - BATCH_OVERHEAD, leader_epoch)
        try:
            if leader_epoch != self._assigned_epoch and leader_epoch >= 0:
                self._assign_epoch(leader_epoch, offset)
            self._is_durable = False
            segment.append((placed,), ((size, offset, marker.timestamp),))
            self.log_end_offset = Offset(offset + 1)
            apply_update(self.producers, update, segment.transaction_index)
            self.producers.update_map_end_offset(offset + 1)
            if offset + 1 - self._durability.recovery_point >= config.flush_messages:
                self._flush()
        except StorageError as error:
            self._fail(error)
        return offset

    def _append_commit(
        self, batch: bytes, marker: EndTransactionMarker, state: ProducerState, producer_epoch: int, leader_epoch: int
    ) -> bool:
        """Write the marker that commits a producer's open transaction. False: nothing is written, as it takes more than that."""
        config, offset, size = self.config, self.log_end_offset, len(batch)
        placed = bytearray(batch)
        pack_place(placed, 0, offset, size - BATCH_OVERHEAD, leader_epoch)
        self._is_durable = False
        try:
            if not self._segments.active.append_one(config, placed, size, offset, marker.timestamp):
                return False
            self.log_end_offset = Offset(offset + 1)
            self.producers.commit(state, producer_epoch, offset, marker)
            self.producers.update_map_end_offset(offset + 1)
            if offset + 1 - self._durability.recovery_point >= config.flush_messages:
                self._flush()
        except StorageError as error:
            self._fail(error)
        return True

    def _follow_sequence(self, batch: CheckedBatch, offset: int) -> AppendInfo | AppendRefused | None:
        """Take in the sequence of a batch that is about to be written at `offset`, unless there is a reason not to write it.

        Before the write: should that fail, the log goes offline, and its state is read anew from what is on disk.
        """
        _, delta, max_timestamp, producer_id, epoch, sequence, guard = batch
        producers = self.producers
        if guard == NOT_TRANSACTIONAL:
            if producers.continue_sequence(producer_id, epoch, sequence, offset, delta, max_timestamp):
                return None
        elif producers.continue_transaction(producer_id, epoch, sequence, offset, delta, max_timestamp, guard):
            return None
        prepared = producers.prepare(read_header(batch.view), offset, AppendOrigin.CLIENT, guard=guard)
        if isinstance(prepared, ErrorCode):
            return AppendRefused(prepared, f"producer {producer_id}: {prepared.message}")
        if isinstance(prepared, Duplicate):
            return AppendInfo(prepared.first_offset, prepared.last_offset, self.log_start_offset, is_duplicate=True)
        apply_update(self.producers, prepared, None)
        return None

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        if not self.is_settled:
            self._settle()
        # On disk before the recovery point passes it; until then recovery finds it in the batches.
        self.leader_epochs.assign(epoch, start_offset, flush=False)
        self._assigned_epoch = epoch

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """This replica leads from here on, in an epoch that has no record yet."""
        self.leader_epochs.assign(leader_epoch, self.log_end_offset, flush=False)

    def append_as_follower(self, buffer: BytesLike) -> AppendInfo | AppendRefused:
        """Append the leader's batches as they are. Offsets must rise; gaps are allowed; a cut-off last batch is left out."""
        return self._append_given(buffer, leader_epoch=None)

    def append_as_raft_leader(self, buffer: BytesLike, leader_epoch: int) -> AppendInfo | AppendRefused:
        """Append batches to which the leader of the metadata quorum has given offsets and its epoch already."""
        return self._append_given(buffer, leader_epoch=leader_epoch)

    def _append_given(self, buffer: BytesLike, leader_epoch: int | None) -> AppendInfo | AppendRefused:
        if self.fault is not None:
            self._raise_offline()
        placed = accept_batches(buffer, next_offset=self.log_end_offset)
        if isinstance(placed, AppendRefused):
            return placed
        for _, header in placed:
            if leader_epoch is not None and header.partition_leader_epoch != leader_epoch:
                return AppendRefused(
                    ErrorCode.INVALID_RECORD, f"the batch at offset {header.base_offset} is not of epoch {leader_epoch}"
                )
        if not placed:
            return AppendInfo(self.log_end_offset, Offset(self.log_end_offset - 1), self.log_start_offset)
        first, last = placed[0][1], placed[-1][1]
        end = placed[-1][0] + last.size_bytes
        fits = end <= self.config.segment_bytes and last.last_offset - first.base_offset <= RELATIVE_OFFSET_MAX
        with memoryview(buffer) as view:
            if fits or len(placed) == 1:
                return self._append(view[:end], placed, AppendOrigin.REPLICATION, None, 0)
            # More than one segment holds: in bytes, since a leader's segments may be larger, or in offsets, since a compacted
            # log may have lost more than two billion between two batches.
            for position, header in placed:
                one = view[position : position + header.size_bytes]
                appended = self._append(one, [(0, header)], AppendOrigin.REPLICATION, None, 0)
                if isinstance(appended, AppendRefused):
                    return appended
        return AppendInfo(Offset(first.base_offset), Offset(last.last_offset), self.log_start_offset)

    def _append(
        self,
        buffer: bytearray | memoryview,
        placed: list[PlacedBatch],
        origin: AppendOrigin,
        append_time_ms: int | None,
        transaction_version: int,
        guard: int | None = None,
    ) -> AppendInfo | AppendRefused:
        """Append checked batches that have their place."""
        size = len(buffer)
        config = self.config
        if size > config.segment_bytes and origin is not AppendOrigin.REPLICATION:
            return AppendRefused(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes do not fit into one segment of {config.segment_bytes} bytes",
            )
        first, last = placed[0][1], placed[-1][1]
        last_offset = last.base_offset + last.last_offset_delta
        max_timestamp = first.max_timestamp
        update: PreparedUpdate | None = None
        for position, header in placed:
            max_timestamp = max(max_timestamp, header.max_timestamp)
            if header.producer_id >= 0:
                try:
                    marker = marker_of(header, buffer, position) if header.is_control else None
                except CorruptBatchError as error:
                    return AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error))
                prepared = self.producers.prepare(
                    header,
                    header.base_offset,
                    origin,
                    marker=marker,
                    transaction_version=transaction_version,
                    guard=guard,
                    into=update,
                )
                if isinstance(prepared, ErrorCode):
                    return AppendRefused(prepared, f"producer {header.producer_id}: {prepared.message}")
                if isinstance(prepared, Duplicate):
                    time_ms = NO_TIMESTAMP if append_time_ms is None else TimestampMs(prepared.timestamp)
                    return AppendInfo(
                        prepared.first_offset, prepared.last_offset, self.log_start_offset, time_ms, is_duplicate=True
                    )
                update = prepared
        try:
            for _, header in placed:
                epoch = header.partition_leader_epoch
                if epoch != self._assigned_epoch and epoch >= 0:
                    self._assign_epoch(epoch, header.base_offset)
            self._is_durable = False
            segment = self._segments.active
            if segment.should_roll(config, size, last_offset, max_timestamp):
                segment = self._roll(first.base_offset, last_offset)
            segment.append(
                (buffer,),
                [
                    (
                        BATCH_OVERHEAD + header.batch_length,
                        header.base_offset + header.last_offset_delta,
                        header.max_timestamp,
                    )
                    for _, header in placed
                ],
            )
            self.log_end_offset = Offset(last_offset + 1)
            if update is not None:
                apply_update(self.producers, update, segment.transaction_index)
            self.producers.update_map_end_offset(last_offset + 1)
            if last_offset + 1 - self._durability.recovery_point >= config.flush_messages:
                self._flush()
        except StorageError as error:
            self._fail(error)
        return AppendInfo(
            Offset(first.base_offset),
            Offset(last_offset),
            self.log_start_offset,
            NO_TIMESTAMP if append_time_ms is None else TimestampMs(append_time_ms),
        )

    def roll(self) -> None:
        """Begin a new segment, unless the present one is empty."""
        with self._disk():
            if self._segments.active.size_bytes:
                self._roll(self.log_end_offset, self.log_end_offset)

    def _roll(self, first_offset: int, last_offset: int) -> Segment:
        """A new active segment for an append of these offsets. The old one is made durable in the background."""
        # A gap before the append belongs to the new segment, so that on disk no gap ever lies between two segments; unless it is
        # too wide for one.
        base_offset = self.log_end_offset
        if last_offset - base_offset > RELATIVE_OFFSET_MAX:
            base_offset = Offset(first_offset)
        rolled = self._segments.active
        rolled.finish()
        self._durability.prepare_roll(rolled, self.log_end_offset)
        new = self._create_segment(base_offset)
        self.producers.update_map_end_offset(base_offset)
        snapshot = self.producers.take_snapshot(sync=False)
        self._before_sync()
        self._durability.flush_in_background(base_offset, snapshot=snapshot, is_roll=True)
        return new

    def _create_segment(self, base_offset: int) -> Segment:
        segment = Segment.create(self._seams, self._host.open_segments, self.directory, base_offset, self.config)
        self._segments.add(segment)
        self._is_durable = False
        return segment

    # --- reading -----------------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        bytes_max: int,
        *,
        upper_bound: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        min_one_batch: bool = True,
    ) -> Fetched | ErrorCode:
        """The batches from the one that holds `offset` on, at most `bytes_max` of them, as regions of one segment's file.

        With `min_one_batch` the first batch comes whole, however small the limit. OFFSET_OUT_OF_RANGE for an offset that the log
        does not have, CORRUPT_MESSAGE where the file is damaged.
        """
        if self.fault is not None:
            self._raise_offline()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        aborted: tuple[AbortedTransaction, ...] | None = None
        if upper_bound is FetchIsolation.LOG_END:
            bound = self.log_end_offset
        elif upper_bound is FetchIsolation.HIGH_WATERMARK:
            bound = self.high_watermark
        else:
            bound = self.last_stable_offset
            aborted = ()
        if offset >= bound:
            return self._fetched((), aborted)
        try:
            found = self._reader.find_region(offset, bound, self.log_end_offset, bytes_max, min_one_batch=min_one_batch)
            if isinstance(found, FoundRegion):
                if aborted is not None:
                    aborted = self._reader.aborted_in(found, offset, self.log_end_offset)
                return self._fetched((found.region,), aborted)
        except CorruptBatchError:
            return ErrorCode.CORRUPT_MESSAGE
        except StorageError as error:
            self._fail(error)
        return self._fetched((), aborted, first_batch_too_large=found is not None)

    def _fetched(
        self,
        regions: tuple[FileRegion, ...],
        aborted: tuple[AbortedTransaction, ...] | None,
        *,
        first_batch_too_large: bool = False,
    ) -> Fetched:
        return Fetched(
            regions,
            self.log_start_offset,
            self.log_end_offset,
            self.high_watermark,
            self.last_stable_offset,
            first_batch_too_large,
            aborted,
        )

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that have records from `start_offset` up to `end_offset`, exclusive."""
        with self._disk():
            return self._reader.aborted_transactions(start_offset, end_offset)

    def earliest_offset(self) -> FoundTimestamp:
        """The start of the log, with the epoch that it is in as far as that is known."""
        earliest = self.leader_epochs.earliest
        known = earliest is not None and earliest.start_offset <= self.log_start_offset
        epoch = earliest.epoch if earliest is not None and known else NO_LEADER_EPOCH
        return FoundTimestamp(NO_TIMESTAMP, self.log_start_offset, epoch)

    def latest_offset(self) -> FoundTimestamp:
        """The end of the log, with the epoch of its last batch."""
        epoch = self.leader_epochs.latest_epoch
        return FoundTimestamp(NO_TIMESTAMP, self.log_end_offset, NO_LEADER_EPOCH if epoch is None else epoch)

    def offset_for_timestamp(self, timestamp: int) -> FoundTimestamp | ErrorCode | None:
        """The first record whose timestamp is at or after `timestamp`. None if there is none."""
        try:
            with self._disk():
                return self._reader.find_timestamp(timestamp, self.log_start_offset)
        except CorruptBatchError:
            return ErrorCode.CORRUPT_MESSAGE

    def offset_for_max_timestamp(self) -> FoundTimestamp | ErrorCode | None:
        """The first record that has the largest timestamp of the log. None if no record has one."""
        try:
            with self._disk():
                return self._reader.find_largest_timestamp()
        except CorruptBatchError:
            return ErrorCode.CORRUPT_MESSAGE

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """Where the largest epoch at or below `leader_epoch` ends in this log (KIP-101, KIP-279)."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # --- truncating --------------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Make the log end at `offset`, or where the batch that holds it begins. Durable on return. Whether anything went."""
        if offset < 0:
            raise ValueError(f"a log cannot be truncated to offset {offset}")
        with self._disk():
            if offset >= self.log_end_offset:
                # An epoch that was announced but never appended to may be the other leader's by now.
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                self.leader_epochs.flush()
                self._assigned_epoch = NO_LEADER_EPOCH
                return False
            if offset < self._segments.first.base_offset:
                self._start_anew(offset, offset)
                return True
            self._disturb_cleaning()
            self._is_durable = False
            for segment in [each for each in reversed(self._segments) if each.base_offset > offset]:
                self._discard(segment)
                # One by one, from the end: a crash must not bring back a later one without those before it.
                self._seams.files.sync_directory(self.directory)
            try:
                self._end_at(self._segments.active.truncate_to(offset))
                self._rebuild_producers()
            except CorruptBatchError as error:
                raise DamagedFileError(self._segments.active.path(".log"), str(error)) from error
            self._finish_truncation()
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the next append gets `offset`. Durable on return."""
        with self._disk():
            self._start_anew(offset, offset if log_start_offset is None else log_start_offset)

    def _start_anew(self, offset: int, log_start_offset: int) -> None:
        self._disturb_cleaning()
        self._is_durable = False
        for segment in list(reversed(self._segments)):
            self._discard(segment)
            self._seams.files.sync_directory(self.directory)
        self._create_segment(offset)
        self.log_start_offset = Offset(log_start_offset)
        self._end_at(Offset(offset))
        self.leader_epochs.clear()
        self.producers.truncate_fully_and_start_at(offset)
        self.high_watermark = Offset(offset)
        self._finish_truncation()

    def _end_at(self, end: Offset) -> None:
        self.log_end_offset = end
        self.log_start_offset = min(self.log_start_offset, end)
        self._durability.truncated_to(end)
        self._reader.forget_positions()
        self.leader_epochs.truncate_from_end(end)
        self.leader_epochs.flush()
        self._assigned_epoch = NO_LEADER_EPOCH

    def _finish_truncation(self) -> None:
        self.set_high_watermark(self.high_watermark)
        self._seams.files.sync_directory(self.directory)
        # Before anything is appended: what the checkpoint calls durable must be so.
        self._host.save_recovery_points()
        self._host.save_log_start_offsets()
        self._host.note_truncated(self.topic_partition, self.log_end_offset)

    def _rebuild_producers(self) -> None:
        """Bring the producers' state back to the end of a log that has become shorter."""
        end = self.log_end_offset
        had_none = self.producers.is_empty and self.producers.map_end_offset >= end
        self.producers.truncate_and_reload(self.log_start_offset, end, self._seams.clock.now_ms())
        if not had_none:
            replay_producers(self.producers, self._segments, self.log_start_offset, end)
        self.producers.update_map_end_offset(end)
        self.producers.take_snapshot()

    def _discard(self, segment: Segment) -> None:
        """Take a segment out of the log. Its files get another name now and go later."""
        self._segments.remove(segment)
        segment.release()
        segment.rename(DELETED_SUFFIX)
        paths = segment.all_paths()
        snapshot = self.producers.mark_snapshot_for_deletion(segment.base_offset)
        if snapshot is not None:
            paths.append(snapshot)
        self._host.removals.add(paths, self.config.file_delete_delay_ms)

    # --- the log's start ---------------------------------------------------------------------------------------------------

    def delete_records_before(self, offset: int) -> ErrorCode:
        """Move the log's start to `offset`, which the high watermark must have reached. NONE if it is there now or was beyond.

        Segments that lie before it go with the next `remove_segments_before_start`.
        """
        if self.fault is not None:
            self._raise_offline()
        if offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset > self.log_start_offset:
            self.log_start_offset = Offset(offset)
            self.leader_epochs.truncate_from_start(offset)
            self.producers.on_log_start_offset_incremented(offset)
            self._is_durable = False
        return ErrorCode.NONE

    def expire(self) -> bool:
        """Move the log's start past all segments that have expired by time or size. Whether any has."""
        with self._disk():
            until = expired_until(
                self._segments,
                self.config,
                log_end_offset=self.log_end_offset,
                high_watermark=self.high_watermark,
                now_ms=self._seams.clock.now_ms(),
            )
            if until is None:
                return False
            if until == self.log_end_offset and self._segments.active.size_bytes:
                self._roll(until, until)
            self.delete_records_before(until)
            return True

    def remove_segments_before_start(self) -> int:
        """Remove the segments of which no record is in the log any more. Returns how many; none while it is being cleaned."""
        if self.is_being_cleaned:
            return 0
        with self._disk():
            gone = []
            for segment in self._segments:
                following = self._segments.after(segment.base_offset)
                if following is None or following.base_offset > self.log_start_offset:
                    break
                gone.append(segment)
            if gone and self._saved_log_start_offset < self.log_start_offset:
                self._host.save_log_start_offsets()
            for segment in gone:
                self._discard(segment)
            return len(gone)

    def log_start_saved(self) -> None:
        """The start of the log has been made durable."""
        self._saved_log_start_offset = self.log_start_offset

    def needs_saved_start(self) -> bool:
        """Whether the start of the log cannot be told from the names of its segments."""
        return self.log_start_offset > self._segments.first.base_offset

    def expire_producers(self) -> int:
        """Forget producers that have been silent for too long. Returns how many."""
        return self.producers.remove_expired(self._seams.clock.now_ms())

    # --- being compacted ---------------------------------------------------------------------------------------------------

    @property
    def segments(self) -> SegmentList:
        """To be looked at, and changed by nobody else."""
        return self._segments

    @property
    def is_being_cleaned(self) -> bool:
        return self._abandon_cleaning is not None

    def begin_cleaning(self, abandon: Callable[[], None]) -> None:
        """Segments are read on another thread from here on. `abandon` is called when they are about to change."""
        self._abandon_cleaning = abandon

    def end_cleaning(self) -> None:
        self._abandon_cleaning = None

    def _disturb_cleaning(self) -> None:
        if self._abandon_cleaning is not None:
            self._abandon_cleaning()

    def replace_segments(self, cleaned: Segment, old: Sequence[Segment]) -> bool:
        """Put a segment that is on disk as `.cleaned` in the place of those that it was made from. False if one of them is gone.

        Names change in an order of which a crash leaves a first part: up to the last `.swap` the old segments are the log, from
        there on the new one is, and the next start finishes what is missing. Nobody waits for the disk.
        """
        with self._disk():
            if any(self._segments.floor(each.base_offset) is not each for each in old):
                return False
            self._is_durable = False
            cleaned.rename(SWAP_SUFFIX)
            for segment in old:
                self._segments.remove(segment)
                segment.release()
                segment.rename(DELETED_SUFFIX)
                paths = segment.all_paths()
                if segment.base_offset != cleaned.base_offset:
                    snapshot = self.producers.mark_snapshot_for_deletion(segment.base_offset)
                    paths += [] if snapshot is None else [snapshot]
                self._host.removals.add(paths, self.config.file_delete_delay_ms)
            cleaned.rename("")
            self._segments.add(
                Segment(
                    self._seams,
                    self._host.open_segments,
                    self.directory,
                    cleaned.base_offset,
                    self.config,
                    size_bytes=cleaned.size_bytes,
                )
            )
            self._reader.forget_positions()
        return True

    # --- durability --------------------------------------------------------------------------------------------------------

    @property
    def recovery_point(self) -> Offset:
        """Everything before it has been forced to disk."""
        return self._durability.recovery_point

    def flush(self) -> None:
        """Force everything up to the log's end to disk, and wait for it."""
        with self._disk():
            if self.recovery_point < self.log_end_offset:
                self._flush()

    def _flush(self) -> None:
        self._before_sync()
        self._durability.flush(self.log_end_offset)

    def _before_sync(self) -> None:
        """What must be on disk before the recovery point may move: whose the records are, and in which epochs they begin."""
        self._settle()
        self.leader_epochs.flush()

    def flush_in_background(self, then: Callable[[], None] | None = None) -> None:
        """Force everything up to the log's end to disk, without waiting. When it is there, the recovery point moves and `then`
        is called; after a fault it never is."""
        with self._disk():
            self._before_sync()
            self._durability.flush_in_background(self.log_end_offset, then=then)

    def is_flush_due(self) -> bool:
        """Whether `flush.ms` asks for a flush now."""
        unflushed = self.recovery_point < self.log_end_offset
        return unflushed and self._durability.waited_ms() >= self.config.flush_ms

    def close(self) -> None:
        """Stop cleanly: afterwards the directory holds all there is to know, and opening it again reads no batch."""
        work = self.prepare_close()
        if work is None:
            self.release()
            return
        with self._disk():
            work()
        self.note_closed()

    def prepare_close(self) -> SyncWork | None:
        """Write down all there is to know. What is returned forces it to disk, on any thread, and then `note_closed` is due; None
        where all of it is there already. Nothing may be appended any more."""
        with self._disk():
            if self._is_durable:
                return None
            self._settle()
            producers = self.producers
            producers.update_map_end_offset(self.log_end_offset)
            # One that a roll has written may still be on its way to the disk.
            snapshot = producers.take_snapshot(sync=False) or producers.snapshot_path(self.log_end_offset)
            self._segments.active.finish()
            return self._durability.work_of_close(snapshot, self.leader_epochs.flush_elsewhere())

    def note_closed(self) -> None:
        """What `prepare_close` has returned is done: the log is as it will be found again."""
        self._durability.note_flushed(self.log_end_offset)
        self._is_durable = True
        self.release()

    def release(self) -> None:
        """Close all files as they are: what a crash would do, or what a log that is going away needs."""
        self._disturb_cleaning()
        for segment in self._segments:
            segment.release()

    # --- what may change ---------------------------------------------------------------------------------------------------

    def reconfigure(self, config: LogConfig) -> None:
        """Go by another configuration from now on. Segments keep the index size and jitter that they were made with."""
        self.config = config

    def assign_topic_id(self, topic_id: TopicId) -> ErrorCode:
        """Note whose log this is; INCONSISTENT_TOPIC_ID if it is another topic's already. On disk before the next record is."""
        if self.topic_id is None:
            with self._disk():
                begin_partition_metadata(self._seams.files, self.directory, topic_id)
                self.topic_id = topic_id
                self.is_settled = False
        return ErrorCode.NONE if self.topic_id == topic_id else ErrorCode.INCONSISTENT_TOPIC_ID

    @property
    def is_empty(self) -> bool:
        """Whether there has never been a record in it, as far as one can tell."""
        return self.log_end_offset == 0 and self._segments.size_bytes == 0

    def settle(self) -> None:
        """Have the topic id and the directory's name on disk, now if they are not."""
        with self._disk():
            self._settle()

    def _settle(self) -> None:
        if self.is_settled:
            return
        files = self._seams.files
        if self.topic_id is not None:
            force_partition_metadata(files, self.directory)
            self._name_topic_id()
        files.sync_directory(self.directory)
        files.sync_directory(parent_of(self.directory))
        self.is_settled = True

    def name_topic_id(self) -> None:
        """The content of `partition.metadata` is on disk: it may have its name."""
        with self._disk():
            self._name_topic_id()

    def _name_topic_id(self) -> None:
        try:
            name_partition_metadata(self._seams.files, self.directory)
        except StorageError as error:
            # It has its name already: slow work was between its two steps.
            if not error.is_missing:
                raise

    def note_settled(self) -> None:
        """The topic id and all names are on disk. Of a log without a record that is all there is."""
        self.is_settled = True
        if self.is_empty:
            # An epoch that was only announced says nothing to the next start.
            self._is_durable = True

    def rename_directory(self, directory: str, *, sync: bool = True) -> None:
        """Give the log's directory another name in the same log directory, durably unless told otherwise."""
        with self._disk():
            self._seams.files.rename(self.directory, directory)
            if sync:
                self._seams.files.sync_directory(parent_of(directory))
            self.directory = self._durability.directory = directory
            for segment in self._segments:
                segment.relocate(directory)
            self.producers.relocate(directory)
            self.leader_epochs.relocate(f"{directory}/{self.leader_epochs.path.rpartition('/')[2]}")

    # --- faults ------------------------------------------------------------------------------------------------------------

    def report_fault(self, error: StorageError) -> None:
        """The disk failed under somebody who reads or writes this log's files by himself."""
        self._note_fault(error)

    @contextmanager
    def _disk(self) -> Iterator[None]:
        """Around what touches the disk, except where a context manager would cost too much."""
        if self.fault is not None:
            self._raise_offline()
        try:
            yield
        except StorageError as error:
            self._fail(error)

    def _fail(self, error: StorageError) -> NoReturn:
        self._note_fault(error)
        raise error

    def _note_fault(self, error: StorageError) -> None:
        if self.fault is None:
            self.fault = error
            self._host.report_fault(error)

    def _raise_offline(self) -> NoReturn:
        raise StorageError(self.directory, "use", None, f"its log directory is offline, because of this: {self.fault}")


def replay_producers(
    producers: ProducerStateTable, segments: SegmentList, log_start_offset: int, end_offset: int
) -> None:
    """Go through the headers of all batches that the producers' state does not cover yet, up to `end_offset`."""
    start = max(producers.map_end_offset, log_start_offset)
    if start >= end_offset:
        return
    for segment in segments.from_offset(start):
        if segment.base_offset >= end_offset:
            break
        first = segment.find(start)
        if first is None:
            continue
        for position, header in segment.headers_from(first.position):
            if header.base_offset >= end_offset:
                return
            replay_batch(producers, segment, position, header, with_index=False)
