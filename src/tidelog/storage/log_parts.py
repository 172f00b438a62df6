"""What a log is put together from, and what it needs of the log directory that it lies in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidelog.model.ids import Offset, TopicId, TopicPartition
from tidelog.storage.errors import StorageError
from tidelog.storage.leader_epochs import LeaderEpochs
from tidelog.storage.open_segments import OpenSegments
from tidelog.storage.producer_state import ProducerStateTable
from tidelog.storage.removals import DelayedRemovals
from tidelog.storage.seams import Seams
from tidelog.storage.segment_list import SegmentList


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
