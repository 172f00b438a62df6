# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""The way of a batch into a log and out of it again: what every produced batch and every read at the tail go through.

This is one source for two twins: it runs as plain Python, and `setup.py` compiles it to `_log_kernel`. Nothing in it speaks of
Cython. `_log_kernel.pxd` beside it says which attributes, arguments and results are C's, and which methods are called as C
functions; the compiler ignores the annotations here.

    SegmentCore       the end of a segment, where batches are written      `storage.segment`
    SegmentListCore   the segment that holds an offset                     `storage.segment_list`
    LogReaderCore     the region that answers a read, FreshRun             `storage.log_reader`
    ProducersCore     a producer's next batch                              `storage.producer_state`
    LogCore           appends by a leader, and reads                       `storage.log_state` to `storage.partition_log`

Each `...Core` has a subclass in Python for everything else, and is known by that one's name. What is a `def` in the subclass is
called by name, as any method is. Offsets stay the objects that they came as where they are handed on, and are C's numbers, of 64
bits, where they are compared: they come from validated headers, or from the log itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from tidelog.model.bugs import BugError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, Offset, ProducerId
from tidelog.storage import append as _append, mapped_index as _mapped_index, producer_append as _producer_append
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import Fetched, FetchIsolation
from tidelog.storage.file_region import FileRegion, FreshRegion
from tidelog.wire import record_batch as _record_batch
from tidelog.wire.batch_errors import CorruptBatchError

if TYPE_CHECKING:
    from tidelog.storage.append import AppendInfo, AppendRefused, CheckedBatch
    from tidelog.storage.durability import Durability
    from tidelog.storage.files import File, ReadableBytes
    from tidelog.storage.log_config import LogConfig
    from tidelog.storage.log_reader import LogReader
    from tidelog.storage.open_segments import OpenSegments
    from tidelog.storage.producer_append import ProducerState
    from tidelog.storage.producer_state import ProducerStateTable
    from tidelog.storage.segment import FoundBatch, Segment, WrittenBatch
    from tidelog.storage.segment_list import SegmentList
    from tidelog.storage.time_index import TimestampOffset
    from tidelog.storage.transaction_index import AbortedTransaction
    from tidelog.storage.verification_guard import Verification

_BATCH_OVERHEAD = _record_batch.BATCH_OVERHEAD
_FRESH_BYTES_MAX = _append.FRESH_BYTES_MAX
_NOT_TRANSACTIONAL = _append.NOT_TRANSACTIONAL
_OFFSET_MAX = _append.OFFSET_MAX
_RELATIVE_OFFSET_MAX = _mapped_index.INT32_MAX
_BATCHES_KEPT = _producer_append.BATCHES_KEPT
_NO_TRANSACTION = _producer_append.NO_TRANSACTION
# How many sequence numbers there are; after the last comes 0.
_SEQUENCES = 2**31

# Where the batch of an offset begins is remembered for the offsets that are asked for again at once: the high watermark, the
# last stable offset, and the log's end where a reader got to, which is where it goes on.
_PLACES_REMEMBERED_MAX = 16

_pack_place = _append.pack_place
_BatchMetadata = _producer_append.BatchMetadata

# A member that is reached through its class costs more, and every read asks for these.
_LOG_END = FetchIsolation.LOG_END
_HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
_OFFSET_OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


class SegmentCore:
    """Where a segment's batches end, and what is known of them. One that is appended to is written there."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_file",
        "_first_timestamp",
        "_index_entries_left",
        "_index_interval_bytes",
        "_largest_timestamp",
        "_largest_timestamp_offset",
        "_open_segments",
        "_reserve_at",
        "base_offset",
        "roll_jitter_ms",
        "size_bytes",
    )

    def __init__(
        self,
        open_segments: OpenSegments,
        base_offset: int,
        size_bytes: int,
        index_interval_bytes: int,
        roll_jitter_ms: int,
        reserve_at: int,
    ) -> None:
        self._open_segments = open_segments
        self._index_interval_bytes = index_interval_bytes
        self._file: File | None = None
        # Once the batches end behind this, more is to be reserved.
        self._reserve_at = reserve_at
        # None: not known yet; it takes a look at the files.
        self._index_entries_left: int | None = None
        self._bytes_since_index_entry = 0
        # None: not known yet, and one read away.
        self._first_timestamp: int | None = None
        self._largest_timestamp: int | None = None
        self._largest_timestamp_offset = base_offset
        self.roll_jitter_ms = roll_jitter_ms
        self.base_offset = Offset(base_offset)
        self.size_bytes = size_bytes

    # What `Segment` says.

    @property
    def largest_timestamp_offset(self) -> TimestampOffset:
        raise NotImplementedError

    def find(self, offset: int) -> FoundBatch | None:
        raise NotImplementedError

    def release(self) -> None:
        raise NotImplementedError

    def _open_log(self) -> File:
        raise NotImplementedError

    def _waited_ms(self, max_timestamp: int) -> int:
        raise NotImplementedError

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        raise NotImplementedError

    def _reserve(self, file: File, end: int) -> None:
        raise NotImplementedError

    def _cut_back(self, file: File, position: int) -> None:
        raise NotImplementedError

    # The file.

    @property
    def file(self) -> File:
        """The open log file. Whoever keeps it keeps it open."""
        return self.open_file()

    def open_file(self) -> File:
        file = self._file
        if file is None or self._open_segments.is_crowded:
            self._open_segments.used(self)
        if file is None:
            file = self._file = self._open_log()
        return file

    # Appending.

    def should_roll(self, config: LogConfig, incoming_bytes: int, last_offset: int, max_timestamp: int) -> bool:
        """Whether the next append belongs into a new segment: for size, time, a full index, or an offset too far away."""
        if last_offset - self.base_offset > _RELATIVE_OFFSET_MAX:
            return True
        if self.size_bytes == 0:
            # An empty segment has nothing to be closed for; with an index of no entries it would roll for ever.
            return False
        return (
            self.size_bytes > config.segment_bytes - incoming_bytes
            or self._index_entries_left == 0
            or self._waited_ms(max_timestamp) > config.roll_ms - self.roll_jitter_ms
        )

    def append(self, buffers: Sequence[ReadableBytes], batches: Sequence[WrittenBatch]) -> None:
        """Write the batches that fill `buffers`, in one go.

        On a failure the file ends where it ended before, if the disk allows even that, and the segment is unchanged.
        """
        self.write_all(buffers, batches)

    def write_all(self, buffers: Sequence[ReadableBytes], batches: Sequence[WrittenBatch]) -> None:
        position = self.size_bytes
        file = self.open_file()
        try:
            written = file.pwritev(buffers, position)
        except StorageError:
            self._cut_back(file, position)
            raise
        known = self._largest_timestamp
        largest = self.largest_timestamp_offset.timestamp if known is None else known
        unindexed = self._bytes_since_index_entry
        for size, last_offset, max_timestamp in batches:
            if position == 0:
                self._first_timestamp = max_timestamp
            if max_timestamp > largest:
                self._largest_timestamp = largest = max_timestamp
                self._largest_timestamp_offset = last_offset
            if unindexed > self._index_interval_bytes:
                self._add_index_entries(last_offset, position)
                unindexed = 0
            unindexed += size
            position += size
        if self.size_bytes + written != position:
            raise BugError(f"{self} has got {written} bytes, and its batches end at {position}")
        self._bytes_since_index_entry = unindexed
        self.size_bytes = position
        if position > self._reserve_at:
            self._reserve(file, position)

    def takes_one(self, config: LogConfig, size: int, last_offset: int, max_timestamp: int) -> bool:
        """Whether one batch can be written by `write_one`: it needs no new segment, and nothing has to be looked up first."""
        return self.takes(config, size, last_offset, max_timestamp)

    def takes(self, config: LogConfig, size: int, last_offset: int, max_timestamp: int) -> bool:
        known = self._first_timestamp
        if known is None or self._largest_timestamp is None or max_timestamp < 0:
            return False
        first = known
        position = self.size_bytes
        segment_bytes = config.segment_bytes
        roll_ms = config.roll_ms
        return (
            position > 0
            and first >= 0
            and position <= segment_bytes - size
            and max_timestamp - first <= roll_ms - self.roll_jitter_ms
            and last_offset - self.base_offset <= _RELATIVE_OFFSET_MAX
            and self._index_entries_left != 0
        )

    def write_one(self, batch: ReadableBytes, size: int, last_offset: int, max_timestamp: int) -> None:
        """`append` for one batch that `takes_one` has allowed: the quick way of what is written one batch at a time."""
        self.write(batch, size, last_offset, max_timestamp)

    def write(self, batch: ReadableBytes, size: int, last_offset: int, max_timestamp: int) -> None:
        position = self.size_bytes
        known = self._largest_timestamp
        assert known is not None
        largest = known
        file = self._file
        if file is None or self._open_segments.is_crowded:
            file = self.open_file()
        try:
            written = file.pwritev((batch,), position)
        except StorageError:
            self._cut_back(file, position)
            raise
        if written != size:
            raise BugError(f"{self} has got {written} bytes of a batch of {size}")
        if max_timestamp > largest:
            self._largest_timestamp = max_timestamp
            self._largest_timestamp_offset = last_offset
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._add_index_entries(last_offset, position)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size
        self.size_bytes = position + size
        if self.size_bytes > self._reserve_at:
            self._reserve(file, self.size_bytes)


class SegmentListCore:
    """Segments by rising base offset. The last one is the active one."""

    __slots__ = ("_base_offsets", "_segments", "active")

    # Of an empty list there is none; a log has at least one segment from the end of its loading on.
    active: Segment

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._segments: list[Segment] = []

    def floor(self, offset: int) -> Segment | None:
        """The last segment whose base offset is at or below `offset`: the one that holds it, if any does."""
        return self.holder(offset)

    def holder(self, offset: int) -> Segment | None:
        if not self._segments:
            return None
        # Nearly all that is read is read at the tail.
        active = self.active
        if offset >= active.base_offset:
            return active
        slot = bisect_right(self._base_offsets, offset)
        return self._segments[slot - 1] if slot > 0 else None

    def after(self, base_offset: int) -> Segment | None:
        """The first segment whose base offset is above."""
        slot = bisect_right(self._base_offsets, base_offset)
        return self._segments[slot] if slot < len(self._segments) else None


class FreshRun:
    """Batches that have just been written. Not their file: that may have to be closed for others."""

    __slots__ = ("base_offset", "end_offset", "position", "records", "segment")

    segment: Segment
    position: int
    base_offset: int
    end_offset: int
    records: bytes


class FoundRegion:
    """The region that answers a read, and the segment that it is of."""

    __slots__ = ("region", "segment")

    def __init__(self, region: FileRegion, segment: Segment) -> None:
        self.region = region
        self.segment = segment


class FirstBatchTooLarge:
    """The first batch alone is larger than the reader allows."""

    __slots__ = ("size_bytes",)

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes


class LogReaderCore:
    """Finds what answers a read of one log. CorruptBatchError where a file is damaged."""

    __slots__ = ("_places", "_segments", "fresh")

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        # Of an offset: the segment that holds it, and where in it the batch begins that does, or will.
        self._places: dict[int, tuple[Segment, int]] = {}
        self.fresh: FreshRun | None = None
        """The last append, if somebody waits for it. Nothing that ends a transaction lies behind it."""

    def forget_positions(self) -> None:
        """The log has been truncated: remembered positions may be another batch's by now."""
        self._places.clear()
        self.fresh = None

    def keep_fresh(self, segment: Segment, records: bytes, base_offset: int, end_offset: int) -> None:
        """`records` have just been written to the end of `segment`."""
        end = segment.size_bytes
        # Without arguments, which would all be put into a tuple, and taken out again by their names.
        fresh = FreshRun.__new__(FreshRun)
        fresh.segment = segment
        fresh.position = end - len(records)
        fresh.base_offset = base_offset
        fresh.end_offset = end_offset
        fresh.records = records
        self.fresh = fresh
        self._remember(end_offset, segment, end)

    def find_region(
        self, offset: int, bound: int, log_end_offset: int, bytes_max: int, min_one_batch: bool
    ) -> FoundRegion | FirstBatchTooLarge | None:
        """The batches from the one that holds `offset` up to the offset `bound`, of one segment and within `bytes_max`."""
        segment = self._segments.holder(offset)
        place = self._places.get(offset)
        if place is not None and segment is not None and place[0] is segment:
            position = place[1]
            if segment.size_bytes > position:
                # A reader that goes on where it ended. What fits as a whole needs no look at the first batch.
                end = self._end_position(segment, bound, log_end_offset)
                if end <= position:
                    return None
                if end - position <= bytes_max:
                    return _region_of(segment, position, end - position)
        while segment is not None:
            found = segment.find(offset)
            if found is None:
                # Compaction has removed all that the segment had from there on.
                segment = self._segments.after(segment.base_offset)
                continue
            position = found.position
            end = self._end_position(segment, bound, log_end_offset)
            if end <= position:
                return None
            first_batch_bytes = found.header.size_bytes
            if first_batch_bytes > bytes_max:
                if not min_one_batch:
                    return FirstBatchTooLarge(first_batch_bytes)
                bytes_max = first_batch_bytes
            return _region_of(segment, position, min(end - position, bytes_max))
        return None

    def _end_position(self, segment: Segment, bound: int, log_end_offset: int) -> int:
        """Where in `segment` the batches before the offset `bound` end."""
        if bound == log_end_offset:
            position = segment.size_bytes
            if segment is self._segments.active:
                self._remember(bound, segment, position)
            return position
        holder = self._segments.holder(bound)
        if holder is None:
            holder = self._segments.first
        place = self._places.get(bound)
        if place is None or place[0] is not holder:
            found = holder.find(bound)
            position = holder.size_bytes if found is None else found.position
            self._remember(bound, holder, position)
        else:
            position = place[1]
        if segment is holder:
            return position
        return segment.size_bytes if segment.base_offset < holder.base_offset else 0

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        places = self._places
        if len(places) >= _PLACES_REMEMBERED_MAX and offset not in places:
            # The oldest: readers at the tail only ask for the newest.
            del places[next(iter(places))]
        places[offset] = (segment, position)


def _region_of(segment: Segment, position: int, count: int) -> FoundRegion:
    if position < 0 or count <= 0 or position + count > segment.size_bytes:
        raise BugError(f"a read of {segment} is answered with {count} bytes from {position} on")
    return FoundRegion(FileRegion(segment.open_file(), position, count), segment)


class ProducersCore:
    """The producers of one partition, as far as every batch and every read asks."""

    __slots__ = ("_producers", "_verifications", "map_end_offset", "ongoing", "unreplicated")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerState] = {}
        # Producer id -> what is asked about the transaction that its next records are to begin.
        self._verifications: dict[int, Verification] = {}
        self.ongoing: OrderedDict[Offset, ProducerId] = OrderedDict()
        """First offset of each open transaction -> who has it open. In order of offset, since offsets only grow."""
        self.unreplicated: OrderedDict[Offset, Offset] = OrderedDict()
        """First offset of each transaction that has ended above the high watermark -> its marker. In order of markers."""
        self.map_end_offset = Offset(0)
        """The offset after the last one that the state covers. Whoever appends moves it."""

    def continue_sequence(
        self, producer_id: int, epoch: int, base_sequence: int, base_offset: int, delta: int, timestamp: int
    ) -> bool:
        """Take in a client's batch whose number follows its producer's last one, as nearly all do. False: it needs a closer look.

        What `prepare` and `apply` do with such a batch.
        """
        return self.follow(producer_id, epoch, base_sequence, base_offset, delta, timestamp)

    def follow(
        self, producer_id: int, epoch: int, base_sequence: int, base_offset: int, delta: int, timestamp: int
    ) -> bool:
        state = self._producers.get(producer_id)
        if state is None or state.epoch != epoch:
            return False
        if self._verifications and producer_id in self._verifications:
            # It may overtake what is asked about.
            return False
        transaction_first_offset = state.transaction_first_offset
        batches = state.batches
        kept = len(batches)
        if transaction_first_offset != _NO_TRANSACTION or kept == 0:
            return False
        last_sequence = batches[kept - 1].last_sequence
        if last_sequence + 1 != base_sequence:
            return False
        oldest = batches[0]
        first_offset = oldest.last_offset - oldest.offset_delta
        last_offset = base_offset + delta
        # So few offsets since the oldest batch that numbers have not come round: it repeats none.
        if last_offset - first_offset >= _SEQUENCES or base_sequence + delta >= _SEQUENCES:
            return False
        if base_offset <= batches[kept - 1].last_offset:
            raise BugError(f"producer {producer_id} writes at offset {base_offset}, behind its batches {batches}")
        if kept == _BATCHES_KEPT:
            del batches[0]
        batches.append(_BatchMetadata(base_sequence + delta, last_offset, delta, timestamp))
        state.last_timestamp = timestamp
        return True


class LogCore:
    """The parts of one log and its offsets; a leader's appends, and reads."""

    __slots__ = (
        "_assigned_epoch",
        "_durability",
        "_is_durable",
        "_reader",
        "_segments",
        "config",
        "fault",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "producers",
    )

    def __init__(
        self,
        config: LogConfig,
        segments: SegmentList,
        reader: LogReader,
        producers: ProducerStateTable,
        durability: Durability,
        log_start_offset: Offset,
        log_end_offset: Offset,
        is_durable: bool,
    ) -> None:
        self.config = config
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.fault: StorageError | None = None
        self._segments = segments
        self._reader = reader
        self._durability = durability
        self._is_durable = is_durable
        # The epoch of the last append: nothing is to be noted for another one of it.
        self._assigned_epoch: int = NO_LEADER_EPOCH

    # What the layers above say.

    def _raise_offline(self) -> NoReturn:
        raise NotImplementedError

    def _fail(self, error: Exception) -> NoReturn:
        raise NotImplementedError

    def _flush(self) -> None:
        raise NotImplementedError

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        raise NotImplementedError

    def _judge_sequence(self, batch: CheckedBatch, offset: int) -> AppendInfo | AppendRefused | None:
        raise NotImplementedError

    def _append_each(
        self, run: Sequence[CheckedBatch], leader_epoch: int
    ) -> Sequence[int | AppendInfo | AppendRefused]:
        raise NotImplementedError

    # Offsets.

    @property
    def last_stable_offset(self) -> Offset:
        """How far a reader of committed records may see."""
        raise NotImplementedError

    def commit_up_to(self, offset: int) -> None:
        """`set_high_watermark` for an offset within the log that is beyond the present one."""
        if offset < self.high_watermark or offset > self.log_end_offset:
            raise BugError(f"the high watermark of {self} cannot go from {self.high_watermark} to {offset}")
        self.high_watermark = offset  # type: ignore[assignment]  # it is one, and to say so is a call
        if self.producers.unreplicated:
            self.producers.on_high_watermark_updated(offset)

    # Appending.

    def append_run(
        self, run: Sequence[CheckedBatch], leader_epoch: int, is_awaited: bool = False
    ) -> Sequence[int | AppendInfo | AppendRefused]:
        """`append_as_leader` for several batches that have been checked, each by itself, with one write for all of them.

        Of each: its first offset, what it repeats, or why it was refused. Only where records keep their producers' time. What
        somebody waits for is kept for his read, if it is little.
        """
        if self.fault is not None:
            self._raise_offline()
        self._reader.fresh = None
        if len(run) == 1:
            outcome = self._append_alone(run[0], leader_epoch, is_awaited)
            if outcome is not None:
                return (outcome,)
        return self._append_together(run, leader_epoch, is_awaited)

    def _append_alone(
        self, batch: CheckedBatch, leader_epoch: int, is_awaited: bool
    ) -> int | AppendInfo | AppendRefused | None:
        """`append_run` of one batch, as most are where each has to be answered soon. None: it needs a closer look."""
        # All at once: a tuple with names looks each index up as if it were a name.
        view, delta, max_timestamp, producer_id, epoch, sequence, guard = batch
        first_offset = self.log_end_offset
        offset = first_offset
        size = len(view)
        if delta >= _OFFSET_MAX - offset or leader_epoch != self._assigned_epoch:
            return None
        end = offset + delta + 1
        segment = self._segments.active
        if not segment.takes(self.config, size, end - 1, max_timestamp):
            return None
        if producer_id >= 0 and not self._follows(
            producer_id, epoch, sequence, first_offset, delta, max_timestamp, guard
        ):
            refused = self._judge_sequence(batch, first_offset)
            if refused is not None:
                return refused
        _pack_place(view, 0, first_offset, size - _BATCH_OVERHEAD, leader_epoch)
        self._is_durable = False
        try:
            segment.write(view, size, end - 1, max_timestamp)
            if is_awaited and size < _FRESH_BYTES_MAX:
                self._reader.keep_fresh(segment, bytes(view), offset, end)
            self._end_at_offset(end)
        except Exception as error:  # noqa: BLE001 - raised again
            self._fail(error)
        return first_offset

    def _append_together(
        self, run: Sequence[CheckedBatch], leader_epoch: int, is_awaited: bool
    ) -> Sequence[int | AppendInfo | AppendRefused]:
        size = 0
        # How many offsets there are for the first of these; never so many that they are not a number of 64 bits.
        room = _OFFSET_MAX - self.log_end_offset
        newest = -1
        for view, delta, max_timestamp, _, _, _, _ in run:
            size += len(view)
            room -= delta + 1
            newest = max(newest, max_timestamp)
        segment = self._segments.active
        fits = False
        try:
            fits = (
                room >= 0
                and size <= self.config.segment_bytes
                and (
                    segment.takes(self.config, size, _OFFSET_MAX - room, newest)
                    or not segment.should_roll(self.config, size, _OFFSET_MAX - room, newest)
                )
            )
        except StorageError as error:
            self._fail(error)
        if not fits:
            # What a producer's snapshot at the roll may know depends on which batch comes first in the new segment.
            return self._append_each(run, leader_epoch)
        outcomes: list[int | AppendInfo | AppendRefused] = []
        position = segment.size_bytes
        views: list[memoryview] = []
        written: list[WrittenBatch] = []
        first_offset = self.log_end_offset
        offset: int = first_offset
        for batch in run:
            view, delta, max_timestamp, producer_id, epoch, sequence, guard = batch
            placed: int = offset
            if producer_id >= 0 and not self._follows(
                producer_id, epoch, sequence, placed, delta, max_timestamp, guard
            ):
                refused = self._judge_sequence(batch, placed)
                if refused is not None:
                    outcomes.append(refused)
                    continue
            size = len(view)
            _pack_place(view, 0, placed, size - _BATCH_OVERHEAD, leader_epoch)
            views.append(view)
            written.append((size, offset + delta, max_timestamp))
            outcomes.append(placed)
            offset += delta + 1
        if views:
            try:
                if leader_epoch != self._assigned_epoch and leader_epoch >= 0:
                    self._assign_epoch(leader_epoch, first_offset)
                self._is_durable = False
                segment.write_all(views, written)
                if is_awaited and segment.size_bytes - position < _FRESH_BYTES_MAX:
                    self._reader.keep_fresh(segment, b"".join(views), first_offset, offset)
                self._end_at_offset(offset)
            except Exception as error:  # noqa: BLE001 - raised again
                self._fail(error)
        return outcomes

    def _follows(
        self, producer_id: int, epoch: int, sequence: int, offset: int, delta: int, timestamp: int, guard: int | None
    ) -> bool:
        """Take in the sequence of a batch that is about to be written at `offset`. False: it needs a closer look.

        Before the write: should that fail, the log goes offline, and its state is read anew from what is on disk.
        """
        if guard == _NOT_TRANSACTIONAL:
            return self.producers.follow(producer_id, epoch, sequence, offset, delta, timestamp)
        return self.producers.continue_transaction(producer_id, epoch, sequence, offset, delta, timestamp, guard)

    def _ends_with_it(self, end: int) -> None:
        """What was written brings the log's end to `end`, and tells of no transaction's end."""
        self._end_at_offset(end)

    def _end_at_offset(self, end: int) -> None:
        if end <= self.log_end_offset:
            raise BugError(f"{self} cannot end at offset {end} after an append")
        offset: Offset = end  # type: ignore[assignment]  # it is one, and to say so is a call
        self.log_end_offset = offset
        self.producers.map_end_offset = offset
        flush_messages = self.config.flush_messages
        # The first says nothing that the second does not, and is nearly always enough.
        if end >= flush_messages and end - self._durability.recovery_point >= flush_messages:
            self._flush()

    def forget_fresh(self, *, also_uncommitted: bool = False) -> None:
        """Who waited for the last append has been told. Where it is not committed, some may still be waiting."""
        fresh = self._reader.fresh
        if fresh is not None and (also_uncommitted or fresh.end_offset <= self.high_watermark):
            self._reader.fresh = None

    # Reading.

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
        return self._read(offset, bytes_max, upper_bound, min_one_batch)

    def _read(
        self, offset: int, bytes_max: int, upper_bound: FetchIsolation, min_one_batch: bool
    ) -> Fetched | ErrorCode:
        if self.fault is not None:
            self._raise_offline()
        log_start_offset = self.log_start_offset
        log_end_offset = self.log_end_offset
        high_watermark = self.high_watermark
        start = log_start_offset
        end = log_end_offset
        if offset < start or offset > end:
            return _OFFSET_OUT_OF_RANGE
        aborted: tuple[AbortedTransaction, ...] | None = None
        producers = self.producers
        stable = high_watermark
        # Mostly no transaction is open, and then there is nothing to be asked.
        if producers.ongoing or producers.unreplicated:
            stable = self.last_stable_offset
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
        fresh = self._reader.fresh
        try:
            if (
                fresh is not None
                and offset == fresh.base_offset
                and bound == fresh.end_offset
                and len(fresh.records) <= bytes_max
            ):
                # No marker is in it or behind it, so none of it belongs to an aborted transaction.
                records = fresh.records
                regions = (FreshRegion(fresh.segment.open_file(), fresh.position, len(records), records),)
                return Fetched(regions, log_start_offset, log_end_offset, high_watermark, stable, False, aborted)
            found = self._reader.find_region(offset, bound, end, bytes_max, min_one_batch)
            if type(found) is FoundRegion:
                if aborted is not None:
                    aborted = self._reader.aborted_in(found, offset, log_end_offset)
                regions = (found.region,)
                found = None
        except CorruptBatchError:
            return ErrorCode.CORRUPT_MESSAGE
        except StorageError as error:
            self._fail(error)
        is_too_large = found is not None
        return Fetched(regions, log_start_offset, log_end_offset, high_watermark, stable, is_too_large, aborted)
