"""Telemetry of clients at a node: librdkafka pushes, and what it pushes is on the node's page of metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import confluent_kafka
import pytest

from tests.support.consumer_scenarios import new_topic, wait_for
from tests.support.otlp import gauge, metrics_data, number
from tests.support.raw_client import RawClient
from tests.support.running_node import DEADLINE_S, RunningNode
from tidelog import Admin
from tidelog.client.admin import ConfigResource, ResourceKind
from tidelog.client.errors import RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.net.address import Address
from tidelog.wire.apis import ApiKey
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = {"tidelog.client.telemetry.enable": "true", "telemetry.max.bytes": "20000"}
    directory = tmp_path_factory.mktemp("node")
    with RunningNode(directory, settings=settings, metrics_address=Address("127.0.0.1", 0)) as running:
        yield running


@pytest.fixture(scope="module")
def admin(node: RunningNode) -> Iterator[Admin]:
    with Admin(bootstrap_servers=node.bootstrap) as connected:
        yield connected


def page(node: RunningNode) -> str:
    url = node.node.metrics_url
    assert url is not None
    with urlopen(url, timeout=DEADLINE_S) as answer:
        text: str = answer.read().decode()
    return text


def announced(bootstrap: str) -> set[int]:
    with RawClient(bootstrap) as client:
        request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        return {each.api_key for each in client.call(request, ApiVersionsResponse, 3).api_keys}


def test_what_librdkafka_pushes_is_shown_until_it_goes(node: RunningNode, admin: Admin) -> None:
    topic = new_topic(node.bootstrap, 1)
    admin.alter_config(
        ResourceKind.CLIENT_METRICS,
        "producers",
        set={"metrics": "org.apache.kafka.producer.", "interval.ms": "100", "match": "client_id=seen-.*"},
    )
    producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap, "client.id": "seen-by-all"})
    hidden = confluent_kafka.Producer(
        {"bootstrap.servers": node.bootstrap, "client.id": "seen-by-nobody", "enable.metrics.push": False}
    )
    for each in (producer, hidden):
        each.produce(topic, b"one")
        assert each.flush(DEADLINE_S) == 0

    wait_for(lambda: 'client_id="seen-by-all"' in page(node), "its metrics are shown")
    shown = [line for line in page(node).splitlines() if line.startswith("tidelog_client_") and "{" in line]
    assert any('metric="org.apache.kafka.producer.connection.creation.total"' in line for line in shown)
    assert all('client_software_name="confluent-kafka-python"' in line for line in shown)
    assert not any("seen-by-nobody" in line for line in shown)
    del producer, each
    wait_for(lambda: 'client_id="seen-by-all"' not in page(node), "they have gone with it")


def test_subscriptions_are_listed_and_described_and_wrong_ones_refused(admin: Admin) -> None:
    admin.alter_config(ResourceKind.CLIENT_METRICS, "listed", set={"metrics": "*", "interval.ms": "5000"})

    assert ConfigResource(ResourceKind.CLIENT_METRICS, "listed") in admin.list_config_resources(
        [ResourceKind.CLIENT_METRICS]
    )
    described = admin.describe_config(ResourceKind.CLIENT_METRICS, "listed")
    assert {name: entry.value for name, entry in described.items()} == {
        "metrics": "*",
        "interval.ms": "5000",
        "match": "",
    }
    for wrong, sentence in (
        ({"interval.ms": "99"}, "interval must be between 100 and 3600000"),
        ({"match": "client_name=x"}, "Illegal client matching pattern: client_name=x"),
        ({"period": "1"}, "Unknown client metrics configuration: period"),
    ):
        with pytest.raises(RefusedError, match=sentence):
            admin.alter_config(ResourceKind.CLIENT_METRICS, "wrong", set=wrong)
    admin.alter_config(ResourceKind.CLIENT_METRICS, "listed", delete=["metrics", "interval.ms"])
    assert ConfigResource(ResourceKind.CLIENT_METRICS, "listed") not in admin.list_config_resources(
        [ResourceKind.CLIENT_METRICS]
    )


def test_a_client_is_told_what_to_push_and_why_it_is_not_taken(node: RunningNode, admin: Admin) -> None:
    admin.alter_config(
        ResourceKind.CLIENT_METRICS, "raw", set={"metrics": "a.,b.", "interval.ms": "60000", "match": "client_id=raw"}
    )
    with RawClient(node.bootstrap) as client:

        def get(instance_id: bytes) -> GetTelemetrySubscriptionsResponse:
            request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
            return client.call(request, GetTelemetrySubscriptionsResponse, 0)

        wait_for(lambda: get(ZERO_UUID).requested_metrics == ["a.", "b."], "the node has heard of the subscription")
        told = get(ZERO_UUID)

        def push(metrics: bytes, subscription_id: int = told.subscription_id, *, last: bool = False) -> int:
            request = PushTelemetryRequest(
                client_instance_id=told.client_instance_id,
                subscription_id=subscription_id,
                terminating=last,
                compression_type=0,
                metrics=metrics,
            )
            return client.call(request, PushTelemetryResponse, 0).error_code

        assert (told.error_code, told.push_interval_ms, told.telemetry_max_bytes) == (0, 60_000, 20_000)
        assert (told.accepted_compression_types, told.delta_temporality) == ([4, 3, 1, 2], True)
        assert get(told.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert push(metrics_data([gauge("a.b", number(42))])) == ErrorCode.NONE
        assert 'metric="a.b"' in page(node)
        assert push(b"") == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert push(bytes(20_001), last=True) == ErrorCode.TELEMETRY_TOO_LARGE
        assert push(b"", last=True) == ErrorCode.INVALID_REQUEST
    wait_for(lambda: 'metric="a.b"' not in page(node), "its metrics have gone with the connection")


def test_telemetry_is_announced_where_it_is_switched_on(node: RunningNode) -> None:
    assert announced(node.bootstrap) >= TELEMETRY


def test_without_the_key_it_is_neither_announced_nor_served(tmp_path: Path) -> None:
    with RunningNode(tmp_path) as plain:
        assert not announced(plain.bootstrap) & TELEMETRY
        with RawClient(plain.bootstrap) as client:
            asked = client.call(
                GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID), GetTelemetrySubscriptionsResponse, 0
            )
            pushed = client.call(
                PushTelemetryRequest(
                    client_instance_id=bytes(range(16)),
                    subscription_id=0,
                    terminating=False,
                    compression_type=0,
                    metrics=b"",
                ),
                PushTelemetryResponse,
                0,
            )
        assert {asked.error_code, pushed.error_code} == {ErrorCode.UNSUPPORTED_VERSION}
