"""Metadata (3): brokers, the controller, and the leader and replicas of each partition.

In v0 an empty list of topics means all of them; from v1 on that is null, and empty means none.
v1 racks, controller, internal topics · v2 cluster id · v4 may create topics · v5 offline replicas · v7 leader epochs
v8 authorized operations (of the cluster up to v10) · v10 topic ids in answers · v12 topics by id
v13 an error for the whole
"""

from tidelog.wire.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Request,
    Response,
    String,
    Struct,
    Uuid,
    between,
    field,
    since,
)


class MetadataRequestTopic(Struct):
    topic_id: Uuid = since(10, ignorable=True)
    name: String | None = field(nullable="10+")


class MetadataRequest(Request, api_key=3, versions="0-13", flexible="9+", listeners="broker"):
    topics: Array[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: Bool = since(4, default=True)
    include_cluster_authorized_operations: Bool = between(8, 10, default=False)
    include_topic_authorized_operations: Bool = since(8)


class MetadataResponseBroker(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = since(1, default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = since(7, default=-1, ignorable=True)
    replica_nodes: Array[Int32]
    isr_nodes: Array[Int32]
    offline_replicas: Array[Int32] = since(5, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: Int16
    name: String | None = field(nullable="12+")
    topic_id: Uuid = since(10, ignorable=True)
    is_internal: Bool = since(1, default=False, ignorable=True)
    partitions: Array[MetadataResponsePartition]
    topic_authorized_operations: Int32 = since(8, default=-2147483648)


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: Int32 = since(3, ignorable=True)
    brokers: Array[MetadataResponseBroker]
    cluster_id: String | None = since(2, default=None, ignorable=True)
    controller_id: Int32 = since(1, default=-1, ignorable=True)
    topics: Array[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = between(8, 10, default=-2147483648)
    error_code: Int16 = since(13, ignorable=True)
