"""Finds things in the segments of a log: the region that answers a read, the record of a time, aborted transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel_choice import load
from tidelog.model.ids import Offset
from tidelog.storage.segment import FoundTimestamp
from tidelog.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from tidelog.storage.kernels.log_kernel import FoundRegion, LogReaderCore
else:
    LogReaderCore = load("tidelog.storage.kernels", "log_kernel").LogReaderCore


class LogReader(LogReaderCore):
    """Reads the segments of one log. CorruptBatchError where a file is damaged. What every read asks is in the kernel."""

    __slots__ = ()

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
        latest = max(self._segments, key=lambda segment: segment.largest_timestamp_offset.timestamp)
        return latest.find_largest_timestamp()
