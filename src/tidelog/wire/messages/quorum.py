"""Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54), DescribeQuorum (55): who leads the metadata log.

Vote: v1 voters by directory id (KIP-853) · v2 pre-vote (KIP-996)
BeginQuorumEpoch, EndQuorumEpoch: v1 directory ids, endpoints
DescribeQuorum: v1 when a replica last fetched (KIP-836) · v2 directory ids, nodes, error texts (KIP-853)
"""

from tidelog.wire.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    String,
    Struct,
    UInt16,
    Uuid,
    since,
    tagged,
    until,
)


class PartitionData(Struct):
    partition_index: Int32
    replica_epoch: Int32
    replica_id: Int32
    replica_directory_id: Uuid = since(1, ignorable=True)
    voter_directory_id: Uuid = since(1, ignorable=True)
    last_offset_epoch: Int32
    last_offset: Int64
    pre_vote: Bool = since(2)


class TopicData(Struct):
    topic_name: String
    partitions: Array[PartitionData]


class VoteRequest(Request, api_key=52, versions="0-2", flexible="0+", listeners="controller"):
    cluster_id: String | None = None
    voter_id: Int32 = since(1, default=-1, ignorable=True)
    topics: Array[TopicData]


class VotePartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32
    vote_granted: Bool


class VoteTopicData(Struct):
    topic_name: String
    partitions: Array[VotePartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: UInt16


class VoteResponse(Response, api_key=52, versions="0-2", flexible="0+"):
    error_code: Int16
    topics: Array[VoteTopicData]
    node_endpoints: Array[NodeEndpoint] = tagged(0, 1, default=[])


class BeginQuorumEpochPartitionData(Struct):
    partition_index: Int32
    voter_directory_id: Uuid = since(1, ignorable=True)
    leader_id: Int32
    leader_epoch: Int32


class BeginQuorumEpochTopicData(Struct):
    topic_name: String
    partitions: Array[BeginQuorumEpochPartitionData]


class LeaderEndpoint(Struct):
    name: String
    host: String
    port: UInt16


class BeginQuorumEpochRequest(Request, api_key=53, versions="0-1", flexible="1+", listeners="controller"):
    cluster_id: String | None = None
    voter_id: Int32 = since(1, default=-1, ignorable=True)
    topics: Array[BeginQuorumEpochTopicData]
    leader_endpoints: Array[LeaderEndpoint] = since(1, ignorable=True)


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: String
    partitions: Array[BeginQuorumEpochResponsePartitionData]


class BeginQuorumEpochResponse(Response, api_key=53, versions="0-1", flexible="1+"):
    error_code: Int16
    topics: Array[BeginQuorumEpochResponseTopicData]
    node_endpoints: Array[NodeEndpoint] = tagged(0, 1, default=[])


class ReplicaInfo(Struct):
    candidate_id: Int32
    candidate_directory_id: Uuid


class EndQuorumEpochPartitionData(Struct):
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32
    preferred_successors: Array[Int32] = until(0, default=[], ignorable=True)
    preferred_candidates: Array[ReplicaInfo] = since(1, ignorable=True)


class EndQuorumEpochTopicData(Struct):
    topic_name: String
    partitions: Array[EndQuorumEpochPartitionData]


class EndQuorumEpochRequest(Request, api_key=54, versions="0-1", flexible="1+", listeners="controller"):
    cluster_id: String | None = None
    topics: Array[EndQuorumEpochTopicData]
    leader_endpoints: Array[LeaderEndpoint] = since(1, ignorable=True)


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    leader_id: Int32
    leader_epoch: Int32


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: String
    partitions: Array[EndQuorumEpochResponsePartitionData]


class EndQuorumEpochResponse(Response, api_key=54, versions="0-1", flexible="1+"):
    error_code: Int16
    topics: Array[EndQuorumEpochResponseTopicData]
    node_endpoints: Array[NodeEndpoint] = tagged(0, 1, default=[])


class DescribeQuorumPartitionData(Struct):
    partition_index: Int32


class DescribeQuorumTopicData(Struct):
    topic_name: String
    partitions: Array[DescribeQuorumPartitionData]


class DescribeQuorumRequest(Request, api_key=55, versions="0-2", flexible="0+", listeners="broker controller"):
    topics: Array[DescribeQuorumTopicData]


class ReplicaState(Struct):
    replica_id: Int32
    replica_directory_id: Uuid = since(2)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = since(1, default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = since(2, ignorable=True)
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: Array[ReplicaState]
    observers: Array[ReplicaState]


class DescribeQuorumResponseTopicData(Struct):
    topic_name: String
    partitions: Array[DescribeQuorumResponsePartitionData]


class Listener(Struct):
    name: String
    host: String
    port: UInt16


class Node(Struct):
    node_id: Int32
    listeners: Array[Listener]


class DescribeQuorumResponse(Response, api_key=55, versions="0-2", flexible="0+"):
    error_code: Int16
    error_message: String | None = since(2, ignorable=True)
    topics: Array[DescribeQuorumResponseTopicData]
    nodes: Array[Node] = since(2)
