"""What a read of a log answers."""

from __future__ import annotations

from enum import Enum

import msgspec

from tidelog.model.ids import Offset
from tidelog.storage.file_region import FileRegion
from tidelog.storage.transaction_index import AbortedTransaction


class FetchIsolation(Enum):
    """How far a reader may see."""

    LOG_END = "log end"
    """Everything: a follower."""
    HIGH_WATERMARK = "high watermark"
    """What every in-sync replica has: a consumer that reads uncommitted."""
    LAST_STABLE_OFFSET = "last stable offset"
    """What no open transaction can change any more: a consumer that reads committed."""


class Fetched(msgspec.Struct, frozen=True, gc=False):
    """The answer to a read, with the offsets of the log at that moment.

    `regions` hold whole batches from the one that contains the offset on, except that the last may be cut off by the limit,
    as the protocol allows. They are of one segment, as in Kafka: the next read gets the next one. No region at all means that
    nothing is there to be seen yet, or, with `first_batch_too_large`, that the first batch did not fit the limit.
    """

    regions: tuple[FileRegion, ...]
    log_start_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    first_batch_too_large: bool = False
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    """Those in the regions, by the offset of their marker; None unless the reader asked for committed records."""

    @property
    def size_bytes(self) -> int:
        return sum(region.count for region in self.regions)
