"""The log cleaner of a node: which log is compacted next, how many at a time, and what becomes of it.

    every log.cleaner.backoff.ms, and as soon as a cleaning is done: of all logs with the policy `compact` that are due, the one
    with the largest share of dirty bytes is cleaned; up to `log.cleaner.threads` at a time

A log in which something cannot be read is left alone from then on, until the node starts again: `uncleanable`. One whose
cleaning was abandoned (truncated, moved, a full disk) is looked at again with the others.

As in Kafka the retention of compacted logs is looked after here too, more often than that of others. The work itself is in
`tidelog.storage.cleaning`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidelog.broker.maintenance.cleaner_throttle import CleanerThrottle
from tidelog.model import cleaner_config as keys
from tidelog.model.bugs import Housekeeping
from tidelog.model.config import ConfigValues
from tidelog.model.ids import Offset, TopicPartition
from tidelog.model.timers import Timer, Timers
from tidelog.storage.cleaning.cleanable import DirtyRange, dirty_range
from tidelog.storage.cleaning.cleaner_stats import CleanerStats
from tidelog.storage.cleaning.cleaning import Cleaning, CleaningEnd, CleaningLimits, CleaningResult
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.seams import Seams

logger = logging.getLogger(__name__)

# What Kafka would do without a pause takes a pause here, if a short one: there are others on this thread.
BACKOFF_MS_MIN = 10
_BACKOFF_MS_MAX = 24 * 60 * 60 * 1000

# Kafka refuses less than a megabyte a thread; here a map grows with what it has to hold, and this is the least it may.
MAP_BYTES_MIN = 1024 * 1024
WINDOW_BYTES_MIN = 64 * 1024
LOAD_FACTOR_MIN, LOAD_FACTOR_MAX = 0.01, 0.99

_Place = tuple[LogDirectory, TopicPartition]


class _Candidate(NamedTuple):
    directory: LogDirectory
    log: PartitionLog
    dirty: DirtyRange


class LogCleaner:
    """Runs until `stop`. `config_now` is the node's configuration as it is at the moment."""

    def __init__(
        self,
        directories: LogDirectories,
        seams: Seams,
        timers: Timers,
        config_now: Callable[[], ConfigValues],
        housekeeping: Housekeeping | None = None,
    ) -> None:
        self._housekeeping = housekeeping or Housekeeping()
        self._directories = directories
        self._seams = seams
        self._timers = timers
        self._config_now = config_now
        self._throttle = CleanerThrottle(seams.clock, lambda: config_now()[keys.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND])
        self._under_way: dict[_Place, Cleaning] = {}
        self._uncleanable: set[_Place] = set()
        self._timer: Timer | None = None
        self._is_stopped = False
        self._last_look_ms = seams.clock.now_ms()
        self.max_dirty_ratio = 0.0
        """Of the dirtiest log, when somebody last looked."""
        self.max_delay_ms = 0
        """By how much `max.compaction.lag.ms` was exceeded in the worst case, when somebody last looked."""
        self.last_stats = CleanerStats()
        """Of the cleaning that was done last."""
        self.last_clean_ms = 0
        self.cleanings = dict.fromkeys(CleaningEnd, 0)
        self.bytes_read = 0
        self.bytes_written = 0

    def start(self) -> None:
        """Look for work, now and then. Does nothing where the cleaner is switched off."""
        if self._config_now()[keys.LOG_CLEANER_ENABLE]:
            self._look_after(self._backoff_ms())

    def look_soon(self) -> None:
        """What logs are cleaned by has changed: do not wait for the next time."""
        if self._timer is not None:
            self._look_after(BACKOFF_MS_MIN)

    def stop(self) -> None:
        """End what is under way. What is swapped is kept, the rest is as it was."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for cleaning in list(self._under_way.values()):
            cleaning.abandon()

    # --- being watched ------------------------------------------------------------------------------------------------------

    @property
    def ms_since_last_look(self) -> int:
        return self._seams.clock.now_ms() - self._last_look_ms

    def uncleanable_of(self, directory: LogDirectory) -> list[PartitionLog]:
        """The logs of a directory that cannot be cleaned."""
        found = (directory.partitions.get(name) for place, name in self._uncleanable if place is directory)
        return [log for log in found if log is not None]

    def uncleanable_bytes_of(self, directory: LogDirectory) -> int:
        """What would have been cleaned in them."""
        if directory.is_offline:
            return 0
        return sum(self._dirty(directory, log).cleanable_bytes for log in self.uncleanable_of(directory))

    # --- choosing -----------------------------------------------------------------------------------------------------------

    def _backoff_ms(self) -> int:
        return min(max(self._config_now()[keys.LOG_CLEANER_BACKOFF_MS], BACKOFF_MS_MIN), _BACKOFF_MS_MAX)

    def _look_after(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._is_stopped else self._timers.after(delay_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._is_stopped:
            return
        self._last_look_ms = self._seams.clock.now_ms()
        try:
            self._begin_cleanings()
        except Exception as error:  # noqa: BLE001 - counted and logged
            self._housekeeping.failed("cleaning", error)
        if self._timer is None:
            self._look_after(self._backoff_ms())

    def _begin_cleanings(self) -> None:
        # A directory that has failed is not cleaned any more, and a log of the same name is another one.
        self._uncleanable = {(place, name) for place, name in self._uncleanable if name in place.partitions}
        self._apply_retention()
        for _ in range(self._config_now()[keys.LOG_CLEANER_THREADS] - len(self._under_way)):
            candidate = self._filthiest()
            if candidate is None:
                break
            self._clean(candidate)

    def _apply_retention(self) -> None:
        for directory in self._directories.online:
            try:
                directory.apply_retention(lambda log: log.config.compacts)
            except StorageError:
                # Reported by the directory itself, which is offline now; the others go on.
                continue

    def _filthiest(self) -> _Candidate | None:
        """The log that is due and has the largest share of dirty bytes."""
        self.max_dirty_ratio, self.max_delay_ms = 0.0, 0
        found: _Candidate | None = None
        for directory, log in self._compacted():
            try:
                dirty = self._dirty(directory, log)
            except StorageError:
                continue
            if not dirty.clean_bytes + dirty.cleanable_bytes:
                continue
            self.max_dirty_ratio = max(self.max_dirty_ratio, dirty.ratio)
            self.max_delay_ms = max(self.max_delay_ms, dirty.delay_ms)
            is_due = dirty.cleanable_bytes and dirty.is_due(log.config.min_cleanable_dirty_ratio)
            if is_due and (found is None or dirty.ratio > found.dirty.ratio):
                found = _Candidate(directory, log, dirty)
        return found

    def _compacted(self) -> Iterator[tuple[LogDirectory, PartitionLog]]:
        """The logs that could be cleaned. One that has never rolled has nothing but its active segment."""
        for directory in self._directories.online:
            for name, log in directory.partitions.items():
                if not log.config.compacts or len(log.segments) < 2 or log.fault is not None:
                    continue
                if (directory, name) not in self._uncleanable and (directory, name) not in self._under_way:
                    yield directory, log

    def _dirty(self, directory: LogDirectory, log: PartitionLog) -> DirtyRange:
        return dirty_range(log, directory.cleaner_offsets.get(log.topic_partition), self._seams.clock.now_ms())

    # --- cleaning -----------------------------------------------------------------------------------------------------------

    def _limits(self) -> CleaningLimits:
        config = self._config_now()
        threads = max(1, config[keys.LOG_CLEANER_THREADS])
        load_factor = config[keys.LOG_CLEANER_DEDUPE_BUFFER_LOAD_FACTOR]
        return CleaningLimits(
            max(config[keys.LOG_CLEANER_DEDUPE_BUFFER_SIZE] // threads, MAP_BYTES_MIN),
            min(max(load_factor, LOAD_FACTOR_MIN), LOAD_FACTOR_MAX),
            max(config[keys.LOG_CLEANER_IO_BUFFER_SIZE] // threads // 2, WINDOW_BYTES_MIN),
        )

    def _clean(self, candidate: _Candidate) -> None:
        directory, log, dirty = candidate
        name = log.topic_partition
        try:
            if dirty.is_checkpoint_invalid or name not in directory.cleaner_offsets:
                # From the first cleaning on, a start must know that gaps between the segments of this log are no damage.
                directory.note_cleaned(name, dirty.first_dirty_offset)
        except StorageError:
            return
        cleaning = Cleaning(
            log,
            dirty,
            self._limits(),
            self._seams,
            self._timers,
            self._throttle,
            lambda result: self._cleaned(directory, log, result),
        )
        self._under_way[directory, name] = cleaning
        cleaning.start()

    def _cleaned(self, directory: LogDirectory, log: PartitionLog, result: CleaningResult) -> None:
        name = log.topic_partition
        del self._under_way[directory, name]
        self.cleanings[result.end] += 1
        stats = result.stats
        self.bytes_read += stats.map_bytes_read + stats.bytes_read
        self.bytes_written += stats.bytes_written
        if result.end is CleaningEnd.DONE:
            self._note_done(directory, log, result.cleaned_until, stats)
        elif result.end is CleaningEnd.FAILED:
            self._uncleanable.add((directory, name))
            logger.warning("%s is not cleaned any more until the node starts again: %s", name, result.reason)
        else:
            logger.info("the cleaning of %s was given up: %s", name, result.reason)
        if not self._is_stopped:
            # There may be more to do; a log that was given up is not taken up at once again.
            self._look_after(0 if result.end is CleaningEnd.DONE else self._backoff_ms())

    def _note_done(self, directory: LogDirectory, log: PartitionLog, until: Offset, stats: CleanerStats) -> None:
        name = log.topic_partition
        if directory.partitions.get(name) is log and not directory.is_offline:
            try:
                directory.note_cleaned(name, until)
            except StorageError:
                return
        self.last_stats = stats
        self.last_clean_ms = self._seams.clock.now_ms()
        logger.info(
            "%s is clean up to offset %d: %d of %d records and %d of %d bytes stay (%d ms)",
            name,
            until,
            stats.records_written,
            stats.records_read,
            stats.bytes_written,
            stats.bytes_read,
            stats.elapsed_ms,
        )
        if stats.keyless_records:
            logger.warning(
                "%s held %d records without a key, which compaction has removed", name, stats.keyless_records
            )
