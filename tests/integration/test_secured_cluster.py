"""A secured cluster in one line, embedded, in pytest and by `tidelog up --tls --sasl scram`, with real clients."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.command_process import CommandProcess, run
from tidelog import Admin, Consumer as OurConsumer, Producer as OurProducer
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.testing import EmbeddedCluster

WAYS = ["tls", "mtls", "plain", "scram", "tls+plain", "tls+scram", "tls+scram-sha-512", "tls+oauthbearer"]


def produced(properties: dict[str, str], topic: str, value: bytes) -> None:
    failures: list[object] = []
    producer = Producer(properties)
    producer.produce(topic, value, on_delivery=lambda error, _message: failures.append(error) if error else None)
    assert producer.flush(30) == 0
    assert failures == []


def consumed(properties: dict[str, str], topic: str) -> bytes | None:
    consumer = Consumer({**properties, "group.id": "readers", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None, message.error()
        value = message.value()
        assert value is None or isinstance(value, bytes)
        return value
    finally:
        consumer.close()


@pytest.mark.parametrize("security", WAYS)
def test_clients_reach_an_embedded_cluster_that_is_secured(security: str) -> None:
    with EmbeddedCluster(security=security) as cluster:
        cluster.create_topic("orders")
        produced(cluster.librdkafka_properties(), "orders", b"4 apples")
        with OurConsumer(**cluster.client_options(), group_id="ours", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            (record,) = consumer.poll(30_000, max_records=1)
        with OurProducer(**cluster.client_options()) as producer:
            producer.send("orders", b"5 pears").result()
        first = consumed(cluster.librdkafka_properties(), "orders")

    assert record.value == b"4 apples"
    assert first == b"4 apples"


def test_three_nodes_replicate_over_what_secures_them() -> None:
    with EmbeddedCluster(nodes=3, security="tls+scram") as cluster:
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        produced(cluster.librdkafka_properties(), "orders", b"4 apples")
        value = consumed(cluster.librdkafka_properties(), "orders")

    assert value == b"4 apples"


def test_alice_may_not_do_what_admin_may() -> None:
    with EmbeddedCluster(security="tls+scram") as cluster:
        with Admin(**cluster.client_options("admin")) as admin:
            admin.create_topic("orders")
            allowed = admin.describe_acls()
        with Admin(**cluster.client_options("alice")) as admin:
            with pytest.raises(RefusedError) as refused:
                admin.describe_acls()
            topics = admin.list_topics()

    assert {each.principal for each in allowed} == {"User:alice"}
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [each.name for each in topics] == ["orders"]


@pytest.mark.parametrize("security", ["scram", "tls+plain"])
def test_a_wrong_password_is_an_answer_and_no_wait(security: str) -> None:
    with EmbeddedCluster(security=security) as cluster:
        options = cluster.client_options()
        options["sasl_jaas_config"] = options["sasl_jaas_config"].replace('password="', 'password="not-')
        with pytest.raises(ClientError, match=r"(?i)authentication failed"), Admin(**options) as admin:
            admin.list_topics()


def test_the_plugin_secures_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "def test_it(tidelog_cluster, tidelog_topic):\n"
        "    from tidelog import Producer\n"
        "    assert tidelog_cluster.client_options()['security_protocol'] == 'SASL_SSL'\n"
        "    with Producer(**tidelog_cluster.client_options()) as producer:\n"
        "        producer.send(tidelog_topic, b'1').result()\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tidelog-security", "tls+scram"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    assert ended.returncode == 0, ended.stdout


def test_up_is_secured_in_one_line_and_again_without_a_word(tmp_path: Path) -> None:
    for arguments in (("--tls", "--sasl", "scram"), ()):
        with CommandProcess("up", "--port", "0", "--dir", tmp_path, *arguments) as up:
            ready = up.ready_line()
            (row,) = json.loads((tmp_path / "cluster.json").read_text())
            config = tmp_path / "security" / "client.properties"
            listed = run(
                "topics", "list", "--bootstrap", f"127.0.0.1:{row['port']}", "--command-config", str(config), "--json"
            )
            up.send(signal.SIGTERM)
            assert up.end() == (0, "")

        assert "ready" in ready
        assert (listed.returncode, listed.stderr) == (0, "")


def test_a_secured_cluster_is_restarted_node_by_node(tmp_path: Path) -> None:
    with CommandProcess("up", "--nodes", "3", "--port", "0", "--dir", tmp_path, "--tls", "--sasl", "scram") as up:
        up.ready_line()
        before = json.loads((tmp_path / "cluster.json").read_text())
        restarted = run("cluster", "rolling-restart", "--dir", tmp_path, "--json")
        after = json.loads((tmp_path / "cluster.json").read_text())
        up.send(signal.SIGTERM)
        up.end()

    assert restarted.returncode == 0, restarted.stderr
    assert not {row["pid"] for row in before} & {row["pid"] for row in after}


def test_up_refuses_another_way_than_the_first(tmp_path: Path) -> None:
    with CommandProcess("up", "--port", "0", "--dir", tmp_path, "--sasl", "plain") as up:
        up.ready_line()
        up.send(signal.SIGTERM)
        up.end()

    ended = run("up", "--port", "0", "--dir", str(tmp_path), "--mtls")

    assert ended.returncode == 2
    assert "secured with plain, not with mtls" in ended.stderr
