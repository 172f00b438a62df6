"""The batches of the log in what a fetch has read, by their headers alone; and what of the file an answer sends of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.model.ids import NO_PRODUCER_ID
from tidelog.storage.batch_scan import each_header
from tidelog.storage.file_region import FileRegion
from tidelog.storage.transaction_index import AbortedTransaction
from tidelog.wire.batch_errors import CorruptBatchError


class LogBatch(NamedTuple):
    """One batch of the log. `position` is that in its file."""

    base_offset: int
    last_offset: int
    position: int = 0
    size_bytes: int = 0
    producer_id: int = NO_PRODUCER_ID
    holds_transaction: bool = False
    """Whether it has records of a transaction, and is not the marker of its end."""


def batches_of(region: FileRegion, last_offset: int) -> list[LogBatch]:
    """The whole batches of a region, as far as they may be acquired: up to the one that contains `last_offset`."""
    batches: list[LogBatch] = []
    try:
        for position, header in each_header(region.file, region.position, region.position + region.count):
            if header.base_offset > last_offset and batches:
                break
            holds_transaction = header.is_transactional and not header.is_control
            batches.append(
                LogBatch(
                    header.base_offset,
                    header.last_offset,
                    position,
                    header.size_bytes,
                    header.producer_id,
                    holds_transaction,
                )
            )
    except CorruptBatchError:
        # The last one is cut off by the limit of the read: the next fetch begins with it.
        return batches
    return batches


def region_between(region: FileRegion, batches: Sequence[LogBatch], first: int, last: int) -> FileRegion:
    """The part of a region with the batches that contain the offsets from `first` to `last`."""
    sent = [batch for batch in batches if batch.last_offset >= first and batch.base_offset <= last]
    start = sent[0].position
    stop = sent[-1].position + sent[-1].size_bytes
    return FileRegion(file=region.file, position=start, count=stop - start)


def aborted_batches(batches: Sequence[LogBatch], transactions: Sequence[AbortedTransaction]) -> list[LogBatch]:
    """Those that belong to an aborted transaction."""
    if not transactions:
        return []
    by_producer: dict[int, list[AbortedTransaction]] = {}
    for each in transactions:
        by_producer.setdefault(each.producer_id, []).append(each)
    return [
        batch
        for batch in batches
        if batch.holds_transaction
        and any(
            each.first_offset <= batch.last_offset and batch.last_offset <= each.last_offset
            for each in by_producer.get(batch.producer_id, ())
        )
    ]
