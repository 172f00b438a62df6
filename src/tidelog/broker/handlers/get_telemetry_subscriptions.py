"""GetTelemetrySubscriptions (71), v0: a client asks which metrics to push, and how often (KIP-714).

Announced where `tidelog.client.telemetry.enable` is set. A client without an id gets one.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.broker.telemetry.client_instances import ClientInstance, identity_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.compression import Compression
from tidelog.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse

# The ones that pack best first: clients take the first that they have.
_COMPRESSIONS = [Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY]


@handles(GetTelemetrySubscriptionsRequest)
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, caller: Caller, node: Node
) -> GetTelemetrySubscriptionsResponse:
    telemetry = node.telemetry
    if not telemetry.is_on:
        return _refuse(ErrorCode.UNSUPPORTED_VERSION)
    found = telemetry.get(request.client_instance_id, identity_of(caller), node.image.configs)
    if not isinstance(found, ClientInstance):
        return _refuse(found)
    return GetTelemetrySubscriptionsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        client_instance_id=found.id,
        subscription_id=found.subscription_id,
        accepted_compression_types=[int(each) for each in _COMPRESSIONS],
        push_interval_ms=found.wanted.interval_ms,
        telemetry_max_bytes=telemetry.bytes_max,
        delta_temporality=True,
        requested_metrics=list(found.wanted.metrics),
    )


def _refuse(error: ErrorCode) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        throttle_time_ms=0,
        error_code=error,
        client_instance_id=ZERO_UUID,
        subscription_id=0,
        accepted_compression_types=[],
        push_interval_ms=0,
        telemetry_max_bytes=0,
        delta_temporality=False,
        requested_metrics=[],
    )
