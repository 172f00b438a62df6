"""AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26), WriteTxnMarkers (27), TxnOffsetCommit (28): transactions.

AddPartitionsToTxn: v2 PRODUCER_FENCED · v4 several transactions, and verification, between brokers
v5 TRANSACTION_ABORTABLE
AddOffsetsToTxn: v2 PRODUCER_FENCED · v4 TRANSACTION_ABORTABLE
EndTxn: v2 PRODUCER_FENCED · v4 TRANSACTION_ABORTABLE · v5 the epoch rises with each transaction (KIP-890)
WriteTxnMarkers: v2 version of the transaction protocol (KIP-1228)
TxnOffsetCommit: v2 leader epoch · v3 the member's generation (KIP-447) · v4 TRANSACTION_ABORTABLE
v5 implies AddOffsetsToTxn (KIP-890)
"""

from tidelog.wire.schema import Array, Bool, Int8, Int16, Int32, Int64, Request, Response, String, Struct, since, until


class AddPartitionsToTxnTopic(Struct):
    name: String
    partitions: Array[Int32]


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: Array[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Request, api_key=24, versions="0-5", flexible="3+", listeners="broker"):
    transactions: Array[AddPartitionsToTxnTransaction] = since(4)
    v3_and_below_transactional_id: String = until(3, default="")
    v3_and_below_producer_id: Int64 = until(3, default=0)
    v3_and_below_producer_epoch: Int16 = until(3, default=0)
    v3_and_below_topics: Array[AddPartitionsToTxnTopic] = until(3, default=[])


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32
    partition_error_code: Int16


class AddPartitionsToTxnTopicResult(Struct):
    name: String
    results_by_partition: Array[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    transactional_id: String
    topic_results: Array[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Response, api_key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32
    error_code: Int16 = since(4, ignorable=True)
    results_by_transaction: Array[AddPartitionsToTxnResult] = since(4)
    results_by_topic_v3_and_below: Array[AddPartitionsToTxnTopicResult] = until(3, default=[])


class AddOffsetsToTxnRequest(Request, api_key=25, versions="0-4", flexible="3+", listeners="broker"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class AddOffsetsToTxnResponse(Response, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: Int32
    error_code: Int16


class EndTxnRequest(Request, api_key=26, versions="0-5", flexible="3+", listeners="broker"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


class EndTxnResponse(Response, api_key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Int64 = since(5, default=-1, ignorable=True)
    producer_epoch: Int16 = since(5, default=-1, ignorable=True)


class WritableTxnMarkerTopic(Struct):
    name: String
    partition_indexes: Array[Int32]


class WritableTxnMarker(Struct):
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: Array[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = since(2, default=0, ignorable=True)


class WriteTxnMarkersRequest(Request, api_key=27, versions="1-2", flexible="1+", listeners="broker"):
    markers: Array[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16


class WritableTxnMarkerTopicResult(Struct):
    name: String
    partitions: Array[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    producer_id: Int64
    topics: Array[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Response, api_key=27, versions="1-2", flexible="1+"):
    markers: Array[WritableTxnMarkerResult]


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
    committed_metadata: String | None


class TxnOffsetCommitRequestTopic(Struct):
    name: String
    partitions: Array[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Request, api_key=28, versions="0-5", flexible="3+", listeners="broker"):
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = since(3, default=-1)
    member_id: String = since(3, default="")
    group_instance_id: String | None = since(3, default=None)
    topics: Array[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class TxnOffsetCommitResponseTopic(Struct):
    name: String
    partitions: Array[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Response, api_key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32
    topics: Array[TxnOffsetCommitResponseTopic]
