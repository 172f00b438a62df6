"""OffsetCommit (8), OffsetFetch (9), OffsetDelete (47): where the groups of consumers have got to.

OffsetCommit: v5 no retention time · v6 leader epoch · v7 static members · v9 KIP-848 groups · v10 topics by id
OffsetFetch: v2 null for all topics · v5 leader epoch · v7 may demand that no transaction is open · v8 several groups
v9 KIP-848 groups · v10 topics by id
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
    Uuid,
    between,
    since,
    until,
)


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)
    committed_metadata: String | None


class OffsetCommitRequestTopic(Struct):
    name: String = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: Array[OffsetCommitRequestPartition]


class OffsetCommitRequest(Request, api_key=8, versions="2-10", flexible="8+", listeners="broker"):
    group_id: String
    generation_id_or_member_epoch: Int32 = -1
    member_id: String
    group_instance_id: String | None = since(7, default=None)
    retention_time_ms: Int64 = until(4, default=-1, ignorable=True)
    topics: Array[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class OffsetCommitResponseTopic(Struct):
    name: String = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: Array[OffsetCommitResponsePartition]


class OffsetCommitResponse(Response, api_key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: Int32 = since(3, ignorable=True)
    topics: Array[OffsetCommitResponseTopic]


class OffsetFetchRequestTopic(Struct):
    name: String
    partition_indexes: Array[Int32]


class OffsetFetchRequestTopics(Struct):
    name: String = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partition_indexes: Array[Int32]


class OffsetFetchRequestGroup(Struct):
    group_id: String
    member_id: String | None = since(9, default=None, ignorable=True)
    member_epoch: Int32 = since(9, default=-1, ignorable=True)
    topics: Array[OffsetFetchRequestTopics] | None


class OffsetFetchRequest(Request, api_key=9, versions="1-10", flexible="6+", listeners="broker"):
    group_id: String = until(7, default="")
    topics: Array[OffsetFetchRequestTopic] | None = until(7, default=[], nullable="2-7")
    groups: Array[OffsetFetchRequestGroup] = since(8)
    require_stable: Bool = since(7, default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(5, default=-1, ignorable=True)
    metadata: String | None
    error_code: Int16


class OffsetFetchResponseTopic(Struct):
    name: String
    partitions: Array[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: String | None
    error_code: Int16


class OffsetFetchResponseTopics(Struct):
    name: String = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, ignorable=True)
    partitions: Array[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    group_id: String
    topics: Array[OffsetFetchResponseTopics]
    error_code: Int16 = 0


class OffsetFetchResponse(Response, api_key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: Int32 = since(3, ignorable=True)
    topics: Array[OffsetFetchResponseTopic] = until(7, default=[])
    error_code: Int16 = between(2, 7, default=0, ignorable=True)
    groups: Array[OffsetFetchResponseGroup] = since(8)


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    name: String
    partitions: Array[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Request, api_key=47, versions="0", listeners="broker"):
    group_id: String
    topics: Array[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class OffsetDeleteResponseTopic(Struct):
    name: String
    partitions: Array[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Response, api_key=47, versions="0"):
    error_code: Int16
    throttle_time_ms: Int32
    topics: Array[OffsetDeleteResponseTopic]
