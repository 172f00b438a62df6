"""A log is cut: at an offset where another leader went on differently, or altogether.

Durable on return, and no offset is left without a batch before the log's end.
"""

from __future__ import annotations

from tidelog.model.ids import NO_LEADER_EPOCH, Offset
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.producer_replay import replay_producers
from tidelog.storage.rolling_log import RollingLog
from tidelog.wire.batch_errors import CorruptBatchError


class TruncatableLog(RollingLog):
    """A log that can be made to end earlier."""

    def truncate_to(self, offset: int) -> bool:
        """Make the log end at `offset`, or where the batch that holds it begins. Durable on return. Whether anything went."""
        if offset < 0:
            raise ValueError(f"a log cannot be truncated to offset {offset}")
        with self._disk():
            if offset >= self.log_end_offset:
                # An epoch that was announced but never appended to may be the other leader's by now.
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                self.leader_epochs.flush()
                self._assigned_epoch = NO_LEADER_EPOCH
                return False
            if offset < self._segments.first.base_offset:
                self._start_anew(offset, offset)
                return True
            self._disturb_cleaning()
            self._is_durable = False
            for segment in [each for each in reversed(self._segments) if each.base_offset > offset]:
                self._discard(segment)
                # One by one, from the end: a crash must not bring back a later one without those before it.
                self._seams.files.sync_directory(self.directory)
            try:
                self._end_at(self._segments.active.truncate_to(offset))
                self._rebuild_producers()
            except CorruptBatchError as error:
                raise DamagedFileError(self._segments.active.path(".log"), str(error)) from error
            self._finish_truncation()
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the next append gets `offset`. Durable on return."""
        with self._disk():
            self._start_anew(offset, offset if log_start_offset is None else log_start_offset)

    def _start_anew(self, offset: int, log_start_offset: int) -> None:
        self._disturb_cleaning()
        self._is_durable = False
        for segment in list(reversed(self._segments)):
            self._discard(segment)
            self._seams.files.sync_directory(self.directory)
        self._create_segment(offset)
        self.log_start_offset = Offset(log_start_offset)
        self._end_at(Offset(offset))
        self.leader_epochs.clear()
        self.producers.truncate_fully_and_start_at(offset)
        self.high_watermark = Offset(offset)
        self._finish_truncation()

    def _end_at(self, end: Offset) -> None:
        self.log_end_offset = end
        self.log_start_offset = min(self.log_start_offset, end)
        self._durability.truncated_to(end)
        self._reader.forget_positions()
        self.leader_epochs.truncate_from_end(end)
        self.leader_epochs.flush()
        self._assigned_epoch = NO_LEADER_EPOCH

    def _finish_truncation(self) -> None:
        self.set_high_watermark(self.high_watermark)
        self._seams.files.sync_directory(self.directory)
        # Before anything is appended: what the checkpoint calls durable must be so.
        self._host.save_recovery_points()
        self._host.save_log_start_offsets()
        self._host.note_truncated(self.topic_partition, self.log_end_offset)

    def _rebuild_producers(self) -> None:
        """Bring the producers' state back to the end of a log that has become shorter."""
        end = self.log_end_offset
        had_none = self.producers.is_empty and self.producers.map_end_offset >= end
        self.producers.truncate_and_reload(self.log_start_offset, end, self._seams.clock.now_ms())
        if not had_none:
            replay_producers(self.producers, self._segments, self.log_start_offset, end)
        self.producers.map_end_offset = Offset(end)
        self.producers.take_snapshot()
