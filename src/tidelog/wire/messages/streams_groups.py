"""StreamsGroupHeartbeat (88), StreamsGroupDescribe (89): Kafka Streams tasks, assigned by the coordinator (KIP-1071).

A member sends only what changed; null and -1 stand for "as before".
"""

from tidelog.wire.schema import Array, Bool, Int8, Int16, Int32, Int64, Request, Response, String, Struct, UInt16


class KeyValue(Struct):
    key: String
    value: String


class TopicInfo(Struct):
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: Array[KeyValue]


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


class Topology(Struct):
    epoch: Int32
    subtopologies: Array[Subtopology]


class TaskIds(Struct):
    subtopology_id: String
    partitions: Array[Int32]


class Endpoint(Struct):
    host: String
    port: UInt16


class TaskOffset(Struct):
    subtopology_id: String
    partition: Int32
    offset: Int64


class StreamsGroupHeartbeatRequest(Request, api_key=88, versions="0", flexible="0+", listeners="broker"):
    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: Array[TaskIds] | None = None
    standby_tasks: Array[TaskIds] | None = None
    warmup_tasks: Array[TaskIds] | None = None
    process_id: String | None = None
    user_endpoint: Endpoint | None = None
    client_tags: Array[KeyValue] | None = None
    task_offsets: Array[TaskOffset] | None = None
    task_end_offsets: Array[TaskOffset] | None = None
    shutdown_application: Bool = False


class Status(Struct):
    status_code: Int8
    status_detail: String


class TopicPartition(Struct):
    topic: String
    partitions: Array[Int32]


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint
    active_partitions: Array[TopicPartition]
    standby_partitions: Array[TopicPartition]


class StreamsGroupHeartbeatResponse(Response, api_key=88, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = None
    member_id: String
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag: Int32
    task_offset_interval_ms: Int32
    status: Array[Status] | None
    active_tasks: Array[TaskIds] | None = None
    standby_tasks: Array[TaskIds] | None = None
    warmup_tasks: Array[TaskIds] | None = None
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: Array[EndpointToPartitions] | None = None


class StreamsGroupDescribeRequest(Request, api_key=89, versions="0", flexible="0+", listeners="broker"):
    group_ids: Array[String]
    include_authorized_operations: Bool


class StreamsGroupDescribeSubtopology(Struct):
    subtopology_id: String
    source_topics: Array[String]
    repartition_sink_topics: Array[String]
    state_changelog_topics: Array[TopicInfo]
    repartition_source_topics: Array[TopicInfo]


class StreamsGroupDescribeTopology(Struct):
    epoch: Int32
    subtopologies: Array[StreamsGroupDescribeSubtopology] | None = None


class Assignment(Struct):
    active_tasks: Array[TaskIds]
    standby_tasks: Array[TaskIds]
    warmup_tasks: Array[TaskIds]


class Member(Struct):
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String
    client_host: String
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = None
    client_tags: Array[KeyValue]
    task_offsets: Array[TaskOffset]
    task_end_offsets: Array[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: Bool


class DescribedGroup(Struct):
    error_code: Int16
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    topology: StreamsGroupDescribeTopology | None = None
    members: Array[Member]
    authorized_operations: Int32 = -2147483648


class StreamsGroupDescribeResponse(Response, api_key=89, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    groups: Array[DescribedGroup]
