"""BrokerRegistration (62), BrokerHeartbeat (63), UnregisterBroker (64), ControllerRegistration (70): nodes report.

BrokerRegistration: v1 migration from ZooKeeper · v2 log directories (KIP-858)
v3 the epoch before a clean stop (KIP-966) · v4 features may start at 0 (KAFKA-17011)
BrokerHeartbeat: v1 failed log directories · v2 cordoned ones
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
    UInt16,
    Uuid,
    since,
    tagged,
)


class Listener(Struct):
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


class Feature(Struct):
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class BrokerRegistrationRequest(Request, api_key=62, versions="0-4", flexible="0+", listeners="controller"):
    broker_id: Int32
    cluster_id: String
    incarnation_id: Uuid
    listeners: Array[Listener]
    features: Array[Feature]
    rack: String | None
    is_migrating_zk_broker: Bool = since(1, default=False)
    log_dirs: Array[Uuid] = since(2, ignorable=True)
    previous_broker_epoch: Int64 = since(3, default=-1, ignorable=True)


class BrokerRegistrationResponse(Response, api_key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    broker_epoch: Int64 = -1


class BrokerHeartbeatRequest(Request, api_key=63, versions="0-2", flexible="0+", listeners="controller"):
    broker_id: Int32
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64
    want_fence: Bool
    want_shut_down: Bool
    offline_log_dirs: Array[Uuid] = tagged(0, 1, default=[])
    cordoned_log_dirs: Array[Uuid] | None = tagged(1, 2, default=None)


class BrokerHeartbeatResponse(Response, api_key=63, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    is_caught_up: Bool = False
    is_fenced: Bool = True
    should_shut_down: Bool


class UnregisterBrokerRequest(Request, api_key=64, versions="0", flexible="0+", listeners="broker controller"):
    broker_id: Int32


class UnregisterBrokerResponse(Response, api_key=64, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None


class ControllerRegistrationRequest(Request, api_key=70, versions="0", flexible="0+", listeners="controller"):
    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    listeners: Array[Listener]
    features: Array[Feature]


class ControllerRegistrationResponse(Response, api_key=70, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    error_message: String | None
