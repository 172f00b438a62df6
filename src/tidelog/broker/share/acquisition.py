"""What a fetch acquires of what was read: a range of offsets for each piece, with how often it was delivered.

New records are acquired in whole batches of the log, so that more than `records_max` may come (mode 0); or exactly as many as
are wanted, the rest of the batch staying available (mode 1). Available ones that were in flight before are acquired as they are
kept: by batch, or by offset where a batch is split.

A record that nobody gets done with must not take others with it. From the half of all attempts on, what has failed is delivered
in ever smaller pieces and by itself, in the end one record at a time.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.broker.share.delivery import ACQUIRED, AVAILABLE, Delivery
from tidelog.broker.share.in_flight import InFlightBatch
from tidelog.broker.share.log_batches import LogBatch
from tidelog.broker.share.share_partition import SharePartition

# Nothing is cut smaller before its second failure.
_CUT_FROM_MIN = 2
# A group that gives up after two deliveries has no attempt left to isolate a record in.
_ALONE_FROM = 2


class Acquired(NamedTuple):
    """Offsets that a member has in hand now, and which delivery of them it is."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Wish(NamedTuple):
    """What a member asks for."""

    member_id: str
    records_max: int
    batch_size: int
    is_exact: bool
    """Not more than `records_max` (mode 1), in one range."""


def acquire(
    partition: SharePartition, wish: Wish, fetch_offset: int, batches: list[LogBatch], now_ms: int
) -> list[Acquired]:
    """Acquire from `batches`, which were read from `fetch_offset` on."""
    if wish.records_max <= 0 or not batches or batches[-1].last_offset < partition.start_offset:
        return []
    acquired = _Acquisition(partition, wish, batches, now_ms).acquire(fetch_offset)
    if not acquired:
        # All that was found may be settled, or gone: nobody else would notice.
        partition.move_start()
    return acquired


def records_in(acquired: list[Acquired]) -> int:
    return sum(each.last_offset - each.first_offset + 1 for each in acquired)


class _Acquisition:
    """One call of `acquire`."""

    def __init__(self, partition: SharePartition, wish: Wish, batches: list[LogBatch], now_ms: int) -> None:
        self._partition = partition
        self._wish = wish
        self._batches = batches
        self._until_ms = partition.lock_until(now_ms)
        self._result: list[Acquired] = []
        self._left = 0
        """How many records may still be acquired."""
        limit = partition.settings.deliveries_max
        self._deliveries_max = limit
        self._cut_from = max(_CUT_FROM_MIN, (limit + 1) // 2)

    def acquire(self, fetch_offset: int) -> list[Acquired]:
        partition = self._partition
        first, last = self._batches[0].base_offset, self._batches[-1].last_offset
        last = self._limit(fetch_offset, last)
        if self._left <= 0:
            return []
        if fetch_offset < first:
            # What lies between was compacted away.
            partition.found_nothing(fetch_offset, first)
        base = first
        floor = partition.batches.floor(base)
        if floor is None:
            base = max(base, partition.start_offset)
        elif floor.last >= base:
            base = floor.first
        if last < base:
            # There is room for what is in flight alone, and that is gone.
            return []
        known = partition.batches.starting_in(min(first, base), last)
        if not known:
            self._acquire_new(base, last)
            return self._result
        self._acquire_known(known, base, first, last)
        if self._left > 0 and known[-1].last < last:
            self._acquire_new(known[-1].last + 1, last)
        if self._result:
            partition.move_gap(self._result[-1].last_offset + 1)
        return self._result

    def _limit(self, fetch_offset: int, last: int) -> int:
        """Sets how many records may be acquired. Returns the last offset that may be."""
        partition, records_max = self._partition, self._wish.records_max
        self._left = min(records_max, partition.settings.record_locks_max - partition.in_flight_count())
        if self._left <= 0 and fetch_offset <= partition.end_offset:
            # No room for more, but some of what is in flight is to be had again.
            self._left = min(records_max, partition.end_offset - fetch_offset + 1)
            return min(last, partition.end_offset)
        return last

    # --- what is in flight already -----------------------------------------------------------------------------------------

    def _acquire_known(self, known: list[InFlightBatch], base: int, first: int, last: int) -> None:
        partition = self._partition
        hole = base
        for batch in known:
            if self._left <= 0:
                return
            if partition.open_gap() is not None:
                if hole < batch.first:
                    self._acquire_new(hole, batch.first - 1)
                hole = batch.last + 1
                if self._left <= 0:
                    return
            is_cut = self._is_cut(batch, first, last)
            if is_cut and self._result:
                # It is not to be mixed with others.
                self._left = 0
                return
            is_whole = first <= batch.first and batch.last <= last
            is_too_large = self._wish.is_exact and len(batch) > self._left
            if not is_whole or batch.offsets is not None or is_too_large or is_cut:
                if batch.whole is not None and not batch.whole.can_be_acquired:
                    continue
                batch.split()
                count = self._acquire_offsets(batch, first, last)
                self._left -= count
                if is_cut and count:
                    self._left = 0
                    return
                continue
            delivery = batch.deliveries()[0]
            if delivery.can_be_acquired:
                delivery.acquire(self._wish.member_id, self._until_ms)
                self._result.append(Acquired(batch.first, batch.last, delivery.count))
                self._left -= len(batch)

    def _is_cut(self, batch: InFlightBatch, first: int, last: int) -> bool:
        """Whether something of a batch has failed too often for all of it to be delivered together."""
        if batch.offsets is None:
            delivery = batch.deliveries()[0]
            return delivery.can_be_acquired and delivery.count >= self._cut_from
        return any(
            delivery.can_be_acquired and delivery.count >= self._cut_from for _, delivery in batch.between(first, last)
        )

    def _acquire_offsets(self, batch: InFlightBatch, first: int, last: int) -> int:
        """Acquire what can be had of a split batch. How many offsets those are."""
        limit, isolates = self._deliveries_max, self._deliveries_max > _ALONE_FROM
        count = 0
        pieces: list[Acquired] = []
        count_max = self._left if self._wish.is_exact else len(batch)
        cut_max = 0
        for offset, delivery in batch.between(first, last):
            if not delivery.can_be_acquired:
                continue
            if isolates and delivery.count == limit - 1 and count:
                break
            if not cut_max and delivery.count >= self._cut_from:
                # The size is that of the batch, however much of it is left.
                cut_max = max(1, len(batch) >> (delivery.count - self._cut_from + 1))
            delivery.acquire(self._wish.member_id, self._until_ms)
            _append(pieces, offset, delivery)
            count += 1
            if (isolates and delivery.count == limit) or count in {count_max, cut_max}:
                break
        self._result += pieces
        return count

    # --- new records -------------------------------------------------------------------------------------------------------

    def _acquire_new(self, first: int, last: int) -> None:
        """Acquire offsets that are not in flight, up to the end of the batch of the log that has the last one wanted."""
        partition = self._partition
        if not partition.batches and partition.end_offset > first:
            # The batch was in flight before, and what is settled of it is not forgotten.
            first = partition.end_offset
        if self._left < last - first + 1:
            end = self._batch_end(first + self._left - 1)
            # Holes do not end where batches of the log do.
            last = min(end, last) if partition.open_gap() is not None else end
        before = len(self._result)
        if self._wish.is_exact:
            self._add_exactly(first, last)
        else:
            self._add_pieces(first, last)
        if partition.batches.first.first == first:
            partition.start_offset = first
        partition.end_offset = max(partition.end_offset, last)
        acquired = self._result[-1].last_offset
        partition.move_gap(acquired + 1)
        self._left -= acquired - self._result[before].first_offset + 1

    def _batch_end(self, offset: int) -> int:
        """The end of the batch of the log that contains an offset."""
        found: LogBatch | None = None
        for batch in self._batches:
            if offset < batch.base_offset:
                break
            found = batch
        return found.last_offset if found is not None and offset <= found.last_offset else offset

    def _add_pieces(self, first: int, last: int) -> None:
        size = max(1, self._wish.batch_size)
        if last - first + 1 > size:
            for batch in self._batches:
                if batch.base_offset > last:
                    break
                if batch.base_offset - first >= size:
                    self._add_new(first, batch.base_offset - 1)
                    first = batch.base_offset
        self._add_new(first, last)

    def _add_exactly(self, first: int, last: int) -> None:
        if last - first + 1 <= self._left:
            self._add_new(first, last)
            return
        batch = InFlightBatch(first, last, Delivery(AVAILABLE, 0))
        stop = first + self._left
        batch.split()
        for _, delivery in batch.between(first, stop - 1):
            delivery.acquire(self._wish.member_id, self._until_ms)
        self._partition.looks_back = True
        self._partition.batches.add(batch)
        self._result.append(Acquired(first, stop - 1, 1))

    def _add_new(self, first: int, last: int) -> None:
        delivery = Delivery(ACQUIRED, 1, self._wish.member_id, self._until_ms)
        self._partition.batches.add(InFlightBatch(first, last, delivery))
        self._result.append(Acquired(first, last, 1))


def _append(pieces: list[Acquired], offset: int, delivery: Delivery) -> None:
    """Neighbours of one count are one range."""
    if pieces:
        before = pieces[-1]
        if before.last_offset + 1 == offset and before.delivery_count == delivery.count:
            pieces[-1] = Acquired(before.first_offset, offset, delivery.count)
            return
    pieces.append(Acquired(offset, offset, delivery.count))
