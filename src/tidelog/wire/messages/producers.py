"""InitProducerId (22), DescribeProducers (61), AllocateProducerIds (67): the identities of idempotent producers.

InitProducerId: v3 goes on from a known id and epoch (KIP-360) · v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE
v6 two-phase commit (KIP-939), not stable yet
AllocateProducerIds: a block of ids for a broker, from the controller
"""

from tidelog.wire.schema import Array, Bool, Int16, Int32, Int64, Request, Response, String, Struct, since


class InitProducerIdRequest(
    Request, api_key=22, versions="0-6", flexible="2+", listeners="broker", latest_version_unstable=True
):
    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)
    enable_2pc: Bool = since(6, default=False)
    keep_prepared_txn: Bool = since(6, default=False)


class InitProducerIdResponse(Response, api_key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: Int16 = since(6, default=-1)


class TopicRequest(Struct):
    name: String
    partition_indexes: Array[Int32]


class DescribeProducersRequest(Request, api_key=61, versions="0", flexible="0+", listeners="broker"):
    topics: Array[TopicRequest]


class ProducerState(Struct):
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = None
    active_producers: Array[ProducerState]


class TopicResponse(Struct):
    name: String
    partitions: Array[PartitionResponse]


class DescribeProducersResponse(Response, api_key=61, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    topics: Array[TopicResponse]


class AllocateProducerIdsRequest(Request, api_key=67, versions="0", flexible="0+", listeners="controller"):
    broker_id: Int32
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Response, api_key=67, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    producer_id_start: Int64
    producer_id_len: Int32
