"""What a real node shows at its metrics port, after real clients have used it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.apache_kafka import free_ports
from tests.support.command_process import CommandProcess, run
from tests.support.running_node import DEADLINE_S, RunningNode
from tidelog.broker.node.health import BrokerState
from tidelog.net.address import Address
from tidelog.storage.errors import StorageError

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)+\})? (\S+)')

Samples = dict[str, float]


def get(url: str) -> tuple[int, str, str]:
    """Status, content type and body."""
    try:
        with urlopen(url, timeout=DEADLINE_S) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def parse(text: str) -> Samples:
    """Every sample by its name and labels. Fails where the text is not what the format allows."""
    samples: Samples = {}
    kinds: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("#"):
            _, word, name, rest = line.split(" ", 3)
            assert word in {"HELP", "TYPE"}
            if word == "TYPE":
                assert name not in kinds
                kinds[name] = rest
            continue
        matched = SAMPLE.fullmatch(line)
        assert matched, line
        name = matched[1]
        family = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
        assert kinds[family] in {"counter", "gauge", "histogram"}
        key = name + (matched[2] or "")
        assert key not in samples, line
        samples[key] = float(matched[3])
    return samples


class WatchedNode(RunningNode):
    """A node that shows its metrics."""

    def scrape(self) -> Samples:
        assert self.node.metrics_url is not None
        status, content_type, body = get(self.node.metrics_url)
        assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return parse(body)

    def health(self) -> tuple[int, dict[str, object]]:
        assert self.node.metrics_url is not None
        status, content_type, body = get(self.node.metrics_url.replace("/metrics", "/health"))
        assert content_type == "application/json"
        return status, json.loads(body)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[WatchedNode]:
    directories = f"{tmp_path}/a,{tmp_path}/b"
    settings = {"log.dirs": directories}
    with WatchedNode(tmp_path, settings=settings, metrics_address=Address("127.0.0.1", 0)) as running:
        yield running


def create(node: WatchedNode, topic: str, partitions: int = 1) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_S)
    return admin


def produce(node: WatchedNode, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5, "enable.idempotence": True})
    for number in range(records):
        producer.produce(topic, value=b"v" * 100, partition=number % 2)
    assert producer.flush(DEADLINE_S) == 0


def consume(node: WatchedNode, topic: str, records: int) -> None:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    read = 0
    while read < records:
        read += len(consumer.consume(records - read, timeout=DEADLINE_S))
    consumer.close()


def test_records_and_bytes_are_counted_exactly(node: WatchedNode) -> None:
    admin = create(node, "orders", partitions=2)
    topic = "kafka_server_broker_topic_metrics_"

    produce(node, "orders", 5000)
    consume(node, "orders", 5000)
    seen = node.scrape()

    assert seen[topic + 'messages_in_total{topic="orders"}'] == 5000
    assert seen[topic + "messages_in_total"] == 5000
    in_log = sum(seen[f'kafka_log_log_size{{topic="orders",partition="{number}"}}'] for number in (0, 1))
    assert seen[topic + 'bytes_in_total{topic="orders"}'] == in_log
    assert seen[topic + 'bytes_out_total{topic="orders"}'] >= in_log
    assert seen['kafka_log_log_log_end_offset{topic="orders",partition="1"}'] == 2500
    assert seen["kafka_server_replica_manager_leader_count"] == 2
    assert seen["kafka_controller_kafka_controller_global_topic_count"] == 1
    requests = "kafka_network_request_metrics_"
    produced = [value for key, value in seen.items() if key.startswith(requests + 'requests_total{request="Produce"')]
    assert sum(produced) == seen[requests + 'total_time_ms_count{request="Produce"}'] > 0
    assert seen[requests + 'errors_total{request="Produce",error="NONE"}'] >= sum(produced)
    assert seen[requests + 'request_bytes_total{request="Produce"}'] > in_log
    assert (
        seen[requests + 'remote_time_ms_count{request="Fetch"}']
        == seen[requests + 'total_time_ms_count{request="Fetch"}']
    )
    sockets = "kafka_server_socket_server_metrics_"
    assert seen[sockets + 'connection_creation_total{listener="PLAINTEXT"}'] >= 3
    assert seen[sockets + 'incoming_byte_total{listener="PLAINTEXT"}'] > in_log
    assert seen['kafka_server_raft_metrics_current_state{state="leader"}'] == 1

    admin.delete_topics(["orders"])["orders"].result(DEADLINE_S)
    seen = node.scrape()
    assert not [key for key in seen if 'topic="orders"' in key]
    assert seen[topic + "messages_in_total"] == 5000


def test_errors_are_counted_by_their_code(node: WatchedNode) -> None:
    create(node, "twice")
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        create(node, "twice")

    assert (
        node.scrape()['kafka_network_request_metrics_errors_total{request="CreateTopics",error="TOPIC_ALREADY_EXISTS"}']
        == 1
    )


def test_health_is_good_while_the_node_serves(node: WatchedNode) -> None:
    assert node.health() == (
        200,
        {
            "status": "running",
            "node_id": 1,
            "cluster_id": node.node.cluster_id,
            "active_controller": True,
            "offline_log_dirs": [],
        },
    )


@pytest.mark.parametrize(
    "state", [BrokerState.STARTING, BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN]
)
def test_health_is_bad_while_the_node_starts_and_stops(node: WatchedNode, state: BrokerState) -> None:
    node.node.state = state

    status, said = node.health()

    assert (status, said["status"]) == (503, state.name.lower())


def test_health_is_bad_while_a_log_directory_is_offline(node: WatchedNode, tmp_path: Path) -> None:
    second = list(node.node.log_directories)[1]

    async def fail() -> None:
        second.report_fault(StorageError(second.path, "write", None))

    node.run(fail())

    status, said = node.health()
    assert (status, said["status"], said["offline_log_dirs"]) == (503, "degraded", [f"{tmp_path}/b"])
    assert node.scrape()["kafka_log_log_manager_offline_log_directory_count"] == 1


def test_up_shows_the_metrics_of_its_node() -> None:
    # None of those that the system gives away: the node asks it for two of them before it opens this one.
    (port,) = free_ports(1)
    with CommandProcess("up", "--port", "0", "--metrics-port", str(port)) as up:
        up.ready_line()
        health = get(f"http://127.0.0.1:{port}/health")
        seen = parse(get(f"http://127.0.0.1:{port}/metrics")[2])

    assert health[0] == 200
    assert seen["kafka_server_kafka_server_broker_state"] == BrokerState.RUNNING
    assert seen["process_resident_memory_bytes"] > 1_000_000


def test_a_metrics_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = run(
            *("broker", "--set", "node.id=1", "--set", f"log.dirs={tmp_path}"),
            *("--set", "process.roles=broker,controller", "--set", "controller.listener.names=CONTROLLER"),
            *("--set", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"),
            *("--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
            *("--metrics-port", str(port)),
        )

    assert ended.returncode == 1
    assert f"127.0.0.1:{port}" in ended.stderr
    assert "Traceback" not in ended.stderr
