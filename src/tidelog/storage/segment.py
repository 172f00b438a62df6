# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True, boundscheck=True, wraparound=True
"""One stretch of a partition's log: the `.log` file and its indexes, all named after the first offset they may hold.

    00000000000000000042.log          record batches, one after the other, nothing between them
    00000000000000000042.index        offset -> position, sparse          (`offset_index`)
    00000000000000000042.timeindex    timestamp -> offset, sparse         (`time_index`)
    00000000000000000042.txnindex     aborted transactions; often absent  (`transaction_index`)

Only the last segment of a log is appended to. `size_bytes` is where its batches end, which may be before the file does: a
preallocated file has a tail of zeros until the segment rolls or stops cleanly. Files are opened when they are first needed and
may be closed at any time between two calls (`open_segments`).

A segment belongs to its log's thread. What another thread may do is sync the handles that `open_for_sync` returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.model.bugs import BugError
from tidelog.model.ids import NO_TIMESTAMP, LeaderEpoch, Offset, TimestampMs
from tidelog.storage.batch_scan import each_header
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.files import File, ReadableBytes
from tidelog.storage.log_config import LogConfig
from tidelog.storage.mapped_index import INT32_MAX
from tidelog.storage.offset_index import OffsetIndex
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.seams import Seams
from tidelog.storage.time_index import TimeIndex, TimestampOffset
from tidelog.storage.transaction_index import AbortedSearch, AbortedTransaction, TransactionIndex
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.record_batch import HEADER_BYTES, BatchHeader, read_header
from tidelog.wire.records import decode_rows

if TYPE_CHECKING:
    from tidelog.storage.checked_batches import CheckedBatch

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

# An index stores the distance from the base offset as an int32.
RELATIVE_OFFSET_MAX = INT32_MAX


# Where the file system finds the blocks of a file one write at a time, it takes a third longer to write. So a segment reserves
# ahead of what it writes, once it is large: most segments of most nodes are small, and take no more than they need.
RESERVED_FROM_BYTES = 8 * 1024 * 1024
RESERVED_BYTES_MAX = 8 * 1024 * 1024


_RELATIVE_OFFSET_MAX = RELATIVE_OFFSET_MAX

# Sentinel: not yet loaded from the segment's files. No timestamp and no number of entries has this value.
_UNKNOWN = -(2**62)


class FoundBatch(NamedTuple):
    """A batch and where in the file it begins."""

    position: int
    header: BatchHeader


class FoundTimestamp(NamedTuple):
    """A record found by its time. `leader_epoch` is that of its batch."""

    timestamp: TimestampMs
    offset: Offset
    leader_epoch: LeaderEpoch


def file_name(base_offset: int, suffix: str) -> str:
    """The name of a segment's file."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """One segment, active or not."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_created_ms",
        "_directory",
        "_file",
        "_first_timestamp",
        "_index_entries_left",
        "_index_interval_bytes",
        "_is_preallocated",
        "_largest_timestamp",
        "_largest_timestamp_offset",
        "_open_segments",
        "_reserve_at",
        "_seams",
        "_suffix",
        "base_offset",
        "offset_index",
        "roll_jitter_ms",
        "size_bytes",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        seams: Seams,
        open_segments: OpenSegments,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        size_bytes: int,
        suffix: str = "",
    ) -> None:
        """A segment whose files exist. Opens none of them."""
        self._seams = seams
        self._open_segments = open_segments
        self._directory = directory
        self._suffix = suffix
        self._created_ms: int = seams.clock.now_ms()
        self._index_interval_bytes = config.index_interval_bytes
        self._file: File | None = None
        # Once `size_bytes` passes this position, the next stretch of the file is reserved.
        self._reserve_at = RESERVED_FROM_BYTES
        self._index_entries_left = _UNKNOWN
        self._bytes_since_index_entry = 0
        # Loaded lazily, from the first batch and from the time index.
        self._first_timestamp = _UNKNOWN
        self._largest_timestamp = _UNKNOWN
        self._largest_timestamp_offset = base_offset
        self.roll_jitter_ms = config.roll_jitter_ms(seams.random)
        self.base_offset = Offset(base_offset)
        self.size_bytes = size_bytes
        self._is_preallocated = False
        index_bytes = config.segment_index_bytes
        files = seams.files
        self.offset_index = OffsetIndex(files, self.path(INDEX_SUFFIX), self.base_offset, bytes_max=index_bytes)
        # At least one entry: `finish` writes the last one.
        time_bytes = max(index_bytes, TimeIndex.ENTRY_BYTES)
        self.time_index = TimeIndex(files, self.path(TIME_INDEX_SUFFIX), self.base_offset, bytes_max=time_bytes)
        self.transaction_index = TransactionIndex(files, self.path(TRANSACTION_INDEX_SUFFIX), base_offset)

    @classmethod
    def create(
        cls,
        seams: Seams,
        open_segments: OpenSegments,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        suffix: str = "",
        is_first: bool = False,
    ) -> Segment:
        """A new, empty segment. Files of the same name, left by a crash, are removed first; in a new directory there are none.

        The first of a log is left closed: most of the partitions that are made together have to wait for their first record.
        """
        segment = cls(seams, open_segments, directory, base_offset, config, size_bytes=0, suffix=suffix)
        if not is_first:
            for each in SEGMENT_SUFFIXES:
                seams.files.remove(segment.path(each))
        file = seams.files.open(segment.path(LOG_SUFFIX), create=True)
        if config.preallocate:
            file.allocate(config.segment_bytes)
            segment._is_preallocated = True
        segment._create_indexes()
        if is_first:
            file.close()
        else:
            open_segments.used(segment)
            segment._file = file
        segment._largest_timestamp = NO_TIMESTAMP
        return segment

    def _create_indexes(self) -> None:
        """Have both files, empty or not: a missing one is taken for lost when the log is opened."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._seams.files.open(self.path(suffix), create=True).close()

    def __repr__(self) -> str:
        return f"Segment({self.path(LOG_SUFFIX)}, {self.size_bytes} bytes)"

    def path(self, suffix: str) -> str:
        """Where the file of this kind is now."""
        return f"{self._directory}/{file_name(self.base_offset, suffix)}{self._suffix}"

    @property
    def file(self) -> File:
        """The open log file. Whoever keeps it keeps it open."""
        return self.open_file()

    def open_file(self) -> File:
        file = self._file
        if file is None or self._open_segments.is_crowded:
            self._open_segments.used(self)
        if file is None:
            file = self._file = self._seams.files.open(self.path(LOG_SUFFIX))
        return file

    # Appending

    def must_roll(
        self,
        segment_bytes: int,
        roll_ms: int,
        gathered_bytes: int,
        incoming_bytes: int,
        last_offset: int,
        max_timestamp: int,
    ) -> bool:
        """Whether the next batch belongs into a new segment: for size, time, a full index, or an offset too far away.

        `gathered_bytes` are about to be written here before it.
        """
        if last_offset - self.base_offset > _RELATIVE_OFFSET_MAX:
            return True
        size_bytes = self.size_bytes
        if size_bytes + gathered_bytes == 0:
            # An empty segment never rolls; with an index of no entries it would do so in an endless loop.
            return False
        if size_bytes + gathered_bytes > segment_bytes - incoming_bytes:
            return True
        if self._index_entries_left == _UNKNOWN and self._largest_timestamp == _UNKNOWN:
            # Reopened, and the next write loads the time index anyway. Each clean stop may have added an entry to it.
            self._note_full_index()
        return self._index_entries_left == 0 or self._waited_ms(max_timestamp) > roll_ms - self.roll_jitter_ms

    def write(self, buffers: Sequence[ReadableBytes], batches: list[CheckedBatch]) -> None:
        """Write batches, which fill `buffers`, to the end in one go.

        On a failure the file ends where it ended before, if the disk allows even that, and the segment is unchanged.
        """
        position = self.size_bytes
        file = self._file
        if file is None or self._open_segments.is_crowded:
            file = self.open_file()
        try:
            written = file.pwritev(buffers, position)
        except StorageError:
            self._cut_back(file, position)
            raise
        largest = self._largest_timestamp
        if largest == _UNKNOWN:
            largest = self.largest_timestamp_offset.timestamp
        unindexed = self._bytes_since_index_entry
        for batch in batches:
            last_offset = batch.base_offset + batch.last_offset_delta
            if position == 0:
                self._first_timestamp = batch.max_timestamp
            if batch.max_timestamp > largest:
                self._largest_timestamp = largest = batch.max_timestamp
                self._largest_timestamp_offset = last_offset
            if unindexed > self._index_interval_bytes:
                self._add_index_entries(last_offset, position)
                unindexed = 0
            unindexed += batch.size_bytes
            position += batch.size_bytes
        if self.size_bytes + written != position:
            raise BugError(f"{self} has got {written} bytes, and its batches end at {position}")
        self._bytes_since_index_entry = unindexed
        self.size_bytes = position
        if position > self._reserve_at:
            self._reserve(file, position)

    def note_aborted(self, aborted: AbortedTransaction) -> None:
        """The marker that was written here has aborted a transaction."""
        try:
            self.transaction_index.append(aborted)
        except ValueError as error:
            # Markers are appended in order, so an entry that does not let it follow was not written by this log.
            raise DamagedFileError(self.transaction_index.path, str(error)) from error

    def _note_full_index(self) -> None:
        """Mark the segment full where the time index has no slot left but the one reserved for `finish`."""
        self._index_entries_left = 0 if self.time_index.is_full else _UNKNOWN

    def _reserve(self, file: File, end: int) -> None:
        """Have room for what follows the batches, which end at `end`."""
        ahead = min(end, RESERVED_BYTES_MAX)
        if not self._is_preallocated:
            file.reserve(ahead, end)
        self._reserve_at = end + ahead

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        left = self._index_entries_left
        if left == _UNKNOWN:
            left = self._count_index_entries_left()
        # A full index only means longer scans, until the roll that it causes.
        if left > 0:
            try:
                self.offset_index.append(last_offset, position)
                largest = self._largest_timestamp
                if largest >= 0:
                    self.time_index.maybe_append(largest, self._largest_timestamp_offset, skip_full_check=True)
            except ValueError as error:
                # Batches are appended in order, so an entry that does not let it follow was not written by this log.
                raise DamagedFileError(self.path(INDEX_SUFFIX), str(error)) from error
            left -= 1
        self._index_entries_left = left

    def _count_index_entries_left(self) -> int:
        """How many entries fit both indexes; the last slot of the time index is for `finish`."""
        offset_index, time_index = self.offset_index, self.time_index
        by_offset = offset_index.entries_max - offset_index.entries
        by_time = time_index.entries_max - 1 - time_index.entries
        return max(0, min(by_offset, by_time))

    def _cut_back(self, file: File, position: int) -> None:
        try:
            file.truncate(position)
            self._is_preallocated = False
        except StorageError:
            # The disk is failing; recovery truncates instead.
            return

    def _waited_ms(self, max_timestamp: int) -> int:
        """How long the segment has been filling: by the records' own time, or by the clock if the first has none."""
        first = self._first_timestamp
        if first == _UNKNOWN:
            first = self.first_timestamp
        if first >= 0:
            # A negative timestamp is not subtracted from: in the compiled twin the difference could overflow 64 bits.
            return max_timestamp - first if max_timestamp >= 0 else -1
        return self._seams.clock.now_ms() - self._created_ms

    # What is known about the content

    @property
    def first_timestamp(self) -> int:
        """The max timestamp of the first batch; -1 where it has none, or there is no batch."""
        if self._first_timestamp == _UNKNOWN:
            if self.size_bytes == 0:
                return NO_TIMESTAMP
            try:
                self._first_timestamp = read_header(self.file.pread(HEADER_BYTES, 0)).max_timestamp
            except CorruptBatchError as error:
                raise DamagedFileError(self.path(LOG_SUFFIX), f"byte 0 begins no batch: {error}") from error
        return self._first_timestamp

    @property
    def largest_timestamp_offset(self) -> TimestampOffset:
        """The largest timestamp, with the last offset of the batch that has it; (-1, base offset) without timestamps."""
        if self._largest_timestamp == _UNKNOWN:
            self._largest_timestamp, self._largest_timestamp_offset = self.time_index.last_entry
        return TimestampOffset(TimestampMs(self._largest_timestamp), Offset(self._largest_timestamp_offset))

    def largest_timestamp(self) -> TimestampMs:
        """The age by which retention goes: the largest timestamp, or when the file last changed where there is none."""
        timestamp = self.largest_timestamp_offset.timestamp
        if timestamp >= 0:
            return timestamp
        return TimestampMs(self._seams.files.modified_ms(self.path(LOG_SUFFIX)))

    def next_offset(self) -> Offset:
        """The offset after the last batch, found from the last index entry on."""
        following = self.base_offset
        for _, header in self.headers_from(self._in_file(self.offset_index.last_position)):
            following = Offset(header.next_offset)
        return following

    def headers_from(self, position: int, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """The batches from a position on. CorruptBatchError where there is damage."""
        return each_header(self.file, position, self.size_bytes if end is None else end)

    def _position_before(self, offset: int) -> int:
        """Where the index says to look for `offset`. CorruptBatchError if that is not in the file: it would seem empty there."""
        return self._in_file(self.offset_index.lookup(offset).position)

    def _in_file(self, position: int) -> int:
        if 0 <= position < self.size_bytes or position == 0:
            return position
        raise CorruptBatchError(
            f"{self.path(INDEX_SUFFIX)} points at byte {position} of a log file of {self.size_bytes} bytes"
        )

    # Finding

    def find(self, offset: int) -> FoundBatch | None:
        """The first batch that holds `offset` or something after it."""
        size = self.size_bytes
        if size == 0:
            return None
        for position, header in each_header(self.file, self._position_before(offset), size):
            if header.base_offset + header.last_offset_delta >= offset:
                return FoundBatch(position, header)
        return None

    @property
    def has_aborted_transactions(self) -> bool:
        """Whether there is a marker of one in this segment."""
        self._open_segments.used(self)
        return not self.transaction_index.is_empty

    def aborted_transactions(self, start_offset: int, end_offset: int) -> AbortedSearch:
        """The aborted transactions in a range of offsets whose marker is in this segment."""
        self._open_segments.used(self)
        return self.transaction_index.collect(start_offset, end_offset)

    def index_damage(self) -> str | None:
        """What is plainly wrong with an index, in one sentence. Nothing stays open."""
        try:
            return (
                self.offset_index.sanity_check()
                or self.time_index.sanity_check()
                or self.transaction_index.sanity_check()
            )
        finally:
            self.release()

    def find_timestamp(self, timestamp: int, start_offset: int) -> FoundTimestamp | None:
        """The first record at or after `start_offset` whose timestamp is at or after `timestamp`."""
        before = self.time_index.lookup(timestamp)
        position = self._position_before(max(before.offset, start_offset))
        for at, header in self.headers_from(position):
            if header.max_timestamp < timestamp or header.next_offset <= start_offset:
                continue
            for record in decode_rows(self.file.pread(header.size_bytes, at)):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return _found(record.timestamp, record.offset, header)
        return None

    def find_largest_timestamp(self) -> FoundTimestamp | None:
        """The first record that has the segment's largest timestamp."""
        largest = self.largest_timestamp_offset
        if largest.timestamp < 0:
            return None
        for at, header in self.headers_from(self._position_before(largest.offset)):
            if header.max_timestamp != largest.timestamp:
                continue
            for record in decode_rows(self.file.pread(header.size_bytes, at)):
                if record.timestamp == largest.timestamp:
                    return _found(record.timestamp, record.offset, header)
        return None

    # Changing

    def truncate_to(self, offset: int) -> Offset:
        """Remove every batch that holds `offset` or something after it, durably.

        Returns where the log ends now: at `offset`, or before it, where the batch that held it began.
        """
        found = self.find(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self._note_full_index()
        self._bytes_since_index_entry = 0
        if found is None:
            return Offset(offset)
        self.cut(found.position)
        self._measure_timestamps()
        return Offset(min(offset, found.header.base_offset))

    def cut(self, size_bytes: int) -> None:
        """End the log file at `size_bytes`, durably: what was cut must not come back between batches written later."""
        file = self.file
        file.truncate(size_bytes)
        file.sync()
        self.size_bytes = size_bytes
        self._is_preallocated = False
        self._reserve_at = max(size_bytes, RESERVED_FROM_BYTES)

    def _measure_timestamps(self) -> None:
        """Find first and largest timestamp anew, from the last time index entry on."""
        self._first_timestamp = _UNKNOWN
        if self.size_bytes == 0:
            self._created_ms = self._seams.clock.now_ms()
        largest = self.time_index.last_entry
        for _, header in self.headers_from(self._position_before(largest.offset)):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(TimestampMs(header.max_timestamp), Offset(header.last_offset))
        self._largest_timestamp, self._largest_timestamp_offset = largest

    def begin_rebuild(self) -> None:
        """Forget what the indexes say: `index_batch` builds them again, batch by batch from the first."""
        self._create_indexes()
        self.offset_index.truncate_all()
        self.time_index.truncate_all()
        self.transaction_index.truncate_all()
        self._index_entries_left = _UNKNOWN
        self._bytes_since_index_entry = 0
        self._first_timestamp = _UNKNOWN
        self._largest_timestamp = NO_TIMESTAMP
        self._largest_timestamp_offset = self.base_offset

    def index_batch(self, position: int, header: BatchHeader) -> None:
        """Give a batch that is in the file already the index entries that its append would have made."""
        if position == 0:
            self._first_timestamp = header.max_timestamp
        if header.max_timestamp > self.largest_timestamp_offset.timestamp:
            self._largest_timestamp, self._largest_timestamp_offset = header.max_timestamp, header.last_offset
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._add_index_entries(header.last_offset, position)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += header.size_bytes

    def finish(self) -> None:
        """No more appends: the largest timestamp goes into the time index, and tails that were allocated or reserved go."""
        file_bytes = self.file.size()
        if file_bytes < self.size_bytes:
            raise BugError(f"{self} is finished, and its file has {file_bytes} bytes")
        largest = self.largest_timestamp_offset
        if largest.timestamp >= 0:
            self.time_index.append_last(largest.timestamp, largest.offset)
        self.offset_index.trim_to_valid()
        self.time_index.trim_to_valid()
        if self._is_preallocated or self.size_bytes > RESERVED_FROM_BYTES:
            self.file.truncate(self.size_bytes)
            self._is_preallocated = False

    def open_for_sync(self, *, with_indexes: bool = True) -> list[File]:
        """Handles of the segment's files, for another thread to sync and close. Renaming or removing a file is no harm."""
        files = self._seams.files
        if not with_indexes:
            return [files.open(self.path(LOG_SUFFIX))]
        names = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        return [files.open(path) for path in map(self.path, names) if files.exists(path)]

    # Letting go

    def release(self) -> None:
        """Close what is open without changing a file. The segment opens again by itself."""
        self._open_segments.forget(self)
        self._file = None
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.close()

    def rename(self, suffix: str) -> None:
        """Give all files another suffix after their own: `.deleted`, `.cleaned`, `.swap`, or none."""
        files = self._seams.files
        log_path = self.path(LOG_SUFFIX)
        self._suffix = suffix
        files.rename(log_path, self.path(LOG_SUFFIX))
        self.offset_index.rename_to(self.path(INDEX_SUFFIX))
        self.time_index.rename_to(self.path(TIME_INDEX_SUFFIX))
        self.transaction_index.rename_to(self.path(TRANSACTION_INDEX_SUFFIX))

    def relocate(self, directory: str) -> None:
        """Take note that the directory was renamed."""
        self._directory = directory
        self.offset_index.relocate(self.path(INDEX_SUFFIX))
        self.time_index.relocate(self.path(TIME_INDEX_SUFFIX))
        self.transaction_index.relocate(self.path(TRANSACTION_INDEX_SUFFIX))

    def all_paths(self) -> list[str]:
        """Where all files of the segment are, whether they exist or not."""
        return [self.path(suffix) for suffix in SEGMENT_SUFFIXES]


def _found(timestamp: int, offset: int, header: BatchHeader) -> FoundTimestamp:
    return FoundTimestamp(TimestampMs(timestamp), Offset(offset), LeaderEpoch(header.partition_leader_epoch))
