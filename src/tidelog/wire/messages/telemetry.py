"""GetTelemetrySubscriptions (71), PushTelemetry (72): clients send their metrics to the broker (KIP-714)."""

from tidelog.wire.schema import Array, Bool, Bytes, Int8, Int16, Int32, Request, Response, String, Uuid


class GetTelemetrySubscriptionsRequest(Request, api_key=71, versions="0", flexible="0+", listeners="broker"):
    client_instance_id: Uuid


class GetTelemetrySubscriptionsResponse(Response, api_key=71, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: Array[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: Array[String]


class PushTelemetryRequest(Request, api_key=72, versions="0", flexible="0+", listeners="broker"):
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


class PushTelemetryResponse(Response, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: Int32
    error_code: Int16
