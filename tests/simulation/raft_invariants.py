"""What must hold of a quorum at every moment, checked after every step of every replica.

election safety          no epoch has two leaders
one vote an epoch        a voter's granted votes of one epoch all go to one candidate, restarts included
no step back             a replica never speaks in an epoch lower than one it spoke in before, restarts included
log matching             a batch is named by its offset and epoch, and so is all that comes before it
committed is durable     a leader commits what a majority of its voters have on disk
committed stays          what any replica took for committed is the same for all, for ever
leader completeness      a leader's log holds everything that was committed in earlier epochs
high watermark           never goes back, and never passes the end of the log
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.raft_disk import Disk
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.messages import Batch
from tidelog.raft.voter_set import ReplicaKey


class BrokenInvariantError(AssertionError):
    """The name of the invariant comes first."""


def expect(holds: bool, name: str, detail: str) -> None:
    if not holds:
        raise BrokenInvariantError(f"{name}: {detail}")


@dataclass(slots=True)
class Invariants:
    """The memory of everything that a replica ever showed to others."""

    leaders: dict[LeaderEpoch, NodeId] = field(default_factory=dict)
    votes: dict[tuple[NodeId, LeaderEpoch], ReplicaKey] = field(default_factory=dict)
    spoken: dict[NodeId, LeaderEpoch] = field(default_factory=dict)
    written: dict[tuple[Offset, LeaderEpoch], tuple[Batch, tuple[Offset, LeaderEpoch] | None]] = field(
        default_factory=dict
    )
    committed: list[Batch] = field(default_factory=list)
    commit_epochs: list[LeaderEpoch] = field(default_factory=list)
    committed_index: dict[Offset, int] = field(default_factory=dict)
    watermarks: dict[NodeId, Offset] = field(default_factory=dict)

    @property
    def committed_end(self) -> Offset:
        return self.committed[-1].next_offset if self.committed else Offset(0)

    def led(self, node: NodeId, epoch: LeaderEpoch) -> None:
        other = self.leaders.setdefault(epoch, node)
        expect(other == node, "election safety", f"both {other} and {node} lead epoch {epoch}")

    def took_office(self, node: NodeId, epoch: LeaderEpoch, disk: Disk) -> None:
        log = {(batch.base_offset, batch.epoch) for batch in disk.full_log()}
        for batch, commit_epoch in zip(self.committed, self.commit_epochs, strict=True):
            expect(
                # A leader whose disk was slow may take office when a later one has committed already.
                commit_epoch >= epoch or (batch.base_offset, batch.epoch) in log,
                "leader completeness",
                f"new leader {node} lacks the committed {batch}",
            )

    def voted(self, node: NodeId, epoch: LeaderEpoch, candidate: ReplicaKey) -> None:
        other = self.votes.setdefault((node, epoch), candidate)
        expect(other == candidate, "one vote an epoch", f"{node} voted for {other} and {candidate} in epoch {epoch}")

    def spoke(self, node: NodeId, epoch: LeaderEpoch) -> None:
        before = self.spoken.get(node, LeaderEpoch(0))
        expect(epoch >= before, "no step back", f"{node} speaks in epoch {epoch}, and spoke in {before} before")
        self.spoken[node] = epoch

    def wrote(self, node: NodeId, batches: Iterable[Batch], disk: Disk) -> None:
        """Batches that were just appended to a disk."""
        for batch in batches:
            before_offset = batch.base_offset
            before = (before_offset, disk.epoch_before(before_offset)) if before_offset else None
            known, known_before = self.written.setdefault((batch.base_offset, batch.epoch), (batch, before))
            expect(
                (known.payload, known.next_offset, known.control) == (batch.payload, batch.next_offset, batch.control)
                and known_before == before,
                "log matching",
                f"{node} wrote {batch} after {before}, but {known} after {known_before} was there before",
            )

    def advanced(self, node: NodeId, high_watermark: Offset, disk: Disk, epoch: LeaderEpoch) -> None:
        """A replica takes everything below for committed."""
        before = self.watermarks.get(node, Offset(0))
        expect(high_watermark > before, "high watermark", f"{node} goes from {before} to {high_watermark}")
        expect(
            high_watermark <= disk.end().offset,
            "high watermark",
            f"{node} goes to {high_watermark} with a log up to {disk.end().offset}",
        )
        self.watermarks[node] = high_watermark
        for batch in disk.batches:
            if before <= batch.base_offset < high_watermark:
                self._commit(node, batch, epoch)

    def _commit(self, node: NodeId, batch: Batch, epoch: LeaderEpoch) -> None:
        index = self.committed_index.get(batch.base_offset)
        if index is None:
            expect(
                batch.base_offset == self.committed_end,
                "committed stays",
                f"{node} commits {batch}, but the committed log ends at {self.committed_end}",
            )
            self.committed_index[batch.base_offset] = len(self.committed)
            self.committed.append(batch)
            self.commit_epochs.append(epoch)
            return
        known = self.committed[index]
        expect(
            (known.epoch, known.payload, known.next_offset) == (batch.epoch, batch.payload, batch.next_offset),
            "committed stays",
            f"{node} commits {batch}, but {known} was committed before",
        )

    def leader_committed(self, node: NodeId, high_watermark: Offset, voters: Iterable[tuple[NodeId, Disk]]) -> None:
        """A leader moved its high watermark: count the disks."""
        last = next((batch for batch in reversed(self.committed) if batch.next_offset <= high_watermark), None)
        if last is None:
            return
        holding, count = [], 0
        for voter, disk in voters:
            count += 1
            on_disk = any(
                batch.base_offset == last.base_offset and batch.epoch == last.epoch for batch in reversed(disk.durable)
            )
            if on_disk or disk.start >= last.next_offset:
                holding.append(voter)
        expect(
            len(holding) > count // 2,
            "committed is durable",
            f"{node} committed {last}, which of {count} voters only {holding} have on disk",
        )

    def crashed(self, node: NodeId) -> None:
        """A replica forgets its high watermark; everything else it must stand by."""
        self.watermarks.pop(node, None)
