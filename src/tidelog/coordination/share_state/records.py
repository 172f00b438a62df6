"""The records of `__share_group_state`: a state as a whole, what has changed of it, and its end."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.coordination import decision
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.coordination.share_state.share_state import INITIAL_EPOCH, ShareState
from tidelog.coordination.share_state.state_batches import StateBatch
from tidelog.model.ids import PartitionIndex, TopicId
from tidelog.wire.internal_records import CoordinatorRecord
from tidelog.wire.messages.internal import share_state_records as written
from tidelog.wire.messages.internal.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

_VALUE_VERSION = 0


def snapshot_record(key: SharePartitionKey, state: ShareState) -> CoordinatorRecord:
    """All of a state. Nothing that was written of it before is needed any more."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp_ms,
        write_timestamp=state.write_timestamp_ms,
        state_batches=_to_record(state.batches),
    )
    return decision.record(_snapshot_key(key), value, _VALUE_VERSION)


def update_record(
    key: SharePartitionKey,
    snapshot_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Iterable[StateBatch],
) -> CoordinatorRecord:
    """What is different since the last snapshot and the updates after it."""
    value = ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=delivery_complete_count,
        state_batches=_to_record(batches),
    )
    update_key = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return decision.record(update_key, value, _VALUE_VERSION)


def state_tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    """The end of a state."""
    return decision.tombstone(_snapshot_key(key))


def state_of_snapshot(value: ShareSnapshotValue) -> ShareState:
    """The state that a snapshot holds."""
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=batches_of_record(value.state_batches),
        create_timestamp_ms=value.create_timestamp,
        write_timestamp_ms=value.write_timestamp,
    )


def state_of_update(value: ShareUpdateValue) -> ShareState:
    """The state that an update alone comes to, where its snapshot is not in the log any more."""
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=INITIAL_EPOCH,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=batches_of_record(value.state_batches),
    )


def batches_of_record(batches: Iterable[written.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state) for each in batches
    )


def key_of(key: ShareSnapshotKey | ShareUpdateKey) -> SharePartitionKey:
    return SharePartitionKey(key.group_id, TopicId(key.topic_id), PartitionIndex(key.partition))


def _snapshot_key(key: SharePartitionKey) -> ShareSnapshotKey:
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def _to_record(batches: Iterable[StateBatch]) -> list[written.StateBatch]:
    return [
        written.StateBatch(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            delivery_state=each.delivery_state,
            delivery_count=each.delivery_count,
        )
        for each in batches
    ]
