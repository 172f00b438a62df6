"""Records of `__consumer_offsets`: streams groups (KIP-1071)."""

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
    UInt16,
    tagged,
)


class StreamsGroupMetadataKey(CoordinatorKey, api_key=17, versions="0"):
    group_id: String


class LastAssignmentConfig(Struct):
    key: String
    value: String


class StreamsGroupMetadataValue(CoordinatorValue, api_key=17, versions="0", flexible="0+"):
    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Int32 = tagged(0, 0, default=-1)
    last_assignment_configs: Array[LastAssignmentConfig] | None = tagged(1, 0, default=[])


class StreamsGroupMemberMetadataKey(CoordinatorKey, api_key=19, versions="0"):
    group_id: String
    member_id: String


class Endpoint(Struct):
    host: String
    port: UInt16


class KeyValue(Struct):
    key: String
    value: String


class StreamsGroupMemberMetadataValue(CoordinatorValue, api_key=19, versions="0", flexible="0+"):
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = None
    client_tags: Array[KeyValue]


class StreamsGroupTargetAssignmentMetadataKey(CoordinatorKey, api_key=20, versions="0"):
    group_id: String


class StreamsGroupTargetAssignmentMetadataValue(CoordinatorValue, api_key=20, versions="0", flexible="0+"):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, 0, default=0)


class StreamsGroupTargetAssignmentMemberKey(CoordinatorKey, api_key=21, versions="0"):
    group_id: String
    member_id: String


class TaskIds(Struct):
    subtopology_id: String
    partitions: Array[Int32]


class StreamsGroupTargetAssignmentMemberValue(CoordinatorValue, api_key=21, versions="0", flexible="0+"):
    active_tasks: Array[TaskIds]
    standby_tasks: Array[TaskIds]
    warmup_tasks: Array[TaskIds]


class StreamsGroupCurrentMemberAssignmentKey(CoordinatorKey, api_key=22, versions="0"):
    group_id: String
    member_id: String


class StreamsGroupCurrentMemberAssignmentValueTaskIds(Struct):
    subtopology_id: String
    partitions: Array[Int32]
    assignment_epochs: Array[Int32] | None = tagged(0, 0, default=[])


class StreamsGroupCurrentMemberAssignmentValue(CoordinatorValue, api_key=22, versions="0", flexible="0+"):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    standby_tasks: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    warmup_tasks: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    active_tasks_pending_revocation: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    standby_tasks_pending_revocation: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds]
    warmup_tasks_pending_revocation: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds]


class StreamsGroupTopologyKey(CoordinatorKey, api_key=23, versions="0"):
    group_id: String


class TopicConfig(Struct):
    key: String
    value: String


class TopicInfo(Struct):
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[TopicConfig]


class CopartitionGroup(Struct):
    source_topics: Array[Int16]
    source_topic_regex: Array[Int16]
    repartition_source_topics: Array[Int16]


class Subtopology(Struct):
    subtopology_id: String
    source_topics: Array[String]
    source_topic_regex: Array[String]
    state_changelog_topics: Array[TopicInfo]
    repartition_sink_topics: Array[String]
    repartition_source_topics: Array[TopicInfo]
    copartition_groups: Array[CopartitionGroup]


class StreamsGroupTopologyValue(CoordinatorValue, api_key=23, versions="0", flexible="0+"):
    epoch: Int32
    subtopologies: Array[Subtopology]
