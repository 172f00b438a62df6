"""One cleaning of one log, from the plan to the swapped segments.

    indexing      the last offset of each key, from the dirty part                                     slow work
    filtering     what stays of a group of segments goes into a `.cleaned` one, forced to disk         slow work
    swapping      the new segment takes the place of the old ones                                      the log's own thread
                  ... filtering and swapping, group after group
    forcing       the names are on disk, so that the cleaner's checkpoint may say so                   slow work

Slow work is handed over in pieces of some megabytes, each of which reads and writes through handles of its own and lets the
interpreter's lock go in its loops. Between two pieces the log's thread decides whether to go on, and when: that is the throttle.

The log may be truncated, deleted, moved or closed at any time: it then calls `abandon`, the piece that is under way comes to its
end and finds nothing to do any more, and what was written goes. Appends, reads and rolls are no concern of a cleaning. Retention
waits for it (`PartitionLog.is_being_cleaned`).
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from msgspec import Struct

from tidelog.model.ids import Offset
from tidelog.model.timers import Timer, Timers
from tidelog.storage.cleaning.cleanable import DirtyRange, grouped
from tidelog.storage.cleaning.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaning.cleaner_stats import CleanerStats
from tidelog.storage.cleaning.filtering import Filtering, Retention
from tidelog.storage.cleaning.indexing import Indexing
from tidelog.storage.cleaning.offset_map import OffsetMap
from tidelog.storage.cleaning.source_segment import Sources, SourceSegment
from tidelog.storage.cleaning.windows import Window
from tidelog.storage.durability import SyncWork
from tidelog.storage.errors import DamagedFileError, StorageError
from tidelog.storage.log_config import LogConfig
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.seams import Seams
from tidelog.storage.segment import CLEANED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment
from tidelog.wire.batch_errors import CorruptBatchError

logger = logging.getLogger(__name__)

# How much is written between two syncs: one of more would keep others waiting for the disk.
SYNC_BYTES = 32 * 1024 * 1024


class CleaningEnd(Enum):
    """How a cleaning has ended."""

    DONE = auto()
    ABANDONED = auto()
    """The log has changed under it, or the disk was full. It may be tried again."""
    FAILED = auto()
    """Something is wrong with the log, which the next try would find as well."""
    OFFLINE = auto()
    """The disk failed: the log directory has been told."""


class CleaningResult(NamedTuple):
    end: CleaningEnd
    cleaned_until: Offset
    """Up to where the log is clean now, if it is done."""
    stats: CleanerStats
    reason: str = ""


class CleaningLimits(Struct, frozen=True):
    """What one cleaning may use."""

    map_bytes: int
    map_load_factor: float
    window_bytes: int


class Throttle(Protocol):
    """Says how much to do at a time, and how long to wait after so many bytes were read and written."""

    @property
    def piece_bytes(self) -> int: ...

    def delay_ms(self, count: int) -> int: ...


class _Next(Enum):
    """What comes after a piece of work."""

    PIECE = auto()
    END = auto()


class _Swap(NamedTuple):
    """What the log's thread has to do before the work goes on."""

    cleaned: Segment
    old: Sequence[SourceSegment]


class Cleaning:
    """Cleans a log. `then` is called on the log's thread, once, when it has ended."""

    def __init__(
        self,
        log: PartitionLog,
        dirty: DirtyRange,
        limits: CleaningLimits,
        seams: Seams,
        timers: Timers,
        throttle: Throttle,
        then: Callable[[CleaningResult], None],
    ) -> None:
        self.log = log
        self.dirty = dirty
        self.stats = CleanerStats()
        self._limits = limits
        self._seams = seams
        self._timers = timers
        self._throttle = throttle
        self._then = then
        self._begun_ms = seams.clock.monotonic_ms()
        self._now_ms = seams.clock.now_ms()
        self._is_abandoned = False
        self._has_ended = False
        self._cleaned_until = dirty.first_dirty_offset
        self._segments: dict[int, Segment] = {}
        # The one that is being written.
        self._cleaned: Segment | None = None
        self._steps: Iterator[int | _Swap] = iter(())
        self._piece_bytes = 0
        self._done_bytes = 0
        self._is_submitting = False
        self._has_more = False
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin. The log's segments are looked at now; what they hold is read by slow work."""
        log = self.log
        log.begin_cleaning(self.abandon)
        try:
            self._steps = self._work(self._sources(), log.directory, log.config, self._seams.random.randbytes(16))
        except StorageError as error:
            self._failed(error)
            return
        self._submit()

    def abandon(self) -> None:
        """Stop as soon as possible. What was swapped so far stays, the rest is as if nothing had happened."""
        self._is_abandoned = True
        if self._timer is not None:
            self._timer.cancel()
            self._after_delay()

    @property
    def is_abandoned(self) -> bool:
        return self._is_abandoned

    # --- the log's thread ---------------------------------------------------------------------------------------------------

    def _sources(self) -> Sources:
        """What the work has to know, since it cannot ask the log."""
        log, files = self.log, self._seams.files
        first, end = self.dirty.first_dirty_offset, self.dirty.first_uncleanable_offset
        segments = [each for each in log.segments if each.base_offset < end]
        self._segments = {each.base_offset: each for each in segments}
        following = [*list(self._segments)[1:], int(end)]
        sources = [
            SourceSegment(
                segment.path(LOG_SUFFIX),
                segment.base_offset,
                segment.size_bytes,
                files.size_of(segment.path(INDEX_SUFFIX)),
                files.size_of(segment.path(TIME_INDEX_SUFFIX)),
                next_base_offset,
                segment.offset_index.lookup(first).position if segment.base_offset < first < next_base_offset else 0,
            )
            for segment, next_base_offset in zip(segments, following, strict=False)
        ]
        aborted = log.aborted_transactions(log.segments.first.base_offset, end)
        return Sources(sources, aborted, *log.producers.last_records_before(end))

    def _submit(self) -> None:
        # In a loop: slow work that is done at once ends up here again.
        self._has_more = True
        if self._is_submitting:
            return
        self._is_submitting = True
        try:
            while self._has_more:
                self._has_more = False
                self._piece_bytes = self._throttle.piece_bytes
                self._seams.slow_work.submit(self._piece, self._piece_done)
        finally:
            self._is_submitting = False

    def _piece_done(self, outcome: _Next | _Swap | BaseException) -> None:
        if self.log.fault is not None:
            self._end(CleaningEnd.OFFLINE, str(self.log.fault))
            return
        if self._is_abandoned:
            self._give_up("the log has changed, or the node stops")
            return
        if isinstance(outcome, _Swap):
            self._swap(outcome)
        elif isinstance(outcome, BaseException):
            self._failed(outcome)
        elif outcome is _Next.PIECE:
            self._go_on()
        else:
            self._throttle.delay_ms(self._done_bytes)
            self._end(CleaningEnd.DONE)

    def _go_on(self) -> None:
        delay_ms = self._throttle.delay_ms(self._done_bytes)
        if delay_ms > 0:
            self._timer = self._timers.after(delay_ms, self._after_delay)
        else:
            self._submit()

    def _after_delay(self) -> None:
        self._timer = None
        if self.log.fault is not None or self._is_abandoned:
            self._piece_done(_Next.PIECE)
        else:
            self._submit()

    def _swap(self, swap: _Swap) -> None:
        try:
            old = [self._segments[each.base_offset] for each in swap.old]
            is_swapped = self.log.replace_segments(swap.cleaned, old)
        except StorageError as error:
            self._end(CleaningEnd.OFFLINE, str(error))
            return
        if not is_swapped:
            self._give_up("segments of the log are gone")
            return
        self._cleaned = None
        self._go_on()

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, DamagedFileError) or not isinstance(error, StorageError):
            if not isinstance(error, Exception):
                raise error
            logger.warning("%s cannot be cleaned: %s", self.log.topic_partition, error, exc_info=_is_bug(error))
            self._discard(CleaningEnd.FAILED, str(error))
        elif error.is_disk_full:
            # The one fault that passes by itself; and what was written so far goes, which helps.
            self._give_up(str(error))
        else:
            self.log.report_fault(error)
            self._end(CleaningEnd.OFFLINE, str(error))

    def _give_up(self, reason: str) -> None:
        self._discard(CleaningEnd.ABANDONED, reason)

    def _discard(self, end: CleaningEnd, reason: str) -> None:
        """Remove what was being written, and end. Whatever is left is removed by the next start."""
        cleaned, self._cleaned = self._cleaned, None
        if cleaned is None:
            self._end(end, reason)
        else:
            self._seams.slow_work.submit(lambda: _remove(self._seams, cleaned), lambda _outcome: self._end(end, reason))

    def _end(self, end: CleaningEnd, reason: str = "") -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._steps = iter(())
        self._segments = {}
        self.log.end_cleaning()
        self.stats.elapsed_ms = self._seams.clock.monotonic_ms() - self._begun_ms
        self._then(CleaningResult(end, self._cleaned_until, self.stats, reason))

    # --- slow work ----------------------------------------------------------------------------------------------------------

    def _piece(self) -> _Next | _Swap:
        """Go on for a piece, or until something has to be swapped. `_done_bytes` are read and written then."""
        self._done_bytes = 0
        for step in self._steps:
            if isinstance(step, _Swap):
                return step
            self._done_bytes += step
            if self._done_bytes >= self._piece_bytes or self._is_abandoned:
                return _Next.PIECE
        return _Next.END

    def _work(self, sources: Sources, directory: str, config: LogConfig, salt: bytes) -> Iterator[int | _Swap]:
        """All of it, one step after the other. Nothing of the log is touched but its files."""
        seams, dirty, limits = self._seams, self.dirty, self._limits
        files = seams.files
        first, end = dirty.first_dirty_offset, dirty.first_uncleanable_offset
        offset_map = OffsetMap(limits.map_bytes, limits.map_load_factor, first, end - first, salt)
        window = Window(limits.window_bytes)
        transactions = CleanedTransactions(each for each in sources.aborted if each.last_offset >= first)
        indexing = Indexing(files, offset_map, transactions, window, first, self.stats)
        yield from indexing.run([each for each in sources.segments if each.next_base_offset > first])
        self._cleaned_until = Offset(offset_map.latest_offset + 1)
        self.stats.map_utilization = offset_map.utilization

        retention = Retention(
            self._now_ms,
            config.delete_retention_ms,
            end,
            array("q", sorted(sources.last_data_offsets)),
            sources.last_marker_epochs,
        )
        transactions = CleanedTransactions(sources.aborted)
        covered = [each for each in sources.segments if each.base_offset < self._cleaned_until]
        for group in grouped(covered, segment_bytes=config.segment_bytes, index_bytes=config.segment_index_bytes):
            target = Segment.create(
                seams, OpenSegments(), directory, group[0].base_offset, config, suffix=CLEANED_SUFFIX
            )
            self._cleaned = target
            transactions.cleaned_index = target.transaction_index
            filtering = Filtering(files, offset_map, transactions, retention, window, target, self.stats)
            for segment in group:
                yield from _synced_now_and_then(target, filtering.run(segment))
            target.finish()
            SyncWork(files, target.open_for_sync(), directory)()
            target.release()
            # The age of a segment without timestamps is that of its file.
            files.set_modified_ms(target.path(LOG_SUFFIX), files.modified_ms(group[-1].path))
            yield _Swap(target, group)
        files.sync_directory(directory)


def _synced_now_and_then(target: Segment, steps: Iterator[int]) -> Iterator[int]:
    """Force what is written to disk bit by bit: all at once would keep others from the disk for seconds."""
    unsynced = 0
    for step in steps:
        unsynced += step
        if unsynced >= SYNC_BYTES:
            target.file.sync()
            unsynced = 0
        yield step


def _remove(seams: Seams, segment: Segment) -> None:
    segment.release()
    for path in segment.all_paths():
        seams.files.remove(path)


def _is_bug(error: BaseException) -> bool:
    return not isinstance(error, (StorageError, CorruptBatchError, MemoryError))
