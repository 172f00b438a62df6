"""From a time to an offset, as a client of a partition may see it: what ListOffsets asks.

The negative timestamps have meanings of their own. Nothing is ever tiered here, so that what lies on this disk is all there is.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER_EPOCH, NO_OFFSET, NO_TIMESTAMP, Offset
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leading
from tidelog.storage.errors import StorageError
from tidelog.storage.fetched import FetchIsolation
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.segment import FoundTimestamp

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_NOT_TIERED = FoundTimestamp(NO_TIMESTAMP, NO_OFFSET, NO_LEADER_EPOCH)


def find_offset(
    partition: Partition,
    timestamp: int,
    isolation: FetchIsolation,
    *,
    current_leader_epoch: int = NO_LEADER_EPOCH,
    leader_only: bool = True,
) -> FoundTimestamp | ErrorCode | None:
    """The offset for a time or for one of the meanings above. None where no record that the caller may see is as young.

    OFFSET_NOT_AVAILABLE in the moment after an election in which the high watermark may still go behind what clients have seen.
    """
    log = partition.log_at(current_leader_epoch, leader_only=leader_only)
    if isinstance(log, ErrorCode):
        return log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.earliest_offset()
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOT_TIERED
    is_behind = isolation is not FetchIsolation.LOG_END and _is_behind_its_epoch(partition)
    end = _visible_end(log, isolation)
    if timestamp == LATEST:
        if is_behind:
            return ErrorCode.OFFSET_NOT_AVAILABLE
        return FoundTimestamp(NO_TIMESTAMP, end, partition.leader_epoch)
    try:
        found = log.offset_for_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    except StorageError as error:
        partition.go_offline(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return ErrorCode.KAFKA_STORAGE_ERROR
    if isinstance(found, ErrorCode) or (found is not None and found.offset < end):
        return found
    return ErrorCode.OFFSET_NOT_AVAILABLE if is_behind else None


def _is_behind_its_epoch(partition: Partition) -> bool:
    role = partition.role
    return isinstance(role, Leading) and role.epoch_start_offset > role.log.high_watermark


def _visible_end(log: PartitionLog, isolation: FetchIsolation) -> Offset:
    if isolation is FetchIsolation.LAST_STABLE_OFFSET:
        return log.last_stable_offset
    return log.high_watermark if isolation is FetchIsolation.HIGH_WATERMARK else log.log_end_offset
