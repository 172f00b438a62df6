"""The disk of a simulated replica: a log, snapshots and the file `quorum-state`, with what a crash may take from them.

What was not flushed may be lost, all or in part; a truncation that was not flushed may turn out not to have happened. A
`quorum-state` that was being replaced is the old one or the new one, never a mixture.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from random import Random

from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft.control_records import ControlRecord
from tidelog.raft.log_view import EMPTY_LOG_END, OffsetAndEpoch
from tidelog.raft.messages import Batch

SNAPSHOT_BYTES = 1000
_FIRST = Offset(0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state at the end of a prefix of the log: its control records, and the whole prefix for comparison."""

    snapshot_id: OffsetAndEpoch
    control: tuple[ControlRecord, ...]
    batches: tuple[Batch, ...]


@dataclass(slots=True)
class Disk:
    """One replica's files. Implements `tidelog.raft.log_view.LogView` over what is written, durable or not."""

    start: Offset = _FIRST
    batches: list[Batch] = field(default_factory=list)
    snapshots: dict[OffsetAndEpoch, Snapshot] = field(default_factory=dict)
    bootstrap: tuple[ControlRecord, ...] = ()
    quorum_state: str | None = None
    quorum_state_pending: str | None = None
    durable: list[Batch] = field(default_factory=list)

    # The log, as the machine sees it

    def end(self) -> OffsetAndEpoch:
        if self.batches:
            return OffsetAndEpoch(offset=self.batches[-1].next_offset, epoch=self.batches[-1].epoch)
        return self.latest_snapshot_id() or EMPTY_LOG_END

    def start_offset(self) -> Offset:
        return self.start

    def end_of_epoch(self, epoch: LeaderEpoch) -> OffsetAndEpoch:
        index = bisect_right(self.batches, epoch, key=lambda batch: batch.epoch)
        if index:
            batch = self.batches[index - 1]
            return OffsetAndEpoch(offset=batch.next_offset, epoch=batch.epoch)
        return self.earliest_snapshot_id() or EMPTY_LOG_END

    def epoch_before(self, offset: Offset) -> LeaderEpoch:
        index = bisect_right(self.batches, offset, key=lambda batch: batch.next_offset)
        if index:
            return self.batches[index - 1].epoch
        for snapshot_id in self.snapshots:
            if snapshot_id.offset == offset:
                return snapshot_id.epoch
        return LeaderEpoch(0)

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return min(self.snapshots, default=EMPTY_LOG_END if self.bootstrap else None)

    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return max(self.snapshots, default=EMPTY_LOG_END if self.bootstrap else None)

    def snapshot_size_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        return SNAPSHOT_BYTES if snapshot_id in self.snapshots else None

    # Changes

    def append(self, batches: tuple[Batch, ...]) -> None:
        assert batches[0].base_offset == self.end().offset
        self.batches.extend(batches)

    def truncate(self, end_offset: Offset) -> None:
        assert end_offset >= self.start
        while self.batches and self.batches[-1].next_offset > end_offset:
            self.batches.pop()
        assert self.end().offset == end_offset

    def read(self, offset: Offset, batches_max: int) -> tuple[Batch, ...]:
        index = bisect_right(self.batches, offset, key=lambda batch: batch.base_offset) - 1
        return tuple(self.batches[max(0, index) : max(0, index) + batches_max]) if self.batches else ()

    def flushed(self, batches: list[Batch]) -> None:
        self.durable = batches

    def install(self, snapshot: Snapshot) -> None:
        """Puts a snapshot in place of the log, durably."""
        self.snapshots = {snapshot.snapshot_id: snapshot}
        self.start = snapshot.snapshot_id.offset
        self.batches = []
        self.durable = []

    def install_empty(self, snapshot_id: OffsetAndEpoch) -> None:
        """Puts a snapshot of which only the id is known in place of the log."""
        self.install(Snapshot(snapshot_id, (), ()))

    def add_snapshot(self, snapshot: Snapshot) -> None:
        self.snapshots[snapshot.snapshot_id] = snapshot

    def clean(self, snapshot_id: OffsetAndEpoch) -> None:
        """Removes what comes before a snapshot, older snapshots included."""
        self.snapshots = {other: kept for other, kept in self.snapshots.items() if other >= snapshot_id}
        self.start = snapshot_id.offset
        self.batches = [batch for batch in self.batches if batch.base_offset >= snapshot_id.offset]
        self.durable = [batch for batch in self.durable if batch.base_offset >= snapshot_id.offset]

    def full_log(self) -> list[Batch]:
        """Everything that is known of the log from its first offset on, snapshots included."""
        before = [snapshot for snapshot in self.snapshots.values() if snapshot.snapshot_id.offset == self.start]
        return [*(before[0].batches if before else ()), *self.batches]

    def crash(self, random: Random) -> None:
        """Loses power."""
        common = 0
        while common < min(len(self.batches), len(self.durable)) and self.batches[common] is self.durable[common]:
            common += 1
        if common < len(self.durable) and random.random() < 0.5:
            self.batches = list(self.durable)
        else:
            if common < len(self.durable):
                # The cut reached the disk.
                self.durable = self.durable[:common]
            self.batches = self.batches[: random.randint(len(self.durable), max(len(self.durable), len(self.batches)))]
        self.durable = list(self.batches)
        if self.quorum_state_pending is not None and random.random() < 0.5:
            self.quorum_state = self.quorum_state_pending
        self.quorum_state_pending = None
