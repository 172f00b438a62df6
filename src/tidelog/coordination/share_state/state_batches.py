"""Ranges of offsets with how far each has come, and merging what a leader writes into what was written before.

A batch says of a range of offsets how often they were delivered and what became of them. Where two batches have an offset in
common, the one delivered more often counts, and of as many deliveries the higher state: states only move forward within one
delivery. Neighbours that say the same become one.

`merged` does this in the steps of Apache Kafka's combiner, so that both programs write the same snapshot of the same history. As
there, a batch that comes to touch an earlier one with the same state after that one has been passed stays apart from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

NO_START_OFFSET = -1
"""In place of a start offset: nothing was delivered yet, or the start is where it was."""


class StateBatch(NamedTuple):
    """Sorts by offsets, then by which of two counts."""

    first_offset: int
    last_offset: int
    delivery_count: int
    delivery_state: int

    @property
    def rank(self) -> tuple[int, int]:
        """Of two batches with an offset in common the one that ranks higher counts."""
        return self.delivery_count, self.delivery_state

    def between(self, first_offset: int, last_offset: int) -> StateBatch:
        """The same of other offsets."""
        return StateBatch(first_offset, last_offset, self.delivery_count, self.delivery_state)


def merged(known: Iterable[StateBatch], written: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """What both say together, of offsets from `start_offset` on, in order and without overlaps."""
    kept = [*_from(start_offset, known), *_from(start_offset, written)]
    if len(kept) < 2:
        return tuple(kept)
    heap = [*dict.fromkeys(kept)]
    heapify(heap)
    found: list[StateBatch] = []
    batch = heappop(heap)
    while heap:
        later = heap[0]
        if not _is_merged(batch, later):
            found.append(batch)
            batch = heappop(heap)
            continue
        while heap and heap[0] == later:
            heappop(heap)
        for piece in _merge(batch, later):
            heappush(heap, piece)
        batch = heappop(heap)
        # A set holds a batch once.
        while heap and heap[0] == batch:
            heappop(heap)
    found.append(batch)
    return tuple(found)


def _from(start_offset: int, batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    for batch in batches:
        if start_offset == NO_START_OFFSET or batch.first_offset >= start_offset:
            yield batch
        elif batch.last_offset >= start_offset:
            yield batch.between(start_offset, batch.last_offset)


def _is_merged(batch: StateBatch, later: StateBatch) -> bool:
    """Whether two neighbours overlap, or touch and say the same."""
    touches = batch.last_offset + 1 == later.first_offset
    return later.first_offset <= batch.last_offset or (touches and batch.rank == later.rank)


def _merge(batch: StateBatch, later: StateBatch) -> Iterator[StateBatch]:
    """Two neighbours, the first of which begins no later, as one to three without overlap."""
    if batch.rank == later.rank:
        yield batch.between(batch.first_offset, max(batch.last_offset, later.last_offset))
        return
    if later.rank < batch.rank:
        yield batch
        if later.last_offset > batch.last_offset:
            yield later.between(batch.last_offset + 1, later.last_offset)
        return
    if later.first_offset > batch.first_offset:
        yield batch.between(batch.first_offset, later.first_offset - 1)
    yield later
    if later.last_offset < batch.last_offset:
        yield batch.between(later.last_offset + 1, batch.last_offset)
