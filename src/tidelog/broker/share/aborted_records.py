"""What a group that reads committed records is not given: those of aborted transactions, which nobody has to settle."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.broker.share.acquisition import Acquired
from tidelog.broker.share.delivery import ACQUIRED
from tidelog.broker.share.log_batches import LogBatch
from tidelog.broker.share.share_partition import SharePartition


def without_aborted(partition: SharePartition, acquired: list[Acquired], aborted: Sequence[LogBatch]) -> list[Acquired]:
    """Archive what was acquired of `aborted`, which are in order, and leave it out."""
    if not acquired:
        return acquired
    for batch in aborted:
        floor = partition.batches.floor(batch.base_offset)
        first = batch.base_offset if floor is None else floor.first
        known = partition.batches.starting_in(first, batch.last_offset)
        partition.archive(batch.base_offset, batch.last_offset + 1, known, ACQUIRED)
    left = _difference(acquired, aborted)
    if not left:
        # Nobody acknowledges anything, after which the start would move.
        partition.move_start()
    return left


def _difference(acquired: list[Acquired], aborted: Sequence[LogBatch]) -> list[Acquired]:
    left: list[Acquired] = []
    for first, last, count in acquired:
        start = first
        for batch in aborted:
            if batch.last_offset < start or batch.base_offset > last:
                continue
            if start < batch.base_offset:
                left.append(Acquired(start, batch.base_offset - 1, count))
            start = batch.last_offset + 1
        if start <= last:
            left.append(Acquired(start, last, count))
    return left
