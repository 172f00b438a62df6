"""By which rule batches enter a log, and what an append answers.

    rule           whose batches                            place in the log         producers
    LEADER         a client's, for the leader               given by the log         judged in full: sequence, epoch, transaction
    COORDINATOR    a coordinator's own records              given by the log         their epochs: there are no sequences
    MARKER         the end of a transaction                 given by the log         epochs of producer and coordinator
    FOLLOWER       the leader's, as they are                theirs, rising           not judged: the leader has done that
    RAFT           the metadata quorum's, as it decided     theirs, without a gap    not judged

What a batch itself must be is in `checked_batches`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

import msgspec

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, NO_TIMESTAMP, Offset, TimestampMs

if TYPE_CHECKING:
    from tidelog.storage.checked_batches import CheckedBatch

OFFSET_MAX = 2**63 - 1

# What is appended while somebody waits for it is kept in memory for that read, up to this size: beyond it, `sendfile` is cheaper.
FRESH_BYTES_MAX = 16 * 1024


class AppendRule(Enum):
    """Whose batches are appended, and so who gives them their place and how much of their producers is judged."""

    LEADER = auto()
    FOLLOWER = auto()
    COORDINATOR = auto()
    MARKER = auto()
    RAFT = auto()


class AppendInfo(msgspec.Struct, frozen=True, gc=False):
    """What was appended. Of a duplicate: what was appended the first time."""

    first_offset: Offset
    last_offset: Offset
    log_start_offset: Offset
    append_time_ms: TimestampMs = NO_TIMESTAMP
    """When, for a topic whose records get the time of their append; NO_TIMESTAMP otherwise."""
    is_duplicate: bool = False


class AppendRefused(msgspec.Struct, frozen=True, gc=False):
    """Nothing was appended, and why."""

    error: ErrorCode
    reason: str


AppendOutcome = int | AppendInfo | AppendRefused
"""Of one batch: its first offset; more than that, where it is a duplicate or has got the time of its append; or why not."""


def refuse_to_place(batch: CheckedBatch, offset: int, segment_bytes: int) -> AppendRefused:
    """Why a batch can have no place at `offset`: its offsets would run over, or it fits into no segment."""
    if batch.last_offset_delta >= OFFSET_MAX - offset:
        reason = f"the offsets of the batch at {offset} run over the largest offset there is"
        return AppendRefused(ErrorCode.CORRUPT_MESSAGE, reason)
    reason = f"{batch.size_bytes} bytes do not fit into one segment of {segment_bytes} bytes"
    return AppendRefused(ErrorCode.RECORD_LIST_TOO_LARGE, reason)


def refuse_epochs(batches: list[CheckedBatch], latest_epoch: int | None) -> AppendRefused | None:
    """Why batches cannot follow a log whose last one is of `latest_epoch`: epochs do not fall. None: they can."""
    epoch = NO_LEADER_EPOCH if latest_epoch is None else latest_epoch
    for batch in batches:
        if batch.leader_epoch < epoch:
            reason = f"the batch at offset {batch.base_offset} is of epoch {batch.leader_epoch}, after {epoch}"
            return AppendRefused(ErrorCode.INVALID_RECORD, reason)
        epoch = batch.leader_epoch
    return None
