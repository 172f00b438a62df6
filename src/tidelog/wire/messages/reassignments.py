"""ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46): who leads, and where.

ElectLeaders: v1 unclean elections as well (KIP-460)
AlterPartitionReassignments: v1 may forbid another replication factor
"""

from tidelog.wire.schema import Array, Bool, Int8, Int16, Int32, Request, Response, String, Struct, since


class TopicPartitions(Struct):
    topic: String
    partitions: Array[Int32]


class ElectLeadersRequest(Request, api_key=43, versions="0-2", flexible="2+", listeners="broker controller"):
    election_type: Int8 = since(1)
    topic_partitions: Array[TopicPartitions] | None
    timeout_ms: Int32 = 60000


class PartitionResult(Struct):
    partition_id: Int32
    error_code: Int16
    error_message: String | None


class ReplicaElectionResult(Struct):
    topic: String
    partition_result: Array[PartitionResult]


class ElectLeadersResponse(Response, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32
    error_code: Int16 = since(1)
    replica_election_results: Array[ReplicaElectionResult]


class ReassignablePartition(Struct):
    partition_index: Int32
    replicas: Array[Int32] | None = None


class ReassignableTopic(Struct):
    name: String
    partitions: Array[ReassignablePartition]


class AlterPartitionReassignmentsRequest(
    Request, api_key=45, versions="0-1", flexible="0+", listeners="broker controller"
):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = since(1, default=True)
    topics: Array[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None


class ReassignableTopicResponse(Struct):
    name: String
    partitions: Array[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Response, api_key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    allow_replication_factor_change: Bool = since(1, default=True, ignorable=True)
    error_code: Int16
    error_message: String | None
    responses: Array[ReassignableTopicResponse]


class ListPartitionReassignmentsTopics(Struct):
    name: String
    partition_indexes: Array[Int32]


class ListPartitionReassignmentsRequest(
    Request, api_key=46, versions="0", flexible="0+", listeners="broker controller"
):
    timeout_ms: Int32 = 60000
    topics: Array[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: Int32
    replicas: Array[Int32]
    adding_replicas: Array[Int32]
    removing_replicas: Array[Int32]


class OngoingTopicReassignment(Struct):
    name: String
    partitions: Array[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Response, api_key=46, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None
    topics: Array[OngoingTopicReassignment]
