"""Records of `__consumer_offsets`: committed offsets and classic groups. Value v4 of either is the first flexible one."""

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    Array,
    Bytes,
    CoordinatorKey,
    CoordinatorValue,
    Int32,
    Int64,
    String,
    Struct,
    Uuid,
    between,
    since,
    tagged,
)


class OffsetCommitKey(CoordinatorKey, api_key=1, versions="0"):
    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(CoordinatorValue, api_key=1, versions="0-4", flexible="4+"):
    offset: Int64
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: String
    commit_timestamp: Int64
    expire_timestamp: Int64 = between(1, 1, default=-1, ignorable=True)
    topic_id: Uuid = tagged(0, 4, default=ZERO_UUID, ignorable=True)


class LegacyOffsetCommitKey(CoordinatorKey, api_key=0, versions="0"):
    group: String
    topic: String
    partition: Int32


class LegacyOffsetCommitValue(CoordinatorValue, api_key=0, versions="0"):
    offset: Int64
    metadata: String
    commit_timestamp: Int64


class GroupMetadataKey(CoordinatorKey, api_key=2, versions="0"):
    group: String


class MemberMetadata(Struct):
    member_id: String
    group_instance_id: String | None = since(3, default=None, ignorable=True)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = since(1, default=-1, ignorable=True)
    session_timeout: Int32
    subscription: Bytes
    assignment: Bytes


class GroupMetadataValue(CoordinatorValue, api_key=2, versions="0-4", flexible="4+"):
    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)
    members: Array[MemberMetadata]
