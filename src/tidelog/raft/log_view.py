"""What the machine asks of its log, and the questions of KIP-595 and KIP-630 that follow from the answers.

The log belongs to the caller. The machine changes it only by effects, and asks only questions whose answers its own effects
determine: by the contract of `Machine.step` all effects of a step are applied, in order, before the next step.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from tidelog.model.ids import LeaderEpoch, Offset


class OffsetAndEpoch(Struct, frozen=True, order=True, kw_only=True):
    """The end of a log or of an epoch in it, or the id of a snapshot. Ordered as an election compares logs: epoch first."""

    epoch: LeaderEpoch
    offset: Offset

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


EMPTY_LOG_END = OffsetAndEpoch(offset=Offset(0), epoch=LeaderEpoch(0))
# What `format` writes beside an empty log: the first voters. Its content goes into the log with the first epoch, so that
# it is never replicated as a snapshot.
BOOTSTRAP_SNAPSHOT_ID = EMPTY_LOG_END


class LogView(Protocol):
    """A log with snapshots, for reading. Epoch 0 is that of a log in which nothing was written yet."""

    def end(self) -> OffsetAndEpoch:
        """Where the next record goes, and the epoch of the last record (of the snapshot, where no record follows it)."""
        ...

    def start_offset(self) -> Offset:
        """The first offset that is still there. Above 0 only with a snapshot that ends at or after it."""
        ...

    def end_of_epoch(self, epoch: LeaderEpoch) -> OffsetAndEpoch:
        """The largest epoch in the log at or below `epoch`, and where it ends (KIP-101).

        The earliest snapshot's id where every epoch in the log is above; the end of the log where `epoch` is above all.
        """
        ...

    def epoch_before(self, offset: Offset) -> LeaderEpoch:
        """The epoch of the last record below `offset`, for any offset from start to end."""
        ...

    def earliest_snapshot_id(self) -> OffsetAndEpoch | None: ...

    def latest_snapshot_id(self) -> OffsetAndEpoch | None: ...

    def snapshot_size_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """How large a whole snapshot is, or None where there is none of that id."""
        ...


class Matching(Struct, frozen=True):
    """The reader's log is a prefix of this one."""


class Diverging(Struct, frozen=True):
    """The reader's log left this one: it must cut itself back with the help of this epoch and its end."""

    end: OffsetAndEpoch


class Snapshotted(Struct, frozen=True):
    """What the reader lacks was removed from this log: it must load this snapshot first."""

    snapshot_id: OffsetAndEpoch


Comparison = Matching | Diverging | Snapshotted


def compare_reader(log: LogView, fetch_offset: Offset, last_fetched_epoch: LeaderEpoch) -> Comparison:
    """How a replica whose log ends at `fetch_offset` with `last_fetched_epoch` stands to this log."""
    latest = log.latest_snapshot_id()
    if fetch_offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT_ID:
        # A snapshot is always the shorter way into an empty log.
        return Snapshotted(latest)
    start = log.start_offset()
    if start == 0 and fetch_offset == 0:
        return Matching()
    earliest = log.earliest_snapshot_id()
    if (
        earliest is not None
        and latest is not None
        and (
            fetch_offset < start
            or (fetch_offset == start and last_fetched_epoch != earliest.epoch)
            or last_fetched_epoch < earliest.epoch
        )
    ):
        return Snapshotted(latest)
    end = log.end_of_epoch(last_fetched_epoch)
    if end.epoch != last_fetched_epoch or end.offset < fetch_offset:
        return Diverging(end)
    return Matching()


def truncation_offset(log: LogView, diverging: OffsetAndEpoch) -> Offset:
    """Where a follower cuts its log when the leader names a diverging epoch: the common part is certainly below."""
    if diverging.epoch == 0:
        return min(diverging.offset, log.end().offset)
    mine = log.end_of_epoch(diverging.epoch)
    if mine.epoch == diverging.epoch:
        return min(mine.offset, diverging.offset)
    return mine.offset
