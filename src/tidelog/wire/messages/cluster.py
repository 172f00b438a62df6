"""DescribeCluster (60): the cluster's id, controller and brokers (KIP-700).

v1 brokers or controllers (KIP-919) · v2 fenced brokers as well (KIP-1073)
"""

from tidelog.wire.schema import Array, Bool, Int8, Int16, Int32, Request, Response, String, Struct, since


class DescribeClusterRequest(Request, api_key=60, versions="0-2", flexible="0+", listeners="broker controller"):
    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: Bool = since(2)


class DescribeClusterBroker(Struct):
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = None
    is_fenced: Bool = since(2)


class DescribeClusterResponse(Response, api_key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: String
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -2147483648
