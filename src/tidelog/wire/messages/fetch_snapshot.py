"""FetchSnapshot (59): a piece of a snapshot of the metadata log, for a replica that is too far behind.

v1 replica directory, the leader's endpoint (KIP-853)
"""

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    INT32_MAX,
    Array,
    Int16,
    Int32,
    Int64,
    Records,
    Request,
    Response,
    String,
    Struct,
    UInt16,
    Uuid,
    tagged,
)


class SnapshotId(Struct):
    end_offset: Int64
    epoch: Int32


class PartitionSnapshot(Struct):
    partition: Int32
    current_leader_epoch: Int32
    snapshot_id: SnapshotId
    position: Int64
    replica_directory_id: Uuid = tagged(0, 1, default=ZERO_UUID, ignorable=True)


class TopicSnapshot(Struct):
    name: String
    partitions: Array[PartitionSnapshot]


class FetchSnapshotRequest(Request, api_key=59, versions="0-1", flexible="0+", listeners="controller"):
    cluster_id: String | None = tagged(0, 0, default=None)
    replica_id: Int32 = -1
    max_bytes: Int32 = INT32_MAX
    topics: Array[TopicSnapshot]


class LeaderIdAndEpoch(Struct):
    leader_id: Int32
    leader_epoch: Int32


class FetchSnapshotPartitionSnapshot(Struct):
    index: Int32
    error_code: Int16
    snapshot_id: SnapshotId
    current_leader: LeaderIdAndEpoch = tagged(0, 0, default_factory=LeaderIdAndEpoch)
    size: Int64
    position: Int64
    unaligned_records: Records


class FetchSnapshotTopicSnapshot(Struct):
    name: String
    partitions: Array[FetchSnapshotPartitionSnapshot]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: UInt16


class FetchSnapshotResponse(Response, api_key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    topics: Array[FetchSnapshotTopicSnapshot]
    node_endpoints: Array[NodeEndpoint] = tagged(0, 1, default=[])
