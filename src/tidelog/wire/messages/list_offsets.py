"""ListOffsets (2): the offset of a time, of either end of a log, of its largest timestamp.

v1 one offset a partition · v2 isolation level · v4 leader epochs · v7 max timestamp (KIP-734)
v8 earliest local (KIP-405) · v9 last tiered (KIP-1005) · v10 time-out · v11 earliest pending upload (KIP-1023)
"""

from tidelog.wire.schema import Array, Int8, Int16, Int32, Int64, Request, Response, String, Struct, since


class ListOffsetsPartition(Struct):
    partition_index: Int32
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64


class ListOffsetsTopic(Struct):
    name: String
    partitions: Array[ListOffsetsPartition]


class ListOffsetsRequest(Request, api_key=2, versions="1-11", flexible="6+", listeners="broker"):
    replica_id: Int32
    isolation_level: Int8 = since(2)
    topics: Array[ListOffsetsTopic]
    timeout_ms: Int32 = since(10, ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: String
    partitions: Array[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Response, api_key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: Int32 = since(2, ignorable=True)
    topics: Array[ListOffsetsTopicResponse]
