"""Fetch (1): record batches from an offset on, for consumers and followers; of the metadata log as well.

v4 isolation level · v5 log start offset · v7 sessions that name only what changed (KIP-227) · v9 leader epoch
v10 zstd · v11 nearest replica (KIP-392) · v12 diverging epochs and the current leader · v13 topics by id
v14 offset moved to tiered storage · v15 replica and broker epoch as a tagged struct
v16 the leader's endpoint (KIP-951) · v17 replica directory · v18 high watermark
"""

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    INT32_MAX,
    INT64_MAX,
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    since,
    tagged,
    until,
)


class ReplicaState(Struct):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = tagged(0, 17, default=ZERO_UUID, ignorable=True)
    high_watermark: Int64 = tagged(1, 18, default=INT64_MAX, ignorable=True)


class FetchTopic(Struct):
    topic: String = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partitions: Array[FetchPartition]


class ForgottenTopic(Struct):
    topic: String = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partitions: Array[Int32]


class FetchRequest(Request, api_key=1, versions="4-18", flexible="12+", listeners="broker controller"):
    cluster_id: String | None = tagged(0, 12, default=None, ignorable=True)
    replica_id: Int32 = until(14, default=-1)
    replica_state: ReplicaState = tagged(1, 15, default_factory=ReplicaState)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = INT32_MAX
    isolation_level: Int8 = 0
    session_id: Int32 = since(7, default=0, ignorable=True)
    session_epoch: Int32 = since(7, default=-1, ignorable=True)
    topics: Array[FetchTopic]
    forgotten_topics_data: Array[ForgottenTopic] = since(7)
    rack_id: String = since(11, default="", ignorable=True)


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = tagged(0, 12, default_factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = tagged(1, 12, default_factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = tagged(2, 12, default_factory=SnapshotId)
    aborted_transactions: Array[AbortedTransaction] | None
    preferred_read_replica: Int32 = since(11, default=-1)
    records: Records | None


class FetchableTopicResponse(Struct):
    topic: String = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partitions: Array[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


class FetchResponse(Response, api_key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: Int32
    error_code: Int16 = since(7, ignorable=True)
    session_id: Int32 = since(7, default=0)
    responses: Array[FetchableTopicResponse]
    node_endpoints: Array[NodeEndpoint] = tagged(0, 16, default=[])
