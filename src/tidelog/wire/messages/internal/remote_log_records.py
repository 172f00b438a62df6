"""Records of `__remote_log_metadata`: which segments tiered storage holds (KIP-405)."""

from tidelog.wire.schema import Array, Bool, Bytes, Int8, Int32, Int64, MetadataRecord, String, Struct, Uuid, tagged


class TopicIdPartitionEntry(Struct):
    name: String
    id: Uuid
    partition: Int32


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry
    id: Uuid


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: Int32
    offset: Int64


class RemoteLogSegmentMetadataRecord(MetadataRecord, api_key=0, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentIdEntry
    start_offset: Int64
    end_offset: Int64
    broker_id: Int32
    max_timestamp_ms: Int64
    event_timestamp_ms: Int64
    segment_leader_epochs: Array[SegmentLeaderEpochEntry]
    segment_size_in_bytes: Int32
    custom_metadata: Bytes | None = None
    remote_log_segment_state: Int8
    txn_index_empty: Bool = tagged(0, 0, default=False)


class RemoteLogSegmentMetadataUpdateRecord(MetadataRecord, api_key=1, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentIdEntry
    broker_id: Int32
    event_timestamp_ms: Int64
    custom_metadata: Bytes | None = None
    remote_log_segment_state: Int8


class RemotePartitionDeleteMetadataRecord(MetadataRecord, api_key=2, versions="0", flexible="0+"):
    topic_id_partition: TopicIdPartitionEntry
    broker_id: Int32
    event_timestamp_ms: Int64
    remote_partition_delete_state: Int8


class RemoteLogSegmentMetadataSnapshotRecord(MetadataRecord, api_key=3, versions="0", flexible="0+"):
    segment_id: Uuid
    start_offset: Int64
    end_offset: Int64
    broker_id: Int32
    max_timestamp_ms: Int64
    event_timestamp_ms: Int64
    segment_leader_epochs: Array[SegmentLeaderEpochEntry]
    segment_size_in_bytes: Int32
    custom_metadata: Bytes | None = None
    remote_log_segment_state: Int8
    txn_index_empty: Bool = tagged(0, 0, default=False)
