"""Produce (0): append record batches to partitions.

v3 record batches of magic 2, transactional id · v5 log start offset · v7 zstd
v8 which records were refused, and why (KIP-467) · v10 the new leader in the answer (KIP-951)
v11 TRANSACTION_ABORTABLE · v12 implies AddPartitionsToTxn (KIP-890) · v13 topics by id
Brokers announce v0 to v13, since librdkafka looks for v0 (KAFKA-18659), and refuse v0 to v2.
"""

from tidelog.wire.schema import (
    Array,
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


class PartitionProduceData(Struct):
    index: Int32
    records: Records | None


class TopicProduceData(Struct):
    name: String = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partition_data: Array[PartitionProduceData]


class ProduceRequest(Request, api_key=0, versions="3-13", flexible="9+", listeners="broker"):
    transactional_id: String | None = None
    acks: Int16
    timeout_ms: Int32
    topic_data: Array[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32
    batch_index_error_message: String | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct):
    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    record_errors: Array[BatchIndexAndErrorMessage] = since(8, ignorable=True)
    error_message: String | None = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = tagged(0, 10, default_factory=LeaderIdAndEpoch)


class TopicProduceResponse(Struct):
    name: String = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, ignorable=True)
    partition_responses: Array[PartitionProduceResponse]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


class ProduceResponse(Response, api_key=0, versions="3-13", flexible="9+"):
    responses: Array[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
    node_endpoints: Array[NodeEndpoint] = tagged(0, 10, default=[])
