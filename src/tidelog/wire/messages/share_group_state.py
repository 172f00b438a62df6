"""InitializeShareGroupState (83), ReadShareGroupState (84), WriteShareGroupState (85), DeleteShareGroupState (86),
ReadShareGroupStateSummary (87): what a share partition's leader keeps with the share coordinator (KIP-932).

Between brokers. WriteShareGroupState and ReadShareGroupStateSummary: v1 count of completed deliveries (KIP-1226)
"""

from tidelog.wire.schema import Array, Int8, Int16, Int32, Int64, Request, Response, String, Struct, Uuid, since


class PartitionData(Struct):
    partition: Int32
    state_epoch: Int32
    start_offset: Int64


class InitializeStateData(Struct):
    topic_id: Uuid
    partitions: Array[PartitionData]


class InitializeShareGroupStateRequest(Request, api_key=83, versions="0", flexible="0+", listeners="broker"):
    group_id: String
    topics: Array[InitializeStateData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: String | None = None


class InitializeStateResult(Struct):
    topic_id: Uuid
    partitions: Array[PartitionResult]


class InitializeShareGroupStateResponse(Response, api_key=83, versions="0", flexible="0+"):
    results: Array[InitializeStateResult]


class ReadShareGroupStatePartitionData(Struct):
    partition: Int32
    leader_epoch: Int32


class ReadStateData(Struct):
    topic_id: Uuid
    partitions: Array[ReadShareGroupStatePartitionData]


class ReadShareGroupStateRequest(Request, api_key=84, versions="0", flexible="0+", listeners="broker"):
    group_id: String
    topics: Array[ReadStateData]


class StateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ReadShareGroupStatePartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: String | None = None
    state_epoch: Int32
    start_offset: Int64
    state_batches: Array[StateBatch]


class ReadStateResult(Struct):
    topic_id: Uuid
    partitions: Array[ReadShareGroupStatePartitionResult]


class ReadShareGroupStateResponse(Response, api_key=84, versions="0", flexible="0+"):
    results: Array[ReadStateResult]


class WriteShareGroupStatePartitionData(Struct):
    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)
    state_batches: Array[StateBatch]


class WriteStateData(Struct):
    topic_id: Uuid
    partitions: Array[WriteShareGroupStatePartitionData]


class WriteShareGroupStateRequest(Request, api_key=85, versions="0-1", flexible="0+", listeners="broker"):
    group_id: String
    topics: Array[WriteStateData]


class WriteStateResult(Struct):
    topic_id: Uuid
    partitions: Array[PartitionResult]


class WriteShareGroupStateResponse(Response, api_key=85, versions="0-1", flexible="0+"):
    results: Array[WriteStateResult]


class DeleteShareGroupStatePartitionData(Struct):
    partition: Int32


class DeleteStateData(Struct):
    topic_id: Uuid
    partitions: Array[DeleteShareGroupStatePartitionData]


class DeleteShareGroupStateRequest(Request, api_key=86, versions="0", flexible="0+", listeners="broker"):
    group_id: String
    topics: Array[DeleteStateData]


class DeleteStateResult(Struct):
    topic_id: Uuid
    partitions: Array[PartitionResult]


class DeleteShareGroupStateResponse(Response, api_key=86, versions="0", flexible="0+"):
    results: Array[DeleteStateResult]


class ReadShareGroupStateSummaryPartitionData(Struct):
    partition: Int32
    leader_epoch: Int32


class ReadStateSummaryData(Struct):
    topic_id: Uuid
    partitions: Array[ReadShareGroupStateSummaryPartitionData]


class ReadShareGroupStateSummaryRequest(Request, api_key=87, versions="0-1", flexible="0+", listeners="broker"):
    group_id: String
    topics: Array[ReadStateSummaryData]


class ReadShareGroupStateSummaryPartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: String | None = None
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: Uuid
    partitions: Array[ReadShareGroupStateSummaryPartitionResult]


class ReadShareGroupStateSummaryResponse(Response, api_key=87, versions="0-1", flexible="0+"):
    results: Array[ReadStateSummaryResult]
