"""Finds things in the segments of a log: the region that answers a read, the record of a time, aborted transactions."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.ids import Offset
from tidelog.storage.file_region import FileRegion, FreshRegion
from tidelog.storage.segment import FoundTimestamp, Segment
from tidelog.storage.segment_list import SegmentList
from tidelog.storage.transaction_index import AbortedTransaction

# Where the batch of an offset begins is remembered for the offsets that are asked for again at once: the high watermark, the
# last stable offset, and the log's end where a reader got to, which is where it goes on.
PLACES_REMEMBERED_MAX = 16


class FoundRegion(NamedTuple):
    """The region that answers a read, and the segment that it is of."""

    region: FileRegion
    segment: Segment


class FreshRun(NamedTuple):
    """Batches that have just been written. Not their file: that may have to be closed for others."""

    segment: Segment
    position: int
    base_offset: int
    end_offset: int
    records: bytes

    @property
    def region(self) -> FreshRegion:
        return FreshRegion(self.segment.file, self.position, len(self.records), self.records)


class FirstBatchTooLarge(NamedTuple):
    """The first batch alone is larger than the reader allows."""

    size_bytes: int


class LogReader:
    """Reads the segments of one log. CorruptBatchError where a file is damaged."""

    __slots__ = ("_places", "_segments", "fresh")

    def __init__(self, segments: SegmentList) -> None:
        self._segments = segments
        # Of an offset: the segment that holds it, and where in it the batch begins that does, or will.
        self._places: dict[int, tuple[Segment, int]] = {}
        self.fresh: FreshRun | None = None
        """The last append, if somebody waits for it. Nothing that ends a transaction lies behind it."""

    def forget_positions(self) -> None:
        """The log has been truncated: remembered positions may be another batch's by now."""
        self._places.clear()
        self.fresh = None

    def keep_fresh(self, segment: Segment, records: bytes, base_offset: int, end_offset: int) -> None:
        """`records` have just been written to the end of `segment`."""
        end = segment.size_bytes
        self.fresh = FreshRun(segment, end - len(records), base_offset, end_offset, records)
        self._remember(end_offset, segment, end)

    def find_region(
        self, offset: int, bound: int, log_end_offset: Offset, bytes_max: int, *, min_one_batch: bool
    ) -> FoundRegion | FirstBatchTooLarge | None:
        """The batches from the one that holds `offset` up to the offset `bound`, of one segment and within `bytes_max`."""
        segment = self._segments.floor(offset)
        place = self._places.get(offset)
        if place is not None and place[0] is segment and segment.size_bytes > place[1]:
            # A reader that goes on where it ended. What fits as a whole needs no look at the first batch.
            position = place[1]
            end = self._end_position(segment, bound, log_end_offset)
            if end <= position:
                return None
            if end - position <= bytes_max:
                return FoundRegion(FileRegion(segment.file, position, end - position), segment)
        while segment is not None:
            found = segment.find(offset)
            if found is None:
                # Compaction has removed all that the segment had from there on.
                segment = self._segments.after(segment.base_offset)
                continue
            position = found.position
            end = self._end_position(segment, bound, log_end_offset)
            if end <= position:
                return None
            first_batch_bytes = found.header.size_bytes
            if first_batch_bytes > bytes_max:
                if not min_one_batch:
                    return FirstBatchTooLarge(first_batch_bytes)
                bytes_max = first_batch_bytes
            return FoundRegion(FileRegion(segment.file, position, min(end - position, bytes_max)), segment)
        return None

    def _end_position(self, segment: Segment, bound: int, log_end_offset: Offset) -> int:
        """Where in `segment` the batches before the offset `bound` end."""
        if bound == log_end_offset:
            end = segment.size_bytes
            if segment is self._segments.active:
                self._remember(bound, segment, end)
            return end
        holder = self._segments.floor(bound) or self._segments.first
        place = self._places.get(bound)
        if place is None or place[0] is not holder:
            found = holder.find(bound)
            position = holder.size_bytes if found is None else found.position
            self._remember(bound, holder, position)
        else:
            position = place[1]
        if segment is holder:
            return position
        return segment.size_bytes if segment.base_offset < holder.base_offset else 0

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        places = self._places
        if len(places) >= PLACES_REMEMBERED_MAX and offset not in places:
            # The oldest: readers at the tail only ask for the newest.
            del places[next(iter(places))]
        places[offset] = (segment, position)

    def aborted_in(
        self, found: FoundRegion, start_offset: int, log_end_offset: Offset
    ) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that a reader of the region from `start_offset` on must know. Perhaps a few more: where the
        region ends is told by the index, without reading."""
        # Almost always there are none, and then it does not matter where the region ends.
        if not any(each.has_aborted_transactions for each in self._segments.from_offset(start_offset)):
            return ()
        region, segment = found
        beyond = segment.offset_index.upper_bound(region.position + region.count)
        if beyond is not None:
            return self.aborted_transactions(start_offset, beyond.offset)
        following = self._segments.after(segment.base_offset)
        end_offset = log_end_offset if following is None else following.base_offset
        return self.aborted_transactions(start_offset, end_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions that have records from `start_offset` up to `end_offset`, exclusive."""
        found: list[AbortedTransaction] = []
        # A transaction is in the index of the segment that has its marker: this one or a later one.
        for segment in self._segments.from_offset(start_offset):
            search = segment.aborted_transactions(start_offset, end_offset)
            found += search.transactions
            if search.is_complete:
                break
        return tuple(found)

    def find_timestamp(self, timestamp: int, log_start_offset: int) -> FoundTimestamp | None:
        """The first record whose timestamp is at or after `timestamp`."""
        for segment in self._segments.from_offset(log_start_offset):
            if segment.largest_timestamp() >= timestamp:
                found = segment.find_timestamp(timestamp, log_start_offset)
                if found is not None:
                    return found
        return None

    def find_largest_timestamp(self) -> FoundTimestamp | None:
        """The first record that has the largest timestamp of the log."""
        latest = max(self._segments, key=lambda segment: segment.largest_timestamp_offset.timestamp)
        return latest.find_largest_timestamp()
