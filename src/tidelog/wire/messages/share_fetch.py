"""ShareFetch (78), ShareAcknowledge (79): acquire records, then accept, release or reject them (KIP-932).

v1 is the first stable version · v2 renewal of a lock (KIP-1222), and in ShareFetch how to acquire (KIP-1206)
"""

from tidelog.wire.schema import (
    INT32_MAX,
    Array,
    Bool,
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
)


class AcknowledgementBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: Array[Int8]


class FetchPartition(Struct):
    partition_index: Int32
    acknowledgement_batches: Array[AcknowledgementBatch]


class FetchTopic(Struct):
    topic_id: Uuid
    partitions: Array[FetchPartition]


class ForgottenTopic(Struct):
    topic_id: Uuid
    partitions: Array[Int32]


class ShareFetchRequest(Request, api_key=78, versions="1-2", flexible="1+", listeners="broker"):
    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = INT32_MAX
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = since(2, default=0, ignorable=True)
    is_renew_ack: Bool = since(2, default=False)
    topics: Array[FetchTopic]
    forgotten_topics_data: Array[ForgottenTopic]


class LeaderIdAndEpoch(Struct):
    leader_id: Int32
    leader_epoch: Int32


class AcquiredRecords(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = None
    acknowledge_error_code: Int16
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch
    records: Records
    acquired_records: Array[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid
    partitions: Array[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


class ShareFetchResponse(Response, api_key=78, versions="1-2", flexible="1+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32
    responses: Array[ShareFetchableTopicResponse]
    node_endpoints: Array[NodeEndpoint]


class AcknowledgePartition(Struct):
    partition_index: Int32
    acknowledgement_batches: Array[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    topic_id: Uuid
    partitions: Array[AcknowledgePartition]


class ShareAcknowledgeRequest(Request, api_key=79, versions="1-2", flexible="1+", listeners="broker"):
    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    is_renew_ack: Bool = since(2, default=False)
    topics: Array[AcknowledgeTopic]


class ShareAcknowledgePartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid
    partitions: Array[ShareAcknowledgePartitionData]


class ShareAcknowledgeResponse(Response, api_key=79, versions="1-2", flexible="1+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = since(2, ignorable=True)
    responses: Array[ShareAcknowledgeTopicResponse]
    node_endpoints: Array[NodeEndpoint]
