"""Client telemetry of a node (KIP-714): clients ask what to push, push it, and it is shown with the node's metrics.

Off unless `tidelog.client.telemetry.enable` is set: then the two APIs are not announced, and refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from random import Random

from tidelog.broker.telemetry.client_instances import ClientInstance, ClientInstances, Identity
from tidelog.broker.telemetry.metric_subscriptions import MetricSubscriptions
from tidelog.broker.telemetry.otlp_metrics import OtlpError, read_metrics
from tidelog.broker.telemetry.pushed_metrics import LABELS, PushedMetrics
from tidelog.controller.image import ConfigResource
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import uuid_to_text
from tidelog.model.metrics import Kind, Registry
from tidelog.model.telemetry_config import TELEMETRY_MAX_BYTES, TIDELOG_CLIENT_TELEMETRY_ENABLE
from tidelog.wire.batch_errors import CorruptBatchError
from tidelog.wire.compression import Compression, decompress

log = logging.getLogger(__name__)

_PREFIX = "kafka_server_client_metrics_"


class ClientTelemetry:
    """One for each node."""

    def __init__(self, config: ConfigValues, monotonic_ms: Callable[[], int], random: Random) -> None:
        self.is_on = config[TIDELOG_CLIENT_TELEMETRY_ENABLE]
        self.bytes_max = config[TELEMETRY_MAX_BYTES]
        self._subscriptions = MetricSubscriptions()
        self.pushed = PushedMetrics()
        self.instances = ClientInstances(self._subscriptions, monotonic_ms, random, self.pushed.forget)
        self.taken = 0
        self.refused = 0

    def get(
        self, instance_id: bytes, identity: Identity, configs: Mapping[ConfigResource, Mapping[str, str]]
    ) -> ClientInstance | ErrorCode:
        """A client asks what to push."""
        self._subscriptions.follow(configs)
        return self.instances.get(instance_id, identity)

    def push(
        self,
        instance_id: bytes,
        identity: Identity,
        configs: Mapping[ConfigResource, Mapping[str, str]],
        *,
        subscription_id: int,
        is_terminating: bool,
        compression: int,
        metrics: bytes | memoryview,
    ) -> ErrorCode:
        """A client pushes."""
        self._subscriptions.follow(configs)
        instance = self.instances.push(
            instance_id,
            identity,
            subscription_id=subscription_id,
            is_terminating=is_terminating,
            compression=compression,
            size_bytes=len(metrics),
            bytes_max=self.bytes_max,
        )
        if not isinstance(instance, ClientInstance):
            return instance
        if len(metrics):
            try:
                self._receive(instance, Compression(compression), metrics)
            except (OtlpError, CorruptBatchError) as error:
                self.refused += 1
                instance.last_error = ErrorCode.INVALID_RECORD
                log.info("client %s pushed metrics that cannot be read: %s", uuid_to_text(instance.id), error)
                return ErrorCode.INVALID_RECORD
            self.taken += 1
        return ErrorCode.NONE

    def _receive(self, instance: ClientInstance, compression: Compression, metrics: bytes | memoryview) -> None:
        # What is packed may unpack to no more than what may come as it is.
        data = memoryview(decompress(compression, metrics, bytes_max=self.bytes_max))
        # All of it is read before any of it counts.
        self.pushed.take_in(instance, read_metrics(data))

    def connection_closed(self, connection_id: int) -> None:
        self.instances.connection_closed(connection_id)

    def register(self, registry: Registry) -> None:
        """Show what clients have pushed, and what there is to say of their pushing."""
        instances, pushed = self.instances, self.pushed
        registry.gauge(
            f"{_PREFIX}instance_count", "Clients that push metrics to this node, or may.", lambda: len(instances)
        )
        registry.counted(
            f"{_PREFIX}unknown_subscription_request_total",
            "Pushes for a subscription that has changed since.",
            lambda: instances.unknown_subscriptions,
        )
        registry.counted(f"{_PREFIX}throttle_total", "Requests that came too early.", lambda: instances.throttled)
        registry.counted(f"{_PREFIX}plugin_export_total", "Pushes whose metrics are shown.", lambda: self.taken)
        registry.counted(f"{_PREFIX}plugin_error_total", "Pushes that could not be read.", lambda: self.refused)
        registry.gauge(
            "tidelog_client_series", "Series of metrics that clients have pushed.", lambda: pushed.series_count
        )
        registry.counted(
            "tidelog_client_points_dropped_total",
            "Values that clients have pushed and that are not shown: too many of them, or too long names.",
            lambda: pushed.dropped,
        )
        for kind, name, what in (
            (Kind.COUNTER, "tidelog_client_counter_total", "What clients have counted, as they pushed it."),
            (Kind.GAUGE, "tidelog_client_gauge", "What clients have measured, as they pushed it last."),
        ):
            registry.family(kind, name, what, LABELS, _reader(pushed, kind))


def _reader(pushed: PushedMetrics, kind: Kind) -> Callable[[], list[tuple[tuple[str, ...], float]]]:
    return lambda: list(pushed.readings(kind))  # type: ignore[arg-type]  # there are no histograms among them
