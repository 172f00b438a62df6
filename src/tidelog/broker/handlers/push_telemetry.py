"""PushTelemetry (72), v0: a client pushes the metrics that it was asked for, in OpenTelemetry's format (KIP-714)."""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.telemetry.client_instances import identity_of
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.telemetry import PushTelemetryRequest, PushTelemetryResponse


@handles(PushTelemetryRequest)
def push_telemetry(request: PushTelemetryRequest, caller: Caller, node: Node) -> PushTelemetryResponse:
    telemetry = node.telemetry
    if not telemetry.is_on:
        return PushTelemetryResponse(throttle_time_ms=0, error_code=ErrorCode.UNSUPPORTED_VERSION)
    error = telemetry.push(
        request.client_instance_id,
        identity_of(caller),
        node.image.configs,
        subscription_id=request.subscription_id,
        is_terminating=request.terminating,
        compression=request.compression_type,
        metrics=request.metrics,
    )
    return PushTelemetryResponse(throttle_time_ms=0, error_code=error)
