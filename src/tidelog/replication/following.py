# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
"""What a replica that follows does with its leader's answers: it appends what it was sent, and cuts what the leader has not.

Each of these is told the epoch of the leader that has answered. Where the replica has another leader since, or leads itself, the
outcome is FENCED_LEADER_EPOCH and nothing has happened.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.model.errors import ErrorCode
from tidelog.replication.roles import Following
from tidelog.storage.append import AppendRefused, AppendRule
from tidelog.storage.checked_batches import check_copied
from tidelog.storage.errors import StorageError
from tidelog.storage.leader_epochs import UNDEFINED_EPOCH_END

if TYPE_CHECKING:
    from tidelog.replication.partition import Partition
    from tidelog.storage.checked_batches import CheckedBatch
    from tidelog.storage.leader_epochs import EpochEndOffset
    from tidelog.storage.partition_log import PartitionLog
    from tidelog.wire.record_batch import BytesLike

logger = logging.getLogger(__name__)

# A member that is reached through its class costs more, and these are every answer's.
_NONE = ErrorCode.NONE
_FOLLOWER = AppendRule.FOLLOWER


def take_fetched(
    partition: Partition, records: BytesLike, leader_epoch: int, high_watermark: int, leader_log_start_offset: int
) -> ErrorCode:
    """Append what the leader of `leader_epoch` answered to a fetch from this log's end, as it is; and learn from the leader
    how far is committed and where its log starts. OFFSET_OUT_OF_RANGE is the leader's to say, and never the outcome here."""
    role = partition.role
    if not isinstance(role, Following) or leader_epoch != partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    following = role
    log = following.log
    try:
        if records:
            refused = _append_fetched(partition, log, records)
            if partition.role is not role:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if refused is not None:
                return _refuse_fetched(partition, following, refused)
            following.refusal = _NONE
        if high_watermark >= 0:
            log.set_high_watermark(min(high_watermark, log.log_end_offset))
            if partition.trace is not None:
                partition.trace.high_watermark_is(log, "leader")
        if log.log_start_offset < leader_log_start_offset <= log.high_watermark:
            log.delete_records_before(leader_log_start_offset)
    except StorageError as error:
        return partition.disk_failed(error)
    partition.changed()
    return _NONE


def _append_fetched(partition: Partition, log: PartitionLog, records: BytesLike) -> AppendRefused | None:
    """None where all of it is appended, or nothing was whole."""
    batches = check_copied(records)
    if isinstance(batches, AppendRefused):
        return batches
    if not batches:
        return None
    outcomes = partition.append(batches, _FOLLOWER)
    if isinstance(outcomes[0], AppendRefused) and _begin_with_whole_batch(partition, log, batches[0], outcomes[0]):
        outcomes = partition.append(batches, _FOLLOWER)
    last = outcomes[len(outcomes) - 1]
    return last if isinstance(last, AppendRefused) else None


def _begin_with_whole_batch(
    partition: Partition, log: PartitionLog, first: CheckedBatch, refused: AppendRefused
) -> bool:
    """Begin anew with the first batch, if the leader's log starts within it, as this one does, which is still empty:
    records were deleted up to there. The start follows the leader's once the batch is there. Returns whether it was so."""
    if refused.error is not ErrorCode.OFFSET_OUT_OF_RANGE or log.log_start_offset != log.log_end_offset:
        return False
    if not first.base_offset < log.log_end_offset <= first.base_offset + first.last_offset_delta:
        return False
    logger.info(
        "%s begins at offset %d: the leader's log starts at %d, within the batch there",
        partition.topic_partition,
        first.base_offset,
        log.log_end_offset,
    )
    log.truncate_fully_and_start_at(first.base_offset)
    return True


def _refuse_fetched(partition: Partition, following: Following, refused: AppendRefused) -> ErrorCode:
    error = refused.error
    if error is not following.refusal:
        # The fetch is tried again and again: what stays as it is has been told.
        logger.warning("%s: what the leader sent is refused: %s", partition.topic_partition, refused)
        following.refusal = error
    return ErrorCode.INVALID_RECORD if error is ErrorCode.OFFSET_OUT_OF_RANGE else error


def truncate_diverged(partition: Partition, leader_end: EpochEndOffset, leader_epoch: int) -> ErrorCode:
    """Cut off what the leader of `leader_epoch` does not have, which says where an epoch ends in its log (KIP-595).

    Where this log has no such epoch, it goes back to the last one before, and the next fetch tells whether that was enough.
    """
    role = partition.role
    if not isinstance(role, Following) or leader_epoch != partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    log = role.log
    own = log.end_offset_for_epoch(leader_end.leader_epoch)
    if own == UNDEFINED_EPOCH_END:
        offset = leader_end.end_offset
    elif own.leader_epoch == leader_end.leader_epoch:
        offset = min(own.end_offset, leader_end.end_offset)
    else:
        offset = own.end_offset
    return _cut(partition, log, max(0, min(offset, log.log_end_offset)))


def restart_within(partition: Partition, leader_start: int, leader_end: int, leader_epoch: int) -> ErrorCode:
    """The leader of `leader_epoch` has nothing at this log's end: cut the log at the leader's end, or, where all of it lies
    before the leader's start, begin anew there."""
    role = partition.role
    if not isinstance(role, Following) or leader_epoch != partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    log = role.log
    if leader_end < log.log_end_offset:
        logger.warning(
            "%s is cut from %d to the leader's %d", partition.topic_partition, log.log_end_offset, leader_end
        )
        return _cut(partition, log, leader_end)
    if leader_start <= log.log_end_offset:
        return _NONE
    try:
        log.truncate_fully_and_start_at(leader_start)
    except StorageError as error:
        return partition.disk_failed(error)
    if partition.trace is not None:
        partition.trace.truncated(log)
    partition.changed()
    return _NONE


def _cut(partition: Partition, log: PartitionLog, offset: int) -> ErrorCode:
    try:
        log.truncate_to(offset)
    except StorageError as error:
        return partition.disk_failed(error)
    if partition.trace is not None:
        partition.trace.truncated(log)
    partition.changed()
    return _NONE
