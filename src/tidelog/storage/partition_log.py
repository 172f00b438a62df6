# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True, boundscheck=True, wraparound=True
"""The log of one partition: segments in a row, seen as one sequence of offsets.

    log_start_offset ............ high_watermark ............ log_end_offset
    what may be read first        what all in-sync replicas    what the next append gets
                                  have; moved by replication
    recovery_point: everything before it has been forced to disk; after a crash nothing before it is read again

A log is used from one thread, that of its node's event loop: appends go to the page cache at once, and only syncs that nobody
waits for are handed to `SlowWork`. What a client did wrong is a value (`AppendRefused`, `ErrorCode`). A fault of the disk is a
`StorageError`: the log directory is told, goes offline as a whole, and every later call raises.

There is one `append`, for everybody who writes to a log (`AppendRule`), and one place, `_write`, where the log's end moves. Here
are also reads and the offsets. What changes which segments a log has is next door:

    rolling       a new segment, one in the place of others, segments that go
    retention     the log's start moves, and what lies before it goes
    truncation    the log is cut
    settling      new logs reach the disk, many at a time; `closing` closes many

Where this differs from Kafka, it is on the safe side: a truncation is durable when it returns, and it never leaves offsets
without a batch before the log's end; segments go only after the log's new start is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NoReturn

from tidelog.model import ids as _ids
from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, NO_TIMESTAMP, Offset, TimestampMs, TopicId, TopicPartition
from tidelog.storage import append as _append, retention, rolling, truncation
from tidelog.storage.append import AppendInfo, AppendOutcome, AppendRefused, AppendRule
from tidelog.storage.checked_batches import CheckedBatch
from tidelog.storage.durability import Durability, SyncWork
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.file_region import FileRegion, FreshRegion
from tidelog.storage.files import ReadableBytes, parent_of
from tidelog.storage.leader_epochs import EpochEndOffset
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_parts import LogHost, LogParts
from tidelog.storage.log_reader import FoundRegion, LogReader
from tidelog.storage.partition_metadata import (
    begin_partition_metadata,
    name_partition_metadata,
    settle_partition_metadata,
)
from tidelog.storage.producer import Duplicate, ProducerState
from tidelog.storage.producer_replay import marker_of
from tidelog.storage.segment import FoundTimestamp, Segment
from tidelog.storage.segment_list import SegmentList
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.wire import record_batch as _record_batch
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import TimestampType

_OFFSET_MAX = _append.OFFSET_MAX
_FRESH_BYTES_MAX = _append.FRESH_BYTES_MAX
_CONTROL_BIT = _record_batch.CONTROL_BIT
_NO_LEADER_EPOCH = _ids.NO_LEADER_EPOCH
_NO_TIMESTAMP = _ids.NO_TIMESTAMP

_LEADER = AppendRule.LEADER
_FOLLOWER = AppendRule.FOLLOWER
_MARKER = AppendRule.MARKER
_RAFT = AppendRule.RAFT
_LOG_END = FetchIsolation.LOG_END
_HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
_OFFSET_OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
_LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME


class PartitionLog:
    """One partition on disk. `recovery.open_log` and `LogDirectory` make them."""

    __slots__ = (
        "_abandon_cleaning",
        "_assigned_epoch",
        "_flush_messages",
        "_gives_append_time",
        "_roll_ms",
        "_saved_log_start_offset",
        "_segment_bytes",
        "config",
        "directory",
        "durability",
        "fault",
        "high_watermark",
        "host",
        "is_durable",
        "is_settled",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "reader",
        "seams",
        "segments",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self, host: LogHost, directory: str, topic_partition: TopicPartition, config: LogConfig, parts: LogParts
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.topic_id: TopicId | None = parts.topic_id
        self.leader_epochs = parts.leader_epochs
        self.producers = parts.producers
        self.log_start_offset = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self.high_watermark = parts.log_start_offset
        self.fault: StorageError | None = None
        self.host = host
        self.seams = host.seams
        self.segments: SegmentList = parts.segments
        """To be looked at, and changed by this package alone."""
        self.reader = LogReader(parts.segments)
        self.durability = Durability(host.seams, parts.segments, directory, parts.recovery_point, self.report_fault)
        self.is_durable = parts.is_durable
        self.is_settled = parts.is_settled
        # The epoch of the last append: while it is the same, the epoch cache needs no lookup.
        self._assigned_epoch: int = NO_LEADER_EPOCH
        self._saved_log_start_offset = parts.log_start_offset
        # The callback that ends a cleaning that is under way.
        self._abandon_cleaning: Callable[[], None] | None = None
        self.reconfigure(config)

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory}, [{self.log_start_offset}, {self.log_end_offset}))"

    def reconfigure(self, config: LogConfig) -> None:
        """Go by another configuration from now on. Segments keep the index size and jitter that they were made with."""
        self.config = config
        # Read for every batch, so cached here.
        self._segment_bytes = config.segment_bytes
        self._roll_ms = config.roll_ms
        self._flush_messages = config.flush_messages
        self._gives_append_time = config.message_timestamp_type is _LOG_APPEND_TIME

    # --- offsets -----------------------------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def segment_base_offsets(self) -> list[int]:
        return self.segments.base_offsets

    @property
    def recovery_point(self) -> Offset:
        """Everything before it has been forced to disk."""
        return self.durability.recovery_point

    @property
    def is_empty(self) -> bool:
        """Whether there has never been a record in it, as far as one can tell."""
        return self.log_end_offset == 0 and self.segments.size_bytes == 0

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
        if self.producers.unreplicated:
            self.producers.on_high_watermark_updated(self.high_watermark)
        return self.high_watermark

    def commit_up_to(self, offset: int) -> None:
        """`set_high_watermark` for an offset within the log that is beyond the present one."""
        if offset < self.high_watermark or offset > self.log_end_offset:
            raise BugError(f"the high watermark of {self} cannot go from {self.high_watermark} to {offset}")
        self.high_watermark = offset  # type: ignore[assignment]  # an Offset already; wrapping it would cost a call
        if self.producers.unreplicated:
            self.producers.on_high_watermark_updated(offset)

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """This replica leads from here on, in an epoch that has no record yet."""
        self.leader_epochs.assign(leader_epoch, self.log_end_offset, flush=False)

    def reaches(self, offset: int, leader_epoch: int) -> bool:
        """Whether the last append was in `leader_epoch` and the log holds `offset`: then a fetcher at both cannot have diverged.
        False: unknown, the caller falls back to the epoch cache."""
        return leader_epoch == self._assigned_epoch and self.log_start_offset <= offset <= self.log_end_offset

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
            with self.disk():
                return self.reader.find_timestamp(timestamp, self.log_start_offset)
        except CorruptBatchError:
            return ErrorCode.CORRUPT_MESSAGE

    def offset_for_max_timestamp(self) -> FoundTimestamp | ErrorCode | None:
        """The first record that has the largest timestamp of the log. None if no record has one."""
        try:
            with self.disk():
                return self.reader.find_largest_timestamp()
        except CorruptBatchError:
            return ErrorCode.CORRUPT_MESSAGE

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """Where the largest epoch at or below `leader_epoch` ends in this log (KIP-101, KIP-279)."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # --- appending ---------------------------------------------------------------------------------------------------------

    def append(
        self,
        batches: list[CheckedBatch],
        rule: AppendRule,
        leader_epoch: int = _NO_LEADER_EPOCH,
        is_awaited: bool = False,
    ) -> list[AppendOutcome]:
        """Append batches that have been checked, each by itself, with one write for all that go into one segment.

        An outcome for each, in their order. Where the log gives them their place they are of `leader_epoch`, and it is written
        into them; what has its place comes whole or up to the first that is refused. What a LEADER appends while somebody waits
        for it (`is_awaited`) is kept in memory for that read, if it is little. A fault of the disk raises, whatever was written.
        """
        if self.fault is not None:
            self.raise_offline()
        # Invalidate the tail cache: a read from it reports no aborted transactions, and these batches may hold a marker that
        # aborts one of its records.
        self.reader.fresh = None
        try:
            if rule is _FOLLOWER or rule is _RAFT:
                refused = self._refuse_given(batches, rule)
                if refused is not None:
                    return [refused] * len(batches)
                return self._append(batches, _FOLLOWER, _NO_LEADER_EPOCH, True, False)
            if self._gives_append_time:
                return self._append_with_time(batches, rule, leader_epoch)
            return self._append(batches, rule, leader_epoch, False, is_awaited and rule is _LEADER)
        except Exception as error:  # noqa: BLE001 - raised again
            self.fail(error)

    def _append(
        self,
        batches: list[CheckedBatch],
        rule: AppendRule,
        leader_epoch: int,
        has_places: bool,
        keeps_fresh: bool,
    ) -> list[AppendOutcome]:
        outcomes: list[AppendOutcome] = []
        gathered: list[CheckedBatch] = []
        gathered_bytes = 0
        aborted: list[AbortedTransaction] | None = None
        segment = self.segments.active
        end: int = self.log_end_offset
        for batch in batches:
            size = batch.size_bytes
            delta = batch.last_offset_delta
            if has_places:
                offset = batch.base_offset
                epoch = batch.leader_epoch
            else:
                offset = end
                epoch = leader_epoch
                if size > self._segment_bytes or delta >= _OFFSET_MAX - offset:
                    outcomes.append(_append.refuse_to_place(batch, offset, self._segment_bytes))
                    continue
            state: ProducerState | None = None
            if batch.producer_id >= 0 and (not batch.attributes & _CONTROL_BIT or batch.marker is not None):
                judged = self.producers.judge(batch, rule)
                if not isinstance(judged, ProducerState):
                    outcomes.append(self._not_appended(batch, judged))
                    if has_places:
                        break
                    continue
                state = judged
            last_offset = offset + delta
            if epoch != self._assigned_epoch and epoch >= 0:
                self._assign_epoch(epoch, offset)
            if gathered_bytes > 0 and segment.size_bytes == 0:
                # `must_roll` measures the age of a segment from its first batch, so that one is written first.
                self._write(segment, gathered, end, aborted, False)
                gathered = []
                gathered_bytes = 0
                aborted = None
            if segment.must_roll(
                self._segment_bytes, self._roll_ms, gathered_bytes, size, last_offset, batch.max_timestamp
            ):
                # The producer snapshot that the roll takes covers what is written before it, and nothing of this batch.
                if gathered_bytes > 0:
                    self._write(segment, gathered, end, aborted, False)
                    gathered = []
                    gathered_bytes = 0
                    aborted = None
                segment = rolling.roll_for(self, offset, last_offset)
            if state is not None:
                # Before the write: should that fail, the log goes offline, and its state is read anew from what is on disk.
                ended = self.producers.take_in(state, batch, offset)
                if ended is not None:
                    if aborted is None:
                        aborted = []
                    aborted.append(ended)
            if not has_places:
                batch.place(offset, leader_epoch)
            gathered.append(batch)
            gathered_bytes += size
            end = last_offset + 1
            outcomes.append(offset)
        if gathered_bytes > 0:
            self._write(segment, gathered, end, aborted, keeps_fresh)
        while len(outcomes) < len(batches):
            # After a refused batch the next one would leave a gap: it is refused with the same outcome.
            outcomes.append(outcomes[-1])
        return outcomes

    def _write(
        self,
        segment: Segment,
        batches: list[CheckedBatch],
        end: int,
        aborted: list[AbortedTransaction] | None,
        keeps_fresh: bool,
    ) -> None:
        """The one place where what is appended reaches a file, and the log's end, its producers and the disk follow."""
        self.is_durable = False
        buffers = _buffers_of(batches)
        position = segment.size_bytes
        segment.write(buffers, batches)
        if aborted is not None:
            for each in aborted:
                segment.note_aborted(each)
        if keeps_fresh and segment.size_bytes - position < _FRESH_BYTES_MAX:
            self.reader.keep_fresh(segment, b"".join(buffers), batches[0].base_offset, end)
        if end <= self.log_end_offset:
            raise BugError(f"{self} cannot end at offset {end} after an append")
        offset: Offset = end  # type: ignore[assignment]  # an Offset already; wrapping it would cost a call
        self.log_end_offset = offset
        self.producers.map_end_offset = offset
        # The second comparison implies the first, which short-circuits the lookup in nearly every append.
        if end >= self._flush_messages and end - self.durability.recovery_point >= self._flush_messages:
            self._flush()

    def _refuse_given(self, batches: list[CheckedBatch], rule: AppendRule) -> AppendRefused | None:
        """Why batches that bring their own offsets cannot be appended, or None.

        A FOLLOWER accepts gaps, which compaction leaves; RAFT accepts neither gaps nor epochs that go back. Sets `marker` of
        transactions' control batches, since this is the one pass over all batches before the write.
        """
        following: int = self.log_end_offset
        for batch in batches:
            offset = batch.base_offset
            if offset < following or (rule is _RAFT and offset != following):
                is_first = batch is batches[0]
                return AppendRefused(
                    ErrorCode.OFFSET_OUT_OF_RANGE if is_first else ErrorCode.INVALID_RECORD,
                    f"the batch at offset {offset} does not follow the log, which ends at {following}",
                )
            if batch.last_offset_delta >= _OFFSET_MAX - offset:
                return _append.refuse_to_place(batch, offset, self._segment_bytes)
            following = offset + batch.last_offset_delta + 1
            if batch.attributes & _CONTROL_BIT and batch.producer_id >= 0:
                try:
                    batch.marker = marker_of(batch.header, batch.buffer, batch.position)
                except CorruptBatchError as error:
                    return AppendRefused(ErrorCode.CORRUPT_MESSAGE, str(error))
        return _append.refuse_epochs(batches, self.leader_epochs.latest_epoch) if rule is _RAFT else None

    def _not_appended(self, batch: CheckedBatch, judged: Duplicate | ErrorCode) -> AppendOutcome:
        if isinstance(judged, ErrorCode):
            return AppendRefused(judged, f"producer {batch.producer_id}: {judged.message}")
        time_ms = TimestampMs(judged.timestamp) if self._gives_append_time else NO_TIMESTAMP
        return AppendInfo(judged.first_offset, judged.last_offset, self.log_start_offset, time_ms, is_duplicate=True)

    def _append_with_time(
        self, batches: list[CheckedBatch], rule: AppendRule, leader_epoch: int
    ) -> list[AppendOutcome]:
        """`_append` for a topic whose records get the time of their append."""
        now_ms = self.seams.clock.now_ms()
        if rule is _MARKER:
            # The same marker is appended to every partition of the transaction, and not every topic has LogAppendTime.
            batches = [batch.copy() for batch in batches]
        for batch in batches:
            batch.stamp_append_time(now_ms)
        outcomes = self._append(batches, rule, leader_epoch, False, False)
        for number, (batch, outcome) in enumerate(zip(batches, outcomes, strict=True)):
            if type(outcome) is int:
                last_offset = Offset(outcome + batch.last_offset_delta)
                outcomes[number] = AppendInfo(Offset(outcome), last_offset, self.log_start_offset, now_ms)
        return outcomes

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        if not self.is_settled:
            self._settle()
        # Flushed before the recovery point passes it; until then recovery rebuilds it from the batches.
        self.leader_epochs.assign(epoch, start_offset, flush=False)
        self._assigned_epoch = epoch

    def forget_assigned_epoch(self) -> None:
        """The log was cut: the next append has its epoch noted, whatever it is."""
        self._assigned_epoch = _NO_LEADER_EPOCH

    def forget_fresh(self, *, also_uncommitted: bool = False) -> None:
        """Who waited for the last append has been told. Where it is not committed, some may still be waiting."""
        fresh = self.reader.fresh
        if fresh is not None and (also_uncommitted or fresh.end_offset <= self.high_watermark):
            self.reader.fresh = None

    # --- reading -----------------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        bytes_max: int,
        upper_bound: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        min_one_batch: bool = True,
    ) -> Fetched | ErrorCode:
        """The batches from the one that holds `offset` on, at most `bytes_max` of them, as regions of one segment's file.

        With `min_one_batch` the first batch comes whole, however small the limit. OFFSET_OUT_OF_RANGE for an offset that the log
        does not have, CORRUPT_MESSAGE where the file is damaged.
        """
        if self.fault is not None:
            self.raise_offline()
        log_start_offset = self.log_start_offset
        log_end_offset = self.log_end_offset
        high_watermark = self.high_watermark
        start: int = log_start_offset
        end: int = log_end_offset
        if offset < start or offset > end:
            return _OFFSET_OUT_OF_RANGE
        aborted: tuple[AbortedTransaction, ...] | None = None
        producers = self.producers
        stable = high_watermark
        # Fast path: no transaction is open.
        if producers.ongoing or producers.unreplicated:
            stable = self.last_stable_offset
        bound: int
        if upper_bound is _LOG_END:
            bound = log_end_offset
        elif upper_bound is _HIGH_WATERMARK:
            bound = high_watermark
        else:
            bound = stable
            aborted = ()
        if offset >= bound:
            return Fetched((), log_start_offset, log_end_offset, high_watermark, stable, False, aborted)
        regions: tuple[FileRegion, ...] = ()
        fresh = self.reader.fresh
        try:
            if (
                fresh is not None
                and offset == fresh.base_offset
                and bound == fresh.end_offset
                and len(fresh.records) <= bytes_max
            ):
                # Tail cache hit. No marker is in it or after it, so none of it belongs to an aborted transaction.
                records = fresh.records
                regions = (FreshRegion(fresh.segment.open_file(), fresh.position, len(records), records),)
                return Fetched(regions, log_start_offset, log_end_offset, high_watermark, stable, False, aborted)
            found = self.reader.find_region(offset, bound, end, bytes_max, min_one_batch)
            if type(found) is FoundRegion:
                if aborted is not None:
                    aborted = self.reader.aborted_in(found, offset, log_end_offset)
                regions = (found.region,)
                found = None
        except CorruptBatchError:
            return ErrorCode.CORRUPT_MESSAGE
        except StorageError as error:
            self.fail(error)
        is_too_large = found is not None
        return Fetched(regions, log_start_offset, log_end_offset, high_watermark, stable, is_too_large, aborted)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that have records from `start_offset` up to `end_offset`, exclusive."""
        with self.disk():
            return self.reader.aborted_transactions(start_offset, end_offset)

    # --- segments that come and go -----------------------------------------------------------------------------------------

    def roll(self) -> None:
        """Begin a new segment, unless the present one is empty."""
        with self.disk():
            if self.segments.active.size_bytes:
                rolling.roll_for(self, self.log_end_offset, self.log_end_offset)

    def replace_segments(self, cleaned: Segment, old: Sequence[Segment]) -> bool:
        """Put a segment that is on disk as `.cleaned` in the place of those it was made from. False if one of them is gone."""
        with self.disk():
            return rolling.replace_segments(self, cleaned, old)

    def delete_records_before(self, offset: int) -> ErrorCode:
        """Move the log's start to `offset`, which the high watermark must have reached. NONE if it is there now or was beyond.

        Segments that lie before it go with the next `remove_segments_before_start`.
        """
        if self.fault is not None:
            self.raise_offline()
        return retention.delete_records_before(self, offset)

    def expire(self) -> bool:
        """Move the log's start past all segments that have expired by time or size. Whether any has."""
        with self.disk():
            return retention.expire(self)

    def remove_segments_before_start(self) -> int:
        """Remove the segments of which no record is in the log any more. Returns how many; none while it is being cleaned."""
        if self.is_being_cleaned:
            return 0
        with self.disk():
            return retention.remove_segments_before_start(self)

    def log_start_saved(self) -> None:
        """The start of the log has been made durable."""
        self._saved_log_start_offset = self.log_start_offset

    @property
    def is_start_saved(self) -> bool:
        """Whether the start of the log, as it is now, has been made durable."""
        return self._saved_log_start_offset >= self.log_start_offset

    def needs_saved_start(self) -> bool:
        """Whether the start of the log cannot be told from the names of its segments."""
        return self.log_start_offset > self.segments.first.base_offset

    def expire_producers(self) -> int:
        """Forget producers that have been silent for too long. Returns how many."""
        return self.producers.remove_expired(self.seams.clock.now_ms())

    def truncate_to(self, offset: int) -> bool:
        """Make the log end at `offset`, or where the batch that holds it begins. Durable on return. Whether anything went."""
        if offset < 0:
            raise ValueError(f"a log cannot be truncated to offset {offset}")
        with self.disk():
            return truncation.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the next append gets `offset`. Durable on return."""
        with self.disk():
            truncation.start_anew(self, offset, offset if log_start_offset is None else log_start_offset)

    # --- being compacted ---------------------------------------------------------------------------------------------------

    @property
    def is_being_cleaned(self) -> bool:
        return self._abandon_cleaning is not None

    def begin_cleaning(self, abandon: Callable[[], None]) -> None:
        """Segments are read on another thread from here on. `abandon` is called when they are about to change."""
        self._abandon_cleaning = abandon

    def end_cleaning(self) -> None:
        self._abandon_cleaning = None

    def disturb_cleaning(self) -> None:
        """Segments are about to change."""
        if self._abandon_cleaning is not None:
            self._abandon_cleaning()

    # --- reaching the disk -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Force everything up to the log's end to disk, and wait for it."""
        with self.disk():
            if self.recovery_point < self.log_end_offset:
                self._flush()

    def _flush(self) -> None:
        self.before_sync()
        self.durability.flush(self.log_end_offset)

    def before_sync(self) -> None:
        """What must be on disk before the recovery point may move: the topic id and the leader epochs."""
        self._settle()
        self.leader_epochs.flush()

    def flush_in_background(self, then: Callable[[], None] | None = None) -> None:
        """Force everything up to the log's end to disk, without waiting. When it is there, the recovery point moves and `then`
        is called; after a fault it never is."""
        with self.disk():
            self.before_sync()
            self.durability.flush_in_background(self.log_end_offset, then=then)

    def is_flush_due(self) -> bool:
        """Whether `flush.ms` asks for a flush now."""
        unflushed = self.recovery_point < self.log_end_offset
        return unflushed and self.durability.waited_ms() >= self.config.flush_ms

    def close(self) -> None:
        """Stop cleanly: afterwards the directory holds all there is to know, and opening it again reads no batch."""
        work = self.prepare_close()
        if work is None:
            self.release()
            return
        with self.disk():
            work()
        self.note_closed()

    def prepare_close(self) -> SyncWork | None:
        """Write down all there is to know. What is returned forces it to disk, on any thread, and then `note_closed` is due; None
        where all of it is there already. Nothing may be appended any more."""
        with self.disk():
            if self.is_durable:
                return None
            self._settle()
            producers = self.producers
            producers.map_end_offset = Offset(self.log_end_offset)
            # Where a roll has taken it already, it may not have been synced yet.
            snapshot = producers.take_snapshot(sync=False) or producers.snapshots.path(self.log_end_offset)
            self.segments.active.finish()
            return self.durability.work_of_close(snapshot, self.leader_epochs.flush_elsewhere())

    def note_closed(self) -> None:
        """What `prepare_close` has returned is done: the log is as it will be found again."""
        self.durability.note_flushed(self.log_end_offset)
        self.is_durable = True
        self.release()

    def release(self) -> None:
        """Close all files as they are: what a crash would do, or what a log that is going away needs."""
        self.disturb_cleaning()
        for segment in self.segments:
            segment.release()

    # --- its name and topic ------------------------------------------------------------------------------------------------

    def assign_topic_id(self, topic_id: TopicId) -> ErrorCode:
        """Note whose log this is; INCONSISTENT_TOPIC_ID if it is another topic's already. On disk before the next record is."""
        if self.topic_id is None:
            with self.disk():
                begin_partition_metadata(self.seams.files, self.directory, topic_id)
                self.topic_id = topic_id
                self.is_settled = False
        return ErrorCode.NONE if self.topic_id == topic_id else ErrorCode.INCONSISTENT_TOPIC_ID

    def settle(self) -> None:
        """Have the topic id and the directory's name on disk, now if they are not."""
        with self.disk():
            self._settle()

    def _settle(self) -> None:
        if self.is_settled:
            return
        settle_partition_metadata(self.seams.files, self.directory, has_topic_id=self.topic_id is not None)
        self.is_settled = True

    def name_topic_id(self) -> None:
        """The content of `partition.metadata` is on disk: it may have its name."""
        with self.disk():
            name_partition_metadata(self.seams.files, self.directory)

    def note_settled(self) -> None:
        """The topic id and all names are on disk. Of a log without a record that is all there is."""
        self.is_settled = True
        if self.is_empty:
            # An epoch without a record need not survive a restart.
            self.is_durable = True

    def rename_directory(self, directory: str, *, sync: bool = True) -> None:
        """Give the log's directory another name in the same log directory, durably unless told otherwise."""
        with self.disk():
            self.seams.files.rename(self.directory, directory)
            if sync:
                self.seams.files.sync_directory(parent_of(directory))
            self.directory = self.durability.directory = directory
            for segment in self.segments:
                segment.relocate(directory)
            self.producers.relocate(directory)
            self.leader_epochs.relocate(f"{directory}/{self.leader_epochs.path.rpartition('/')[2]}")

    # --- faults ------------------------------------------------------------------------------------------------------------

    def disk(self) -> OnDisk:
        """Around what touches the disk, except where a context manager would cost too much."""
        return OnDisk(self)

    def fail(self, error: Exception) -> NoReturn:
        """Raise after a write that broke off. A fault of the disk takes the log directory offline; anything else is a bug."""
        if not isinstance(error, StorageError):
            raise BugError(f"a write to {self.directory} broke off") from error
        self.report_fault(error)
        raise error

    def report_fault(self, error: StorageError) -> None:
        """Take the log offline after a fault of the disk, met by the log or by whoever else reads or writes its files."""
        if self.fault is None:
            self.fault = error
            self.host.report_fault(error)

    def raise_offline(self) -> NoReturn:
        raise StorageError(self.directory, "use", None, f"its log directory is offline, because of this: {self.fault}")


class OnDisk:
    """A fault of the disk within takes the log offline; on an offline log nothing begins."""

    __slots__ = ("_log",)

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    def __enter__(self) -> None:
        if self._log.fault is not None:
            self._log.raise_offline()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, StorageError):
            self._log.report_fault(error)


def _buffers_of(batches: list[CheckedBatch]) -> Sequence[ReadableBytes]:
    """The buffers to write: a single one where the batches are adjacent in memory, as in a Fetch response, else one for each."""
    first = batches[0]
    last = batches[len(batches) - 1]
    size = 0
    for batch in batches:
        if batch.buffer is not first.buffer or batch.position != first.position + size:
            return [each.view for each in batches]
        size += batch.size_bytes
    buffer = first.buffer
    if size == len(buffer):
        return (buffer,)
    return (buffer[first.position : last.position + last.size_bytes],)
