"""Where a reader's log and this one have parted: the answer to a fetch that names the last epoch the reader has (KIP-595)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.storage.leader_epochs import UNDEFINED_EPOCH_END

if TYPE_CHECKING:
    from tidelog.model.ids import Offset
    from tidelog.storage.leader_epochs import EpochEndOffset
    from tidelog.storage.partition_log import PartitionLog


class Diverged(NamedTuple):
    """The reader's last epoch ended elsewhere in this log: it has to go back to there and cut what it has beyond."""

    end: EpochEndOffset
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset


def divergence(log: PartitionLog, offset: int, last_fetched_epoch: int) -> Diverged | ErrorCode | None:
    """What a reader is told that has `last_fetched_epoch` up to `offset`, where this log does not. None: it may go on."""
    end = log.end_offset_for_epoch(last_fetched_epoch)
    if end == UNDEFINED_EPOCH_END or offset < log.log_start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if end.leader_epoch < last_fetched_epoch or end.end_offset < offset:
        return Diverged(end, log.high_watermark, log.last_stable_offset, log.log_start_offset)
    return None
