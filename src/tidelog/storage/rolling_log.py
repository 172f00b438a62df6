"""The segments of a log come and go: the log rolls, its start moves, compaction puts one in the place of others."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.storage.durable_log import DurableLog
from tidelog.storage.retention import expired_until
from tidelog.storage.segment import DELETED_SUFFIX, RELATIVE_OFFSET_MAX, SWAP_SUFFIX, Segment


class RollingLog(DurableLog):
    """A log whose segments change. The last one is the one that is appended to."""

    def roll(self) -> None:
        """Begin a new segment, unless the present one is empty."""
        with self._disk():
            if self._segments.active.size_bytes:
                self._roll(self.log_end_offset, self.log_end_offset)

    def _roll(self, first_offset: int, last_offset: int) -> Segment:
        """A new active segment for an append of these offsets. The old one is made durable in the background."""
        # A gap before the append belongs to the new segment, so that on disk no gap ever lies between two segments; unless it is
        # too wide for one.
        base_offset = self.log_end_offset
        if last_offset - base_offset > RELATIVE_OFFSET_MAX:
            base_offset = Offset(first_offset)
        rolled = self._segments.active
        rolled.finish()
        self._durability.prepare_roll(rolled, self.log_end_offset)
        new = self._create_segment(base_offset)
        self.producers.map_end_offset = Offset(base_offset)
        snapshot = self.producers.take_snapshot(sync=False)
        self._before_sync()
        self._durability.flush_in_background(base_offset, snapshot=snapshot, is_roll=True)
        return new

    def _create_segment(self, base_offset: int) -> Segment:
        segment = Segment.create(self._seams, self._host.open_segments, self.directory, base_offset, self.config)
        self._segments.add(segment)
        self._is_durable = False
        return segment

    def _discard(self, segment: Segment, *, with_snapshot: bool = True) -> None:
        """Take a segment out of the log. Its files get another name now and go later, the producers' snapshot with them."""
        self._segments.remove(segment)
        segment.release()
        segment.rename(DELETED_SUFFIX)
        paths = segment.all_paths()
        snapshot = self.producers.mark_snapshot_for_deletion(segment.base_offset) if with_snapshot else None
        if snapshot is not None:
            paths.append(snapshot)
        self._host.removals.add(paths, self.config.file_delete_delay_ms)

    # --- the log's start ---------------------------------------------------------------------------------------------------

    def delete_records_before(self, offset: int) -> ErrorCode:
        """Move the log's start to `offset`, which the high watermark must have reached. NONE if it is there now or was beyond.

        Segments that lie before it go with the next `remove_segments_before_start`.
        """
        if self.fault is not None:
            self._raise_offline()
        if offset > self.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset > self.log_start_offset:
            self.log_start_offset = Offset(offset)
            self.leader_epochs.truncate_from_start(offset)
            self.producers.on_log_start_offset_incremented(offset)
            self._is_durable = False
        return ErrorCode.NONE

    def expire(self) -> bool:
        """Move the log's start past all segments that have expired by time or size. Whether any has."""
        with self._disk():
            until = expired_until(
                self._segments,
                self.config,
                log_end_offset=self.log_end_offset,
                high_watermark=self.high_watermark,
                now_ms=self._seams.clock.now_ms(),
            )
            if until is None:
                return False
            if until == self.log_end_offset and self._segments.active.size_bytes:
                self._roll(until, until)
            self.delete_records_before(until)
            return True

    def remove_segments_before_start(self) -> int:
        """Remove the segments of which no record is in the log any more. Returns how many; none while it is being cleaned."""
        if self.is_being_cleaned:
            return 0
        with self._disk():
            gone = []
            for segment in self._segments:
                following = self._segments.after(segment.base_offset)
                if following is None or following.base_offset > self.log_start_offset:
                    break
                gone.append(segment)
            if gone and self._saved_log_start_offset < self.log_start_offset:
                self._host.save_log_start_offsets()
            for segment in gone:
                self._discard(segment)
            return len(gone)

    def log_start_saved(self) -> None:
        """The start of the log has been made durable."""
        self._saved_log_start_offset = self.log_start_offset

    def needs_saved_start(self) -> bool:
        """Whether the start of the log cannot be told from the names of its segments."""
        return self.log_start_offset > self._segments.first.base_offset

    def expire_producers(self) -> int:
        """Forget producers that have been silent for too long. Returns how many."""
        return self.producers.remove_expired(self._seams.clock.now_ms())

    # --- being compacted ---------------------------------------------------------------------------------------------------

    def replace_segments(self, cleaned: Segment, old: Sequence[Segment]) -> bool:
        """Put a segment that is on disk as `.cleaned` in the place of those that it was made from. False if one of them is gone.

        Names change in an order of which a crash leaves a first part: up to the last `.swap` the old segments are the log, from
        there on the new one is, and the next start finishes what is missing. Nobody waits for the disk.
        """
        with self._disk():
            if any(self._segments.floor(each.base_offset) is not each for each in old):
                return False
            self._is_durable = False
            cleaned.rename(SWAP_SUFFIX)
            for segment in old:
                # What producers had done before a segment began stays true of the one that begins at the same offset.
                self._discard(segment, with_snapshot=segment.base_offset != cleaned.base_offset)
            cleaned.rename("")
            self._segments.add(
                Segment(
                    self._seams,
                    self._host.open_segments,
                    self.directory,
                    cleaned.base_offset,
                    self.config,
                    size_bytes=cleaned.size_bytes,
                )
            )
            self._reader.forget_positions()
        return True
