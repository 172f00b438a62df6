"""FindCoordinator (10): the broker that keeps a group, a transactional id or a share partition.

v1 kinds of keys · v4 several keys · v5 TRANSACTION_ABORTABLE · v6 share partitions, by `group:topic id:partition`
"""

from tidelog.wire.schema import Array, Int8, Int16, Int32, Request, Response, String, Struct, between, since, until


class FindCoordinatorRequest(Request, api_key=10, versions="0-6", flexible="3+", listeners="broker"):
    key: String = until(3, default="")
    key_type: Int8 = since(1, default=0)
    coordinator_keys: Array[String] = since(4)


class Coordinator(Struct):
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: String | None


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = until(3, default=0)
    error_message: String | None = between(1, 3, default="", ignorable=True)
    node_id: Int32 = until(3, default=0)
    host: String = until(3, default="")
    port: Int32 = until(3, default=0)
    coordinators: Array[Coordinator] = since(4)
