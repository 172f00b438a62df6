"""What is taken of a push and shown: packed in every way, and never more than there is room for."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.otlp import gauge, metrics_data, number, total
from tidelog.broker.telemetry.client_instances import ClientInstance, Identity
from tidelog.broker.telemetry.client_telemetry import ClientTelemetry
from tidelog.broker.telemetry.metric_subscriptions import WantedMetrics
from tidelog.broker.telemetry.otlp_metrics import Change, Point
from tidelog.broker.telemetry.pushed_metrics import ATTRIBUTES_CHARACTERS_MAX, NAME_CHARACTERS_MAX, PushedMetrics
from tidelog.controller.image import ConfigResource
from tidelog.model.config import ConfigValues
from tidelog.model.errors import ErrorCode
from tidelog.model.metrics import Kind, Registry
from tidelog.model.metrics_text import render
from tidelog.model.telemetry_config import TELEMETRY_KEYS
from tidelog.wire.compression import Compression, compress

ID = bytes(range(16))
SELF = Identity(7, "billing", "java", "4.3.1", "10.0.0.1", 4711, "User:alice")
CONFIGS = {ConfigResource(16, "all"): {"metrics": "*", "interval.ms": "100"}}


class Pushing:
    """A client of a node, whose pushes are never too early."""

    def __init__(self, bytes_max: int = 10_000) -> None:
        self.now_ms = 0
        values = ConfigValues(
            TELEMETRY_KEYS, {"tidelog.client.telemetry.enable": True, "telemetry.max.bytes": bytes_max}
        )
        self.telemetry = ClientTelemetry(values, lambda: self.now_ms, Random(1))
        found = self.telemetry.get(ID, SELF, CONFIGS)
        assert isinstance(found, ClientInstance)
        self.subscription_id = found.subscription_id

    def push(self, metrics: bytes, compression: Compression = Compression.NONE) -> ErrorCode:
        self.now_ms += 1000
        return self.telemetry.push(
            ID,
            SELF,
            CONFIGS,
            subscription_id=self.subscription_id,
            is_terminating=False,
            compression=compression,
            metrics=compress(compression, metrics) if compression else metrics,
        )

    def shown(self) -> str:
        registry = Registry()
        self.telemetry.register(registry)
        return b"".join(render(registry)).decode()


@pytest.mark.parametrize("compression", list(Compression))
def test_metrics_are_shown_however_they_are_packed(compression: Compression) -> None:
    pushing = Pushing()
    data = metrics_data([gauge("org.apache.kafka.x", number(2.5, {"topic": "t", "partition": 0}))])

    assert pushing.push(data, compression) is ErrorCode.NONE
    assert (
        'tidelog_client_gauge{metric="org.apache.kafka.x",attributes="partition=0,topic=t",'
        'client_instance_id="AAECAwQFBgcICQoLDA0ODw",client_id="billing",client_software_name="java",'
        'client_software_version="4.3.1",principal="User:alice"} 2.5\n'
    ) in pushing.shown()


def test_what_was_added_is_counted_together_and_a_total_is_taken_as_it_is() -> None:
    pushing = Pushing()
    for _ in range(3):
        pushing.push(
            metrics_data([total("added", number(2)), total("total", number(7), temporality=2), gauge("now", number(1))])
        )
    readings = {reading[0][0]: reading[1] for kind in Kind for reading in pushing.telemetry.pushed.readings(kind)}

    assert readings == {"added": 6, "total": 7, "now": 1}
    assert "kafka_server_client_metrics_plugin_export_total 3\n" in pushing.shown()


@pytest.mark.parametrize("data", [b"\x0b", b"\xff" * 20])
def test_metrics_that_cannot_be_read_are_refused_and_nothing_of_them_counts(data: bytes) -> None:
    pushing = Pushing()

    assert pushing.push(metrics_data([gauge("g", number(1))]) + data) is ErrorCode.INVALID_RECORD
    assert pushing.push(data, Compression.GZIP) is ErrorCode.INVALID_RECORD
    assert pushing.telemetry.pushed.series_count == 0
    assert "kafka_server_client_metrics_plugin_error_total 2\n" in pushing.shown()


def test_what_unpacks_to_more_than_may_come_is_refused() -> None:
    pushing = Pushing(bytes_max=1000)
    large = metrics_data([gauge("g" * 5000, number(1))])

    assert pushing.push(large, Compression.ZSTD) is ErrorCode.INVALID_RECORD
    assert pushing.push(large) is ErrorCode.TELEMETRY_TOO_LARGE


def test_bytes_that_are_not_what_they_are_said_to_be_are_refused() -> None:
    pushing = Pushing()
    pushing.now_ms += 1000
    error = pushing.telemetry.push(
        ID,
        SELF,
        CONFIGS,
        subscription_id=pushing.subscription_id,
        is_terminating=False,
        compression=4,
        metrics=b"no zstd",
    )

    assert error is ErrorCode.INVALID_RECORD


def test_a_push_of_nothing_is_one() -> None:
    assert Pushing().push(b"") is ErrorCode.NONE


def test_the_metrics_of_a_client_go_with_it() -> None:
    pushing = Pushing()
    pushing.push(metrics_data([gauge("g", number(1))]))
    pushing.telemetry.connection_closed(SELF.connection_id)

    assert pushing.telemetry.pushed.series_count == 0
    assert 'metric="g"' not in pushing.shown()


def point(name: str, **attributes: str) -> Point:
    return Point(name, tuple(attributes.items()), 1, Change.NOW)


def instance(number: int) -> ClientInstance:
    return ClientInstance(bytes([number] * 16), SELF, WantedMetrics((), 1), 1)


def test_no_client_has_more_series_than_its_share_and_all_of_them_no_more_than_there_is_room_for() -> None:
    pushed = PushedMetrics(series_max=5, per_client_max=3)
    names = [point(f"m{number}") for number in range(4)]
    pushed.take_in(instance(1), names)
    pushed.take_in(instance(2), names)
    assert (pushed.series_count, pushed.dropped) == (5, 3)

    pushed.take_in(instance(1), names[:3])
    assert (pushed.series_count, pushed.dropped) == (5, 3)
    pushed.forget(instance(1).id)
    pushed.take_in(instance(2), names)
    assert (pushed.series_count, pushed.dropped) == (3, 4)


def test_names_and_attributes_that_are_too_long_are_not_shown() -> None:
    pushed = PushedMetrics()
    pushed.take_in(
        instance(1),
        [point("n" * (NAME_CHARACTERS_MAX + 1)), point(""), point("m", a="v" * ATTRIBUTES_CHARACTERS_MAX), point("ok")],
    )

    assert (pushed.series_count, pushed.dropped) == (1, 3)
