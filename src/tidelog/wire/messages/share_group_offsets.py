"""DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92): where share groups start.

DescribeShareGroupOffsets: v1 lag (KIP-1226)
"""

from tidelog.wire.schema import Array, Int16, Int32, Int64, Request, Response, String, Struct, Uuid, since


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: String
    partitions: Array[Int32]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: String
    topics: Array[DescribeShareGroupOffsetsRequestTopic] | None


class DescribeShareGroupOffsetsRequest(Request, api_key=90, versions="0-1", flexible="0+", listeners="broker"):
    groups: Array[DescribeShareGroupOffsetsRequestGroup]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Int64 = since(1, default=-1, ignorable=True)
    error_code: Int16
    error_message: String | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: String
    topic_id: Uuid
    partitions: Array[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: String
    topics: Array[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: String | None = None


class DescribeShareGroupOffsetsResponse(Response, api_key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32
    groups: Array[DescribeShareGroupOffsetsResponseGroup]


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: Int32
    start_offset: Int64


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: String
    partitions: Array[AlterShareGroupOffsetsRequestPartition]


class AlterShareGroupOffsetsRequest(Request, api_key=91, versions="0", flexible="0+", listeners="broker"):
    group_id: String
    topics: Array[AlterShareGroupOffsetsRequestTopic]


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: String
    topic_id: Uuid
    partitions: Array[AlterShareGroupOffsetsResponsePartition]


class AlterShareGroupOffsetsResponse(Response, api_key=91, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = None
    responses: Array[AlterShareGroupOffsetsResponseTopic]


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: String


class DeleteShareGroupOffsetsRequest(Request, api_key=92, versions="0", flexible="0+", listeners="broker"):
    group_id: String
    topics: Array[DeleteShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: String
    topic_id: Uuid
    error_code: Int16
    error_message: String | None = None


class DeleteShareGroupOffsetsResponse(Response, api_key=92, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = None
    responses: Array[DeleteShareGroupOffsetsResponseTopic]
