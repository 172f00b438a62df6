"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37), DescribeTopicPartitions (75): the life of topics.

CreateTopics: v4 the broker's default counts (KIP-464) · v5 configs in the answer (KIP-525) · v6 quota error (KIP-599)
v7 topic id
DeleteTopics: v3 deletion may be disabled · v5 error text, quota error · v6 topics by id
CreatePartitions: v3 quota error
DescribeTopicPartitions: pages with a cursor, eligible leader replicas (KIP-966)
"""

from tidelog.wire.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    field,
    since,
    tagged,
    until,
)


class CreatableReplicaAssignment(Struct):
    partition_index: Int32
    broker_ids: Array[Int32]


class CreatableTopicConfig(Struct):
    name: String
    value: String | None


class CreatableTopic(Struct):
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: Array[CreatableReplicaAssignment]
    configs: Array[CreatableTopicConfig]


class CreateTopicsRequest(Request, api_key=19, versions="2-7", flexible="5+", listeners="broker controller"):
    topics: Array[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatableTopicConfigs(Struct):
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


class CreatableTopicResult(Struct):
    name: String
    topic_id: Uuid = since(7, ignorable=True)
    error_code: Int16
    error_message: String | None
    topic_config_error_code: Int16 = tagged(0, 5, default=0, ignorable=True)
    num_partitions: Int32 = since(5, default=-1, ignorable=True)
    replication_factor: Int16 = since(5, default=-1, ignorable=True)
    configs: Array[CreatableTopicConfigs] | None = since(5, ignorable=True)


class CreateTopicsResponse(Response, api_key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: Int32
    topics: Array[CreatableTopicResult]


class DeleteTopicState(Struct):
    name: String | None = None
    topic_id: Uuid


class DeleteTopicsRequest(Request, api_key=20, versions="1-6", flexible="4+", listeners="broker controller"):
    topics: Array[DeleteTopicState] = since(6)
    topic_names: Array[String] = until(5, default=[], ignorable=True)
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    name: String | None = field(nullable="6+")
    topic_id: Uuid = since(6, ignorable=True)
    error_code: Int16
    error_message: String | None = since(5, default=None, ignorable=True)


class DeleteTopicsResponse(Response, api_key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: Int32
    responses: Array[DeletableTopicResult]


class CreatePartitionsAssignment(Struct):
    broker_ids: Array[Int32]


class CreatePartitionsTopic(Struct):
    name: String
    count: Int32
    assignments: Array[CreatePartitionsAssignment] | None


class CreatePartitionsRequest(Request, api_key=37, versions="0-3", flexible="2+", listeners="broker controller"):
    topics: Array[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class CreatePartitionsTopicResult(Struct):
    name: String
    error_code: Int16
    error_message: String | None = None


class CreatePartitionsResponse(Response, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: Int32
    results: Array[CreatePartitionsTopicResult]


class TopicRequest(Struct):
    name: String


class Cursor(Struct):
    topic_name: String
    partition_index: Int32


class DescribeTopicPartitionsRequest(Request, api_key=75, versions="0", flexible="0+", listeners="broker"):
    topics: Array[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: Array[Int32]
    isr_nodes: Array[Int32]
    eligible_leader_replicas: Array[Int32] | None = None
    last_known_elr: Array[Int32] | None = None
    offline_replicas: Array[Int32]


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16
    name: String | None
    topic_id: Uuid
    is_internal: Bool = False
    partitions: Array[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = -2147483648


class DescribeTopicPartitionsResponse(Response, api_key=75, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    topics: Array[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
