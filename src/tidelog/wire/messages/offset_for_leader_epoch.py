"""OffsetForLeaderEpoch (23): where an epoch ends, so that what diverged can be cut off (KIP-101, KIP-320).

v2 the caller's leader epoch · v3 replica id, -2 for a consumer that may see past the high watermark
"""

from tidelog.wire.schema import Array, Int16, Int32, Int64, Request, Response, String, Struct, since


class OffsetForLeaderPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    topic: String
    partitions: Array[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Request, api_key=23, versions="2-4", flexible="4+", listeners="broker"):
    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: Array[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: String
    partitions: Array[EpochEndOffset]


class OffsetForLeaderEpochResponse(Response, api_key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: Int32
    topics: Array[OffsetForLeaderTopicResult]
