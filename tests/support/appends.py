"""Appends of bytes, as those who write to a log do them: checked, then by the rule of whoever writes.

info = accepted(as_leader(log, batch, epoch))
"""

from __future__ import annotations

from tidelog.replication.partition import ALL_IN_SYNC, Partition
from tidelog.storage.append import AppendInfo, AppendOutcome, AppendRefused, AppendRule
from tidelog.storage.checked_batches import CheckedBatch, built_batch, check_copied, check_produced
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.producer_replay import marker_of
from tidelog.wire.record_batch import BytesLike, read_header

Appended = AppendInfo | AppendRefused


def checked(records: BytesLike, guard: int | None = None) -> CheckedBatch:
    """A client's batch, of which there is nothing to be said. It is copied, so that it can be appended again."""
    batch = check_produced(bytearray(records))
    assert isinstance(batch, CheckedBatch), batch
    batch.guard = guard
    return batch


def own_batch(records: BytesLike, guard: int | None = None, transaction_version: int = 0) -> CheckedBatch:
    """A batch, or marker, that a coordinator has made."""
    header = read_header(records)
    marker = marker_of(header, records) if header.is_control and header.producer_id >= 0 else None
    if marker is not None:
        marker = marker._replace(transaction_version=transaction_version)
    return built_batch(
        bytearray(records),
        header.record_count,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        guard,
        marker,
    )


def own_rule(batch: CheckedBatch) -> AppendRule:
    return AppendRule.MARKER if batch.is_control else AppendRule.COORDINATOR


def info_of(log: PartitionLog, batch: CheckedBatch, outcome: AppendOutcome) -> Appended:
    """What became of a batch, with all that can be told of it."""
    if not isinstance(outcome, int):
        return outcome
    last_offset = outcome + batch.last_offset_delta
    return AppendInfo(outcome, last_offset, log.log_start_offset)  # type: ignore[arg-type]


def as_leader(log: PartitionLog, records: BytesLike, leader_epoch: int, *, guard: int | None = None) -> Appended:
    """Append what a client has sent, if it may."""
    batch = check_produced(records)
    if isinstance(batch, AppendRefused):
        return batch
    batch.guard = guard
    return info_of(log, batch, log.append([batch], AppendRule.LEADER, leader_epoch)[0])


def as_coordinator(
    log: PartitionLog, records: BytesLike, leader_epoch: int, *, transaction_version: int = 0
) -> Appended:
    """Append what a coordinator has made: a marker, or records."""
    batch = own_batch(records, transaction_version=transaction_version)
    return info_of(log, batch, log.append([batch], own_rule(batch), leader_epoch)[0])


def as_follower(log: PartitionLog, records: BytesLike, rule: AppendRule = AppendRule.FOLLOWER) -> Appended:
    """Append what a leader has sent."""
    batches = check_copied(records)
    if isinstance(batches, AppendRefused):
        return batches
    if not batches:
        return AppendInfo(log.log_end_offset, log.log_end_offset - 1, log.log_start_offset)  # type: ignore[arg-type]
    outcomes = log.append(batches, rule)
    first, last = outcomes[0], info_of(log, batches[-1], outcomes[-1])
    if isinstance(last, AppendRefused) or not isinstance(first, int):
        return last
    return AppendInfo(first, last.last_offset, log.log_start_offset)  # type: ignore[arg-type]


def produced(partition: Partition, records: BytesLike, required_acks: int = ALL_IN_SYNC) -> Appended:
    """What a client's batch meets at a partition."""
    batch = check_produced(records)
    if isinstance(batch, AppendRefused):
        return batch
    return _of(partition, batch, AppendRule.LEADER, required_acks)


def coordinated(partition: Partition, records: BytesLike, required_acks: int = ALL_IN_SYNC) -> Appended:
    """What a coordinator's marker or records meet at a partition."""
    batch = own_batch(records)
    return _of(partition, batch, own_rule(batch), required_acks)


def _of(partition: Partition, batch: CheckedBatch, rule: AppendRule, required_acks: int) -> Appended:
    outcome = partition.append([batch], rule, required_acks)[0]
    log = partition.log
    if isinstance(outcome, AppendRefused):
        return outcome
    assert log is not None
    return info_of(log, batch, outcome)
