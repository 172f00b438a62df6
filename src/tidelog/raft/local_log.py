"""The end of the replica's own log, written and durable.

The machine decides every append and truncation itself, so it knows where its log ends without asking. What is durable it is told:
each flush covers what was in the log when it was ordered, less what was cut off since.
"""

from __future__ import annotations

from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft.errors import invariant
from tidelog.raft.log_view import LogView, OffsetAndEpoch


class LocalLog:
    """Where the log ends, and how much of it no crash can take."""

    def __init__(self, view: LogView) -> None:
        self.view = view
        self.end = view.end()
        self._durable_offset = self.end.offset
        self._flush_id_last = 0
        self._flushes: dict[int, Offset] = {}

    @property
    def durable_offset(self) -> Offset:
        return self._durable_offset

    @property
    def is_durable(self) -> bool:
        return self._durable_offset == self.end.offset

    def durable_end(self) -> OffsetAndEpoch:
        """The part of the log that counts in an election: what could be gone after a crash must win no votes."""
        if self.is_durable:
            return self.end
        return OffsetAndEpoch(offset=self._durable_offset, epoch=self.view.epoch_before(self._durable_offset))

    def appended(self, next_offset: Offset, epoch: LeaderEpoch) -> None:
        invariant(next_offset > self.end.offset, f"the log ends at {self.end}, an append cannot end at {next_offset}")
        invariant(epoch >= self.end.epoch, f"the log ends at {self.end}, an append cannot be of epoch {epoch}")
        self.end = OffsetAndEpoch(offset=next_offset, epoch=epoch)

    def truncated(self, end_offset: Offset) -> None:
        """The log was cut. Its last epoch is looked up before the cut is carried out, which gives the same answer."""
        self.end = OffsetAndEpoch(offset=end_offset, epoch=self.view.epoch_before(end_offset))
        self._durable_offset = min(self._durable_offset, end_offset)
        self._flushes = {flush_id: min(covered, end_offset) for flush_id, covered in self._flushes.items()}

    def replaced(self, snapshot_id: OffsetAndEpoch) -> None:
        """The log starts anew where a durable snapshot ends."""
        self.end = snapshot_id
        self._durable_offset = snapshot_id.offset
        self._flushes.clear()

    def flush_ordered(self) -> int:
        self._flush_id_last += 1
        self._flushes[self._flush_id_last] = self.end.offset
        return self._flush_id_last

    def flushed(self, flush_id: int) -> None:
        """A flush is done, and with it those ordered before."""
        for covered_id in [other for other in self._flushes if other <= flush_id]:
            self._durable_offset = max(self._durable_offset, self._flushes.pop(covered_id))
