"""Records of `__consumer_offsets`: consumer groups of KIP-848.

Since 4.1 a hash in the group's record stands for the partition metadata (KIP-1101); its records remain to be read.
"""

from tidelog.wire.schema import (
    Array,
    Bytes,
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


class ConsumerGroupMetadataKey(CoordinatorKey, api_key=3, versions="0"):
    group_id: String


class ConsumerGroupMetadataValue(CoordinatorValue, api_key=3, versions="0", flexible="0+"):
    epoch: Int32
    metadata_hash: Int64 = tagged(0, 0, default=0)


class ConsumerGroupPartitionMetadataKey(CoordinatorKey, api_key=4, versions="0"):
    group_id: String


class PartitionMetadata(Struct):
    partition: Int32
    racks: Array[String]


class TopicMetadata(Struct):
    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: Array[PartitionMetadata]


class ConsumerGroupPartitionMetadataValue(CoordinatorValue, api_key=4, versions="0", flexible="0+"):
    topics: Array[TopicMetadata]


class ConsumerGroupMemberMetadataKey(CoordinatorKey, api_key=5, versions="0"):
    group_id: String
    member_id: String


class ClassicProtocol(Struct):
    name: String
    metadata: Bytes


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32
    supported_protocols: Array[ClassicProtocol]


class ConsumerGroupMemberMetadataValue(CoordinatorValue, api_key=5, versions="0", flexible="0+"):
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None
    classic_member_metadata: ClassicMemberMetadata | None = tagged(0, 0, default_factory=ClassicMemberMetadata)


class ConsumerGroupTargetAssignmentMetadataKey(CoordinatorKey, api_key=6, versions="0"):
    group_id: String


class ConsumerGroupTargetAssignmentMetadataValue(CoordinatorValue, api_key=6, versions="0", flexible="0+"):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, 0, default=0)


class ConsumerGroupTargetAssignmentMemberKey(CoordinatorKey, api_key=7, versions="0"):
    group_id: String
    member_id: String


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: Array[Int32]


class ConsumerGroupTargetAssignmentMemberValue(CoordinatorValue, api_key=7, versions="0", flexible="0+"):
    topic_partitions: Array[TopicPartition]


class ConsumerGroupCurrentMemberAssignmentKey(CoordinatorKey, api_key=8, versions="0"):
    group_id: String
    member_id: String


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: Array[Int32]
    assignment_epochs: Array[Int32] | None = tagged(0, 0, default=[])


class ConsumerGroupCurrentMemberAssignmentValue(CoordinatorValue, api_key=8, versions="0", flexible="0+"):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: Array[TopicPartitions]
    partitions_pending_revocation: Array[TopicPartitions]


class ConsumerGroupRegularExpressionKey(CoordinatorKey, api_key=16, versions="0"):
    group_id: String
    regular_expression: String


class ConsumerGroupRegularExpressionValue(CoordinatorValue, api_key=16, versions="0", flexible="0+"):
    topics: Array[String]
    version: Int64
    timestamp: Int64
