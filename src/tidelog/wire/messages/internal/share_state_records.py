"""Records of `__share_group_state`: the deliveries of a share partition, whole and in steps (KIP-932)."""

from tidelog.wire.schema import (
    Array,
    CoordinatorKey,
    CoordinatorValue,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Struct,
    Uuid,
    tagged,
)


class ShareSnapshotKey(CoordinatorKey, api_key=0, versions="0"):
    group_id: String
    topic_id: Uuid
    partition: Int32


class StateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ShareSnapshotValue(CoordinatorValue, api_key=0, versions="0", flexible="0+"):
    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = tagged(0, 0, default=-1)
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: Array[StateBatch]


class ShareUpdateKey(CoordinatorKey, api_key=1, versions="0"):
    group_id: String
    topic_id: Uuid
    partition: Int32


class ShareUpdateValue(CoordinatorValue, api_key=1, versions="0", flexible="0+"):
    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = tagged(0, 0, default=-1)
    state_batches: Array[StateBatch]
