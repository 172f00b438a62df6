# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True, boundscheck=True, wraparound=True
"""Finds things in the segments of a log: the region that answers a read, the record of a time, aborted transactions."""

from __future__ import annotations

from tidelog.model.bugs import BugError
from tidelog.model.ids import Offset
from tidelog.storage.file_region import FileRegion
from tidelog.storage.segment import FoundTimestamp, Segment
from tidelog.storage.segment_list import SegmentList
from tidelog.storage.transaction_index import AbortedTransaction

# Where the batch of an offset begins is remembered for the offsets that are asked for again at once: the high watermark, the
# last stable offset, and the log's end where a reader got to, which is where it goes on.
_PLACES_REMEMBERED_MAX = 16


class FreshRun:
    """Batches that have just been written. Not their file: that may have to be closed for others."""

    __slots__ = ("base_offset", "end_offset", "position", "records", "segment")

    segment: Segment
    position: int
    base_offset: int
    end_offset: int
    records: bytes


class FoundRegion:
    """The region that answers a read, and the segment that it is of."""

    __slots__ = ("region", "segment")

    def __init__(self, region: FileRegion, segment: Segment) -> None:
        self.region = region
        self.segment = segment


class FirstBatchTooLarge:
    """The first batch alone is larger than the reader allows."""

    __slots__ = ("size_bytes",)

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes


class LogReader:
    """Finds things in one log. CorruptBatchError where a file is damaged."""

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
        # Without arguments, which would all be put into a tuple, and taken out again by their names.
        fresh = FreshRun.__new__(FreshRun)
        fresh.segment = segment
        fresh.position = end - len(records)
        fresh.base_offset = base_offset
        fresh.end_offset = end_offset
        fresh.records = records
        self.fresh = fresh
        self._remember(end_offset, segment, end)

    def find_region(
        self, offset: int, bound: int, log_end_offset: int, bytes_max: int, min_one_batch: bool
    ) -> FoundRegion | FirstBatchTooLarge | None:
        """The batches from the one that holds `offset` up to the offset `bound`, of one segment and within `bytes_max`."""
        segment = self._segments.floor(offset)
        place = self._places.get(offset)
        if place is not None and segment is not None and place[0] is segment:
            position = place[1]
            if segment.size_bytes > position:
                # A reader that goes on where it ended. What fits as a whole needs no look at the first batch.
                end = self._end_position(segment, bound, log_end_offset)
                if end <= position:
                    return None
                if end - position <= bytes_max:
                    return _region_of(segment, position, end - position)
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
            return _region_of(segment, position, min(end - position, bytes_max))
        return None

    def _end_position(self, segment: Segment, bound: int, log_end_offset: int) -> int:
        """Where in `segment` the batches before the offset `bound` end."""
        if bound == log_end_offset:
            position = segment.size_bytes
            if segment is self._segments.active:
                self._remember(bound, segment, position)
            return position
        holder = self._segments.floor(bound)
        if holder is None:
            holder = self._segments.first
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
        if len(places) >= _PLACES_REMEMBERED_MAX and offset not in places:
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
        region, segment = found.region, found.segment
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
        latest = max(self._segments, key=_largest_timestamp)
        return latest.find_largest_timestamp()


def _region_of(segment: Segment, position: int, count: int) -> FoundRegion:
    if position < 0 or count <= 0 or position + count > segment.size_bytes:
        raise BugError(f"a read of {segment} is answered with {count} bytes from {position} on")
    return FoundRegion(FileRegion(segment.open_file(), position, count), segment)


def _largest_timestamp(segment: Segment) -> int:
    return segment.largest_timestamp_offset.timestamp
