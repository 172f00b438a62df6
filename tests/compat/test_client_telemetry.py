"""Telemetry of Apache Kafka's own clients, and the tools that say what they are asked for, against a node of ours."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.request import urlopen

import pytest

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka
from tests.support.consumer_scenarios import new_topic, wait_for
from tests.support.kafka_driver import KafkaDriver, Sent
from tests.support.running_node import DEADLINE_S, RunningNode
from tidelog.net.address import Address

pytestmark = pytest.mark.compat

CONFIGS = "kafka.admin.ConfigCommand"
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    settings = {**SMALL_NODE, "tidelog.client.telemetry.enable": "true"}
    directory = tmp_path_factory.mktemp("node")
    with RunningNode(directory, settings=settings, metrics_address=Address("127.0.0.1", 0)) as running:
        yield running


def page(node: RunningNode) -> str:
    url = node.node.metrics_url
    assert url is not None
    with urlopen(url, timeout=DEADLINE_S) as answer:
        text: str = answer.read().decode()
    return text


def tool(kafka: ApacheKafka, node: RunningNode, main_class: str, *arguments: str) -> str:
    done = kafka.tool(main_class, "--bootstrap-server", node.bootstrap, *arguments)
    assert done.code == 0, done
    return done.stdout


def test_the_tools_subscribe_describe_and_take_back(kafka: ApacheKafka, node: RunningNode) -> None:
    entity = ("--entity-type", "client-metrics", "--entity-name", "by-tool")
    tool(
        kafka, node, CONFIGS, "--alter", *entity,
        "--add-config", "metrics=[org.apache.kafka.consumer.,x.],interval.ms=7000,match=[client_id=a.*]",
    )  # fmt: skip

    described = tool(kafka, node, CONFIGS, "--describe", *entity)
    listed = tool(kafka, node, CLIENT_METRICS, "--list")
    of_its_own = tool(kafka, node, CLIENT_METRICS, "--describe", "--name", "by-tool")
    for text in (described, of_its_own):
        assert "interval.ms=7000" in text
        assert "metrics=org.apache.kafka.consumer.,x." in text
        assert "match=client_id=a.*" in text
    assert "by-tool" in listed.split()
    tool(kafka, node, CLIENT_METRICS, "--delete", "--name", "by-tool")
    assert "by-tool" not in tool(kafka, node, CLIENT_METRICS, "--list").split()


def test_what_the_java_producer_pushes_is_shown_until_it_goes(kafka: ApacheKafka, node: RunningNode) -> None:
    tool(
        kafka, node, CLIENT_METRICS, "--alter", "--name", "java", "--metrics", "org.apache.kafka.producer.",
        "--interval", "100", "--match", "client_software_name=apache-kafka-java,client_id=pushing",
    )  # fmt: skip
    topic = new_topic(node.bootstrap, 1)
    with KafkaDriver(kafka, node.bootstrap) as driver:
        driver.open_producer("p", client_id="pushing")
        driver.send("p", topic, [Sent(b"k", b"v")])
        wait_for(lambda: 'client_id="pushing"' in page(node), "its metrics are shown")
        shown = [line for line in page(node).splitlines() if line.startswith("tidelog_client_") and "pushing" in line]
        driver.close_producer("p")
        wait_for(lambda: 'client_id="pushing"' not in page(node), "they have gone with it")

    assert any('metric="org.apache.kafka.producer.record.send.total"' in line for line in shown)
    assert any('client_software_name="apache-kafka-java"' in line for line in shown)
    assert all('metric="org.apache.kafka.producer.' in line for line in shown)


def test_kafka_broker_api_versions_sees_both(kafka: ApacheKafka, node: RunningNode) -> None:
    text = tool(kafka, node, VERSIONS)

    assert "GetTelemetrySubscriptions(71): 0" in text
    assert "PushTelemetry(72): 0" in text
