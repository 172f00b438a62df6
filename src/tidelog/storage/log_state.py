"""What a log consists of, what is known of it at any moment, and what becomes of it when the disk fails.

The lowest of the classes that make up a `PartitionLog`: those above it add what can be done to a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

from tidelog.kernel_choice import load
from tidelog.model.bugs import BugError
from tidelog.model.ids import Offset, TopicId, TopicPartition
from tidelog.storage.durability import Durability
from tidelog.storage.errors import StorageError
from tidelog.storage.leader_epochs import LeaderEpochs
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_reader import LogReader
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.producer_state import ProducerStateTable
from tidelog.storage.removals import DelayedRemovals
from tidelog.storage.seams import Seams
from tidelog.storage.segment_list import SegmentList

if TYPE_CHECKING:
    from tidelog.storage.kernels.log_kernel import LogCore
else:
    LogCore = load("tidelog.storage.kernels", "log_kernel").LogCore


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


class LogState(LogCore):
    """The parts of one log, its offsets, and its fault if it has one. What every append and read look at is the kernel's."""

    def __init__(
        self, host: LogHost, directory: str, topic_partition: TopicPartition, config: LogConfig, parts: LogParts
    ) -> None:
        super().__init__(
            config,
            parts.segments,
            LogReader(parts.segments),
            parts.producers,
            Durability(host.seams, parts.segments, directory, parts.recovery_point, self._note_fault),
            parts.log_start_offset,
            parts.log_end_offset,
            parts.is_durable,
        )
        self.topic_partition = topic_partition
        self.directory = directory
        self.topic_id = parts.topic_id
        self.leader_epochs = parts.leader_epochs
        self.is_settled = parts.is_settled
        self._host = host
        self._seams = host.seams
        self._saved_log_start_offset = parts.log_start_offset
        # How to have the cleaning that is under way end.
        self._abandon_cleaning: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.directory}, [{self.log_start_offset}, {self.log_end_offset}))"

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
        if self.producers.unreplicated:
            self.producers.on_high_watermark_updated(self.high_watermark)
        return self.high_watermark

    @property
    def segments(self) -> SegmentList:
        """To be looked at, and changed by nobody else."""
        return self._segments

    @property
    def is_empty(self) -> bool:
        """Whether there has never been a record in it, as far as one can tell."""
        return self.log_end_offset == 0 and self._segments.size_bytes == 0

    def reconfigure(self, config: LogConfig) -> None:
        """Go by another configuration from now on. Segments keep the index size and jitter that they were made with."""
        self.config = config

    # --- being compacted ---------------------------------------------------------------------------------------------------

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

    def _fail(self, error: Exception) -> NoReturn:
        """A write has failed, nobody knows how far it got: for a fault of the disk the directory goes offline."""
        if not isinstance(error, StorageError):
            raise BugError(f"a write to {self.directory} broke off") from error
        self._note_fault(error)
        raise error

    def _note_fault(self, error: StorageError) -> None:
        if self.fault is None:
            self.fault = error
            self._host.report_fault(error)

    def _raise_offline(self) -> NoReturn:
        raise StorageError(self.directory, "use", None, f"its log directory is offline, because of this: {self.fault}")
