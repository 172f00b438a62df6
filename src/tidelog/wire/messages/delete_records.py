"""DeleteRecords (21): move the start of partitions' logs forward. v2 is the first flexible version."""

from tidelog.wire.schema import Array, Int16, Int32, Int64, Request, Response, String, Struct


class DeleteRecordsPartition(Struct):
    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct):
    name: String
    partitions: Array[DeleteRecordsPartition]


class DeleteRecordsRequest(Request, api_key=21, versions="0-2", flexible="2+", listeners="broker"):
    topics: Array[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16


class DeleteRecordsTopicResult(Struct):
    name: String
    partitions: Array[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Response, api_key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32
    topics: Array[DeleteRecordsTopicResult]
