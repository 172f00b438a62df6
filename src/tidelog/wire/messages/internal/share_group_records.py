"""Records of `__consumer_offsets`: share groups (KIP-932)."""

from tidelog.wire.schema import (
    Array,
    CoordinatorKey,
    CoordinatorValue,
    Int8,
    Int32,
    Int64,
    String,
    Struct,
    Uuid,
    tagged,
)


class ShareGroupMetadataKey(CoordinatorKey, api_key=11, versions="0"):
    group_id: String


class ShareGroupMetadataValue(CoordinatorValue, api_key=11, versions="0", flexible="0+"):
    epoch: Int32
    metadata_hash: Int64


class ShareGroupMemberMetadataKey(CoordinatorKey, api_key=10, versions="0"):
    group_id: String
    member_id: String


class ShareGroupMemberMetadataValue(CoordinatorValue, api_key=10, versions="0", flexible="0+"):
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]


class ShareGroupTargetAssignmentMetadataKey(CoordinatorKey, api_key=12, versions="0"):
    group_id: String


class ShareGroupTargetAssignmentMetadataValue(CoordinatorValue, api_key=12, versions="0", flexible="0+"):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, 0, default=0)


class ShareGroupTargetAssignmentMemberKey(CoordinatorKey, api_key=13, versions="0"):
    group_id: String
    member_id: String


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: Array[Int32]


class ShareGroupTargetAssignmentMemberValue(CoordinatorValue, api_key=13, versions="0", flexible="0+"):
    topic_partitions: Array[TopicPartition]


class ShareGroupCurrentMemberAssignmentKey(CoordinatorKey, api_key=14, versions="0"):
    group_id: String
    member_id: String


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: Array[Int32]


class ShareGroupCurrentMemberAssignmentValue(CoordinatorValue, api_key=14, versions="0", flexible="0+"):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[TopicPartitions]


class ShareGroupStatePartitionMetadataKey(CoordinatorKey, api_key=15, versions="0"):
    group_id: String


class TopicPartitionsInfo(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


class TopicInfo(Struct):
    topic_id: Uuid
    topic_name: String


class ShareGroupStatePartitionMetadataValue(CoordinatorValue, api_key=15, versions="0", flexible="0+"):
    initializing_topics: Array[TopicPartitionsInfo]
    initialized_topics: Array[TopicPartitionsInfo]
    deleting_topics: Array[TopicInfo]
