"""What one answer acquired of a partition: records, and which of them are this member's, decoded when the application asks.

Data comes in whole batches of the log. Of these only the offsets in `acquired_records` are the member's; one of them without a
record in the data is a gap, to be acknowledged as such.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tidelog.client.consumer.errors import CorruptRecordsError
from tidelog.client.consumer.fetched_partition import FetchedPartition
from tidelog.client.share.places import Place
from tidelog.client.share.records import SharedRecord, SharedRow
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.messages.share_fetch import AcquiredRecords, PartitionData

if TYPE_CHECKING:
    import pyarrow as pa

Range = tuple[int, int]
_OFFSET = attrgetter("offset")


class Acquired(NamedTuple):
    """Neighbouring offsets that were delivered equally often."""

    first: int
    last: int
    deliveries: int


class DamagedRecordsError(CorruptRecordsError):
    """A batch cannot be read. Its records are rejected, unless the application says something else of them before it goes on."""

    def __init__(self, acquired: AcquiredPartition, offset: int, ranges: list[Range], sentence: str) -> None:
        super().__init__(acquired.place.partition, offset, sentence)
        self.ranges = ranges


class AcquiredPartition:
    """Records that wait to be taken, in order."""

    def __init__(self, node_id: int, place: Place, data: PartitionData, *, check_crcs: bool) -> None:
        self.node_id = node_id
        self.place = place
        self._acquired = deque(_without_overlaps(data.acquired_records))
        self._fetched = FetchedPartition(
            place.partition,
            self._acquired[0].first if self._acquired else 0,
            data.records or b"",  # type: ignore[arg-type]  # bytes of an answer, never a region of a file
            check_crcs=check_crcs,
            row_type=SharedRecord,
        )
        self._given_back: list[SharedRow] = []
        self._is_damaged = False

    @property
    def is_drained(self) -> bool:
        return not self._acquired and not self._given_back

    def take_rows(self, count_min: int) -> tuple[list[SharedRow], list[Range]]:
        """The next records, of whole batches until there are `count_min`, and the gaps among them.

        DamagedRecordsError where the next batch cannot be read; what follows it can be taken next.
        """
        if self._given_back:
            rows, self._given_back = self._given_back, []
            return rows, []
        try:
            taken = self._fetched.take_batches(count_min)
        except CorruptBatchError as error:
            raise self._pass_damage(error) from error
        return self._matched(taken, self._passed())  # type: ignore[arg-type]  # of the type that was asked for

    def give_back(self, rows: list[SharedRow]) -> None:
        """These were taken last, and are taken again."""
        self._given_back = rows

    def take_columns(self) -> tuple[pa.RecordBatch | None, list[Range]]:
        """What is left of one timestamp type as columns (see `shared_columns`), and the gaps among it."""
        from tidelog.client.share.shared_columns import shared_columns  # noqa: PLC0415 - pyarrow is an extra

        try:
            taken = self._fetched.take_columns(batches_max=1 if self._is_damaged else None)
        except CorruptBatchError as error:
            if self._is_damaged:
                raise self._pass_damage(error) from error
            # Somewhere among them: from now on one by one.
            self._is_damaged = True
            return self.take_columns()
        acquired = self._passed()
        if taken is None:
            return None, [(first, last) for first, last, _count in acquired]
        return shared_columns(self.place.partition, *taken, acquired)

    def _passed(self) -> list[Acquired]:
        """What was acquired of all that has been read by now."""
        passed: list[Acquired] = []
        end = self._fetched.next_offset
        if self._fetched.is_drained and self._fetched.damage is None:
            passed = list(self._acquired)
            self._acquired.clear()
            return passed
        while self._acquired and self._acquired[0].first < end:
            first, last, count = self._acquired.popleft()
            passed.append(Acquired(first, min(last, end - 1), count))
            if last >= end:
                self._acquired.appendleft(Acquired(end, last, count))
        return passed

    def _matched(self, rows: list[SharedRow], acquired: list[Acquired]) -> tuple[list[SharedRow], list[Range]]:
        kept: list[SharedRow] = []
        gaps: list[Range] = []
        for first, last, count in acquired:
            begin = bisect_left(rows, first, key=_OFFSET)
            end = bisect_right(rows, last, begin, key=_OFFSET)
            own = rows if begin == 0 and end == len(rows) else rows[begin:end]
            if len(own) != last - first + 1:
                gaps += gaps_among([row.offset for row in own], first, last)
            if count != 1:
                own = [msgspec.structs.replace(row, delivery_count=count) for row in own]
            kept = kept + own if kept else own
        return kept, gaps

    def _pass_damage(self, error: CorruptBatchError) -> DamagedRecordsError:
        offset = max(self._fetched.next_offset, self._acquired[0].first if self._acquired else 0)
        self._fetched.skip_damaged()
        ranges = [(first, last) for first, last, _count in self._passed()]
        return DamagedRecordsError(self, offset, ranges, str(error))


def gaps_among(offsets: Sequence[int], first: int, last: int) -> list[Range]:
    """What is missing of the offsets from `first` to `last`."""
    gaps: list[Range] = []
    expected = first
    for offset in offsets:
        if offset > expected:
            gaps.append((expected, offset - 1))
        expected = offset + 1
    if expected <= last:
        gaps.append((expected, last))
    return gaps


def _without_overlaps(told: Sequence[AcquiredRecords]) -> list[Acquired]:
    """In order, and no offset twice, whatever a broker tells."""
    acquired: list[Acquired] = []
    for each in sorted(told, key=lambda each: each.first_offset):
        first = max(each.first_offset, acquired[-1].last + 1 if acquired else 0)
        if first <= each.last_offset:
            acquired.append(Acquired(first, each.last_offset, each.delivery_count))
    return acquired
