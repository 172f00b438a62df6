"""What one share group has done with one partition, as its leader knows it: a machine without clock, log or disk.

    start_offset (SPSO)    all before it is settled
    end_offset (SPEO)      the last offset in flight; the next one to fetch where nothing is in flight

    acquire (`acquisition`)        new records, and those that have become available again
    begin (`acknowledgement`)      what a member says of its records, or that it has left: a `Change`
    settle(change, ...)            once that is written, or could not be
    time_out(now_ms)               locks have ended: that counts at once
    log_start_moved(offset)        records are gone

A leader that takes over knows only what was written. Offsets between that were perhaps given to members and never written: up
to the end that it was told, such holes are fetched (`gap`). A hole that is still there then has no records in it.

Where this differs from Kafka: nothing that lies below the start becomes AVAILABLE when a failed write is taken back after its
lock has ended; the start never moves back (there, a log start behind everything in flight may do that); and holes are done with
when the last of them is acquired, not when something behind them is, for which there may be no room.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.broker.share.delivery import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, NO_LOCK, Delivery, RecordState
from tidelog.broker.share.in_flight import InFlightBatch, InFlightBatches
from tidelog.broker.share.persister import ShareState, StateBatch

_NOTHING = -1

_WRITTEN = frozenset({AVAILABLE, ACKNOWLEDGED, ARCHIVED})


class ShareSettings(NamedTuple):
    """What a group's configuration comes to."""

    lock_duration_ms: int
    deliveries_max: int
    record_locks_max: int
    may_renew: bool


class Gap(NamedTuple):
    """Holes are fetched from `next_offset` on, as long as nothing behind `end_offset` is in flight."""

    next_offset: int
    end_offset: int


class Change:
    """What has begun together, to be written together."""

    __slots__ = ("batches", "parts")

    def __init__(self) -> None:
        self.parts: list[tuple[InFlightBatch, int, int]] = []
        self.batches: list[StateBatch] = []
        """To be written."""

    def add(self, batch: InFlightBatch, first: int, last: int, delivery: Delivery) -> None:
        """These offsets of a batch have begun to become what `delivery` says."""
        add_state(self.batches, first, last, delivery)
        if self.parts and self.parts[-1][0] is batch and self.parts[-1][2] + 1 == first:
            self.parts[-1] = (batch, self.parts[-1][1], last)
        else:
            self.parts.append((batch, first, last))


class SharePartition:
    """See the module."""

    def __init__(self, settings: ShareSettings) -> None:
        self.settings = settings
        self.batches = InFlightBatches()
        self.start_offset = 0
        self.end_offset = 0
        self.state_epoch = 0
        self.completed_count = 0
        """How many of the records in flight are settled."""
        self.looks_back = False
        """Whether something in flight may be there to be acquired."""
        self.gap: Gap | None = None
        self.next_lock_ms: int | None = None
        """No lock ends before this; None where nothing is locked."""

    # --- taking over -------------------------------------------------------------------------------------------------------

    def load(self, state: ShareState, start_offset: int) -> str | None:
        """Begin with what was written. Why that cannot be, or None."""
        self.start_offset = start_offset
        self.state_epoch = state.state_epoch
        last = start_offset - 1
        first_hole = _NOTHING
        for each in state.batches:
            if each.first_offset <= last or each.last_offset < each.first_offset:
                return f"offsets {each.first_offset} to {each.last_offset} of its state follow offset {last}"
            if each.state not in _WRITTEN:
                return f"offset {each.first_offset} has the state {each.state}"
            if first_hole == _NOTHING and each.first_offset > last + 1:
                first_hole = last + 1
            last = each.last_offset
            batch = InFlightBatch(each.first_offset, last, Delivery(RecordState(each.state), each.delivery_count))
            self.batches.add(batch)
            if batch.deliveries()[0].is_terminal:
                self.completed_count += len(batch)
        if not self.batches:
            self.end_offset = start_offset
            return None
        self.looks_back = True
        self.end_offset = last
        if first_hole != _NOTHING:
            self.gap = Gap(first_hole, last)
        self.move_start()
        return None

    # --- where to fetch ----------------------------------------------------------------------------------------------------

    def next_fetch_offset(self) -> int:
        """Where the next fetch begins: at what has become available again, or behind all that is in flight."""
        if self._has_nothing_in_flight():
            self.looks_back = False
            return self.end_offset
        if self.looks_back:
            found = self._first_to_acquire()
            if found != _NOTHING:
                return found
            self.looks_back = False
        return self.end_offset + 1

    def _has_nothing_in_flight(self) -> bool:
        return not self.batches or self.start_offset > self.batches.last.last

    def _first_to_acquire(self) -> int:
        gap = self.open_gap()
        hole = _NOTHING if gap is None else gap.next_offset
        for batch in self.batches:
            if gap is not None:
                if batch.first > hole:
                    return hole
                hole = max(batch.last + 1, hole)
            if batch.offsets is None:
                if batch.deliveries()[0].can_be_acquired:
                    return batch.first
                continue
            for offset, delivery in batch.between(batch.first, batch.last):
                if delivery.can_be_acquired:
                    return offset
        return _NOTHING

    def in_flight_count(self) -> int:
        """Of offsets, settled ones between others included."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    def has_room(self) -> bool:
        """Whether a fetch could acquire anything."""
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.in_flight_count() < self.settings.record_locks_max

    def open_gap(self) -> Gap | None:
        """The holes that are to be fetched, while there are such."""
        gap = self.gap
        return gap if gap is not None and gap.end_offset == self.end_offset else None

    def found_nothing(self, first: int, stop: int) -> None:
        """There are no records from `first` to before `stop`: a hole between these is done with, and so is what was in flight."""
        gap = self.open_gap()
        if gap is not None and first <= gap.next_offset < stop:
            self.move_gap(stop)
        if self.batches:
            floor = self.batches.floor(first)
            start = floor.first if floor is not None and floor.last >= first else first
            self.archive(first, stop, self.batches.starting_in(start, stop - 1), AVAILABLE)

    def move_gap(self, offset: int) -> None:
        """What was in the holes before `offset` is acquired."""
        gap = self.gap
        if gap is not None:
            is_open = gap.end_offset == self.end_offset and offset <= gap.end_offset
            self.gap = Gap(offset, gap.end_offset) if is_open else None

    def _close_gap(self) -> None:
        """No hole is left where everything up to the end that was told is in flight."""
        gap = self.open_gap()
        if gap is None:
            return
        hole = gap.next_offset
        for batch in self.batches:
            if batch.first > hole:
                return
            hole = max(batch.last + 1, hole)
        self.gap = None

    # --- locks -------------------------------------------------------------------------------------------------------------

    def lock_until(self, now_ms: int) -> int:
        """When a lock that is taken now ends. The machine remembers that there is one."""
        until_ms = now_ms + self.settings.lock_duration_ms
        if self.next_lock_ms is None or until_ms < self.next_lock_ms:
            self.next_lock_ms = until_ms
        return until_ms

    def time_out(self, now_ms: int) -> list[StateBatch]:
        """Take back what nobody has settled in time. What is to be written of it."""
        written: list[StateBatch] = []
        earliest: int | None = None
        for batch in list(self.batches):
            whole = batch.whole
            if whole is not None and _is_due(whole, now_ms) and batch.first < self.start_offset <= batch.last:
                # Some of it is below the start, and archived whatever its count.
                batch.split()
                whole = None
            if whole is not None:
                if _is_due(whole, now_ms):
                    self._end_lock(whole, batch.first, batch.last, written)
            else:
                for offset, delivery in batch.between(batch.first, batch.last):
                    if _is_due(delivery, now_ms):
                        self._end_lock(delivery, offset, offset, written)
            for delivery in batch.deliveries():
                lock_ms = delivery.locked_until_ms
                # A change that is being written keeps its lock, in case it is taken back: then that looks at the time.
                if lock_ms > now_ms and (earliest is None or lock_ms < earliest):
                    earliest = lock_ms
        self.next_lock_ms = earliest
        return written

    def _end_lock(self, delivery: Delivery, first: int, last: int, written: list[StateBatch]) -> None:
        delivery.time_out(self.settings.deliveries_max, last < self.start_offset)
        add_state(written, first, last, delivery)
        if delivery.is_terminal:
            self.completed_count += self.count_from_start(first, last)
        else:
            self.looks_back = True

    def give_back(self, member_id: str, first: int, last: int) -> None:
        """What a member has just acquired does not reach it: as if it had not been acquired."""
        floor = self.batches.floor(first)
        if floor is None:
            return
        for batch in self.batches.starting_in(floor.first, last):
            if batch.whole is not None and (batch.first < first or last < batch.last):
                batch.split()
            deliveries = (
                batch.deliveries() if batch.whole is not None else [each for _, each in batch.between(first, last)]
            )
            for delivery in deliveries:
                if delivery.state is ACQUIRED and delivery.member_id == member_id:
                    delivery.give_back()
                    self.looks_back = True

    # --- changes -----------------------------------------------------------------------------------------------------------

    def settle(self, change: Change, is_written: bool, now_ms: int) -> bool:
        """What has begun is written, or is taken back. Whether there may be more to acquire now than before."""
        for batch, first, last in change.parts:
            if batch.offsets is None:
                assert batch.whole is not None
                self._settle(batch.whole, first, last, is_written, now_ms)
                if not is_written and batch.whole.state is AVAILABLE and first < self.start_offset:
                    # Its lock has ended while it was being written, and the log start has moved into it.
                    self.archive(first, self.start_offset, [batch], AVAILABLE)
            else:
                for offset, delivery in batch.between(first, last):
                    self._settle(delivery, offset, offset, is_written, now_ms)
        has_moved = is_written and self.move_start()
        return has_moved or self.looks_back

    def _settle(self, delivery: Delivery, first: int, last: int, is_written: bool, now_ms: int) -> None:
        was_terminal = delivery.is_terminal
        delivery.settle(is_written, now_ms, last < self.start_offset)
        if delivery.state is AVAILABLE:
            self.looks_back = True
        elif delivery.state is ACQUIRED and delivery.locked_until_ms != NO_LOCK:
            # Its lock may have been the one that the next look was for.
            lock_ms = delivery.locked_until_ms
            self.next_lock_ms = lock_ms if self.next_lock_ms is None else min(lock_ms, self.next_lock_ms)
        if was_terminal and not delivery.is_terminal:
            self.completed_count -= self.count_from_start(first, last)

    def count_from_start(self, first: int, last: int) -> int:
        """How many of these offsets are not before the start."""
        return max(0, last - max(self.start_offset, first) + 1)

    # --- the start ---------------------------------------------------------------------------------------------------------

    def move_start(self) -> bool:
        """Move the start past all that is settled. False where it stays."""
        self._close_gap()
        has_moved = self._skip_hole()
        if not self._is_start_settled():
            return has_moved
        last, count = self._settled_up_to()
        if last == _NOTHING:
            return has_moved
        if last == self.batches.last.last:
            self.start_offset = self.end_offset = max(self.start_offset, last + 1)
            self.completed_count = 0
            self.batches.clear()
            return True
        batch = self.batches.floor(last)
        assert batch is not None
        if last == batch.last:
            following = self.batches.following(last)
            assert following is not None
            gap = self.open_gap()
            start = following.first if gap is None else min(gap.next_offset, following.first)
            drop_below = batch.first + 1
        else:
            start = last + 1
            drop_below = batch.first
        self.start_offset = max(self.start_offset, start)
        self.completed_count -= count
        self.batches.drop_below(drop_below)
        return True

    def _skip_hole(self) -> bool:
        """Where the start lies in a hole in which there is nothing, it is that of the first batch. Whether it has moved."""
        if not self.batches or self.start_offset >= self.batches.first.first:
            return False
        gap = self.open_gap()
        if gap is not None and gap.next_offset < self.batches.first.first:
            return False
        self.start_offset = self.batches.first.first
        return True

    def _is_start_settled(self) -> bool:
        batch = self.batches.floor(self.start_offset)
        if batch is None:
            return False
        delivery = batch.delivery_of(self.start_offset)
        return delivery.is_terminal and not delivery.is_changing

    def _settled_up_to(self) -> tuple[int, int]:
        """The last offset up to which all in flight is settled, and how many of these are not before the start."""
        last, count = _NOTHING, 0
        gap = self.open_gap()
        for batch in self.batches:
            if gap is not None and batch.last >= gap.next_offset:
                break
            if batch.offsets is None:
                delivery = batch.deliveries()[0]
                if delivery.is_changing or not delivery.is_terminal:
                    break
                last = batch.last
                count += self.count_from_start(batch.first, last)
                continue
            for offset, delivery in batch.between(batch.first, batch.last):
                if delivery.is_changing or not delivery.is_terminal:
                    return last, count
                last = offset
                count += offset >= self.start_offset
        return last, count

    def log_start_moved(self, log_start_offset: int) -> None:
        """The log begins here now. What is acquired keeps its lock; the start is durable with the next write."""
        if log_start_offset <= self.start_offset:
            return
        if not self.batches:
            self.start_offset = self.end_offset = log_start_offset
            self.completed_count = 0
            return
        gone = self._terminal_count_before(log_start_offset)
        self.archive(self.start_offset, log_start_offset, self.batches, AVAILABLE, counts=False)
        self.start_offset = log_start_offset
        self.completed_count -= gone
        self.end_offset = max(self.end_offset, log_start_offset)

    def _terminal_count_before(self, offset: int) -> int:
        count = 0
        for batch in self.batches.starting_in(self.batches.first.first, offset - 1):
            if batch.offsets is None:
                if batch.deliveries()[0].is_terminal:
                    count += self.count_from_start(batch.first, min(offset - 1, batch.last))
                continue
            for _, delivery in batch.between(self.start_offset, offset - 1):
                count += delivery.is_terminal
        return count

    def archive(
        self, first: int, stop: int, batches: Iterable[InFlightBatch], state: RecordState, counts: bool = True
    ) -> None:
        """Give nobody the offsets from `first` to before `stop` that are in `state`. `counts`: they are settled in flight."""
        for batch in batches:
            if batch.first >= stop:
                break
            if batch.whole is not None:
                if batch.whole.state is not state:
                    continue
                if first <= batch.first and batch.last < stop:
                    batch.whole.archive()
                    self.completed_count += self.count_from_start(batch.first, batch.last) if counts else 0
                    self.looks_back = self.looks_back or state is AVAILABLE
                    continue
                batch.split()
            for offset, delivery in batch.between(first, stop - 1):
                if delivery.state is state:
                    delivery.archive()
                    self.completed_count += counts and offset >= self.start_offset
                    self.looks_back = self.looks_back or state is AVAILABLE


def add_state(batches: list[StateBatch], first: int, last: int, delivery: Delivery) -> None:
    """Add to what is to be written. Neighbours of one fate are one batch, as the coordinator would join them."""
    state = int(delivery.state)
    if batches:
        before = batches[-1]
        if (before.last_offset + 1, before.state, before.delivery_count) == (first, state, delivery.count):
            batches[-1] = StateBatch(before.first_offset, last, state, delivery.count)
            return
    batches.append(StateBatch(first, last, state, delivery.count))


def _is_due(delivery: Delivery, now_ms: int) -> bool:
    return delivery.state is ACQUIRED and NO_LOCK < delivery.locked_until_ms <= now_ms
