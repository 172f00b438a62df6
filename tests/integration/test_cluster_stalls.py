"""Processes that hang, and consumers that read from the replica next to them: three nodes with short time-outs, in two rooms."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import confluent_kafka
import pytest

from tests.support.cluster_load import (
    DEADLINE_S,
    ConfluentLoad,
    Load,
    OurLoad,
    check_nothing_lost_or_doubled,
    wait_until,
)
from tests.support.cluster_processes import ClusterProcesses, free_ports
from tidelog import Admin, Consumer
from tidelog.client.admin import NewTopic, TopicDescription
from tidelog.client.errors import ClientError

# Short, to be quick, and longer than a machine with other work to do may keep a node waiting that is well: one that is taken for
# lost for a moment leaves its partitions to others, and nothing gives them back.
SETTINGS = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "2500",
    "controller.quorum.fetch.timeout.ms": "1500",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
# Who waits for a node that hangs finds another one only then. Longer than metadata is held back for a leader in doubt.
PATIENCE_MS = 2000
ROOMS = {1: "east", 2: "west", 3: "east"}


class Cluster:
    def __init__(self, processes: ClusterProcesses, admin: Admin, metrics_ports: dict[int, int]) -> None:
        self.nodes = processes.nodes
        self.bootstrap = processes.bootstrap
        self.admin = admin
        self._metrics_ports = metrics_ports

    def create(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        self.admin.create_topics([NewTopic(topic, replicas=replicas)])
        wait_until(lambda: self._is_led_by(topic, [each[0] for each in replicas]), f"{topic} has its leaders")

    def _is_led_by(self, topic: str, leaders: list[int]) -> bool:
        described = self.admin.describe_topics([topic])[topic]
        return not isinstance(described, ClientError) and [each.leader for each in described.partitions] == leaders

    def topic(self, topic: str) -> TopicDescription:
        return self.admin.describe_topic(topic)

    def until_in_sync(self, topic: str, nodes: Sequence[int]) -> None:
        wait_until(
            lambda: all(set(each.in_sync) == set(nodes) for each in self.topic(topic).partitions),
            f"{topic} has {list(nodes)} in sync",
        )

    def bytes_sent(self, number: int, topic: str) -> int:
        """What a node has sent of a topic to consumers."""
        url = f"http://127.0.0.1:{self._metrics_ports[number]}/metrics"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            text = answer.read().decode()
        name = "kafka_server_broker_topic_metrics_bytes_out_total"
        found = re.search(rf'^{name}{{[^}}]*topic="{topic}"[^}}]*}} (\S+)', text, re.MULTILINE)
        return 0 if found is None else int(float(found[1]))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    processes = ClusterProcesses(tmp_path_factory.mktemp("stalls"), settings=SETTINGS)
    ports = dict(zip(processes.nodes, free_ports(3), strict=True))
    for number, node in processes.nodes.items():
        node.properties["broker.rack"] = ROOMS[number]
        node.options = ["--metrics-port", str(ports[number])]
    with (
        processes.running(),
        Admin(bootstrap_servers=processes.bootstrap, request_timeout_ms=PATIENCE_MS) as admin,
    ):
        yield Cluster(processes, admin, ports)


def writing(cluster: Cluster, topic: str, stack: ExitStack) -> list[Load]:
    loads: list[Load] = [
        ConfluentLoad(cluster.bootstrap, topic, 0, request_timeout_ms=PATIENCE_MS),
        OurLoad(cluster.bootstrap, topic, 1, request_timeout_ms=PATIENCE_MS),
    ]
    for load in loads:
        stack.enter_context(load)
        load.until_written()
    return loads


def test_a_follower_that_hangs_leaves_the_set_and_comes_back(cluster: Cluster) -> None:
    active = cluster.admin.describe_quorum().leader_id
    held, leader = (number for number in cluster.nodes if number != active)
    cluster.create("lagging", [[leader, held, active]] * 2)
    with ExitStack() as stack:
        loads = writing(cluster, "lagging", stack)
        cluster.nodes[held].hold()
        try:
            cluster.until_in_sync("lagging", [leader, active])
            for load in loads:
                load.until_written()
        finally:
            cluster.nodes[held].go_on()
        cluster.until_in_sync("lagging", [1, 2, 3])
        assert [each.leader_epoch for each in cluster.topic("lagging").partitions] == [0, 0]
    check_nothing_lost_or_doubled(cluster.bootstrap, loads)


def test_a_leader_and_active_controller_that_hangs_is_replaced_and_comes_back(cluster: Cluster) -> None:
    held = cluster.admin.describe_quorum().leader_id
    one, other = (number for number in cluster.nodes if number != held)
    cluster.create("stalled", [[held, one, other]] * 2)
    with ExitStack() as stack:
        loads = writing(cluster, "stalled", stack)
        cluster.nodes[held].hold()
        try:
            for load in loads:
                # What was acknowledged before may still be on its way to be told.
                load.until_written(50)
            wait_until(lambda: cluster.admin.describe_quorum().leader_id != held, "another controller is known")
            wait_until(
                lambda: all(each.leader in (one, other) for each in cluster.topic("stalled").partitions),
                "other leaders are known",
            )
        finally:
            cluster.nodes[held].go_on()
        cluster.until_in_sync("stalled", [1, 2, 3])
        for load in loads:
            load.until_written()
    check_nothing_lost_or_doubled(cluster.bootstrap, loads)


def test_consumers_read_from_the_replica_in_their_room(cluster: Cluster) -> None:
    cluster.create("near", [[1, 2, 3]])
    with ConfluentLoad(cluster.bootstrap, "near", 0) as load:
        load.until_written(50)
    expected = load.acknowledged
    # Who lags behind is read from by nobody.
    cluster.until_in_sync("near", [1, 2, 3])

    ours: list[bytes] = []
    with Consumer(bootstrap_servers=cluster.bootstrap, client_rack="west", auto_offset_reset="earliest") as consumer:
        consumer.assign([("near", 0)])
        wait_until(lambda: len(_take(consumer, ours)) >= len(expected), "our consumer has read everything")
    sent_to_ours = cluster.bytes_sent(2, "near")
    theirs: list[bytes] = []
    options = {"bootstrap.servers": cluster.bootstrap, "group.id": "near", "client.rack": "west"}
    librdkafka = confluent_kafka.Consumer(options)
    librdkafka.assign([confluent_kafka.TopicPartition("near", 0, 0)])
    wait_until(lambda: len(_consume(librdkafka, theirs)) >= len(expected), "librdkafka has read everything")
    librdkafka.close()

    assert ours == theirs == expected
    assert 0 < sent_to_ours < cluster.bytes_sent(2, "near")
    assert [cluster.bytes_sent(number, "near") for number in (1, 3)] == [0, 0]


def _take(consumer: Consumer, found: list[bytes]) -> list[bytes]:
    found += [row.value for row in consumer.poll(1000)]
    return found


def _consume(consumer: confluent_kafka.Consumer, found: list[bytes]) -> list[bytes]:
    for message in consumer.consume(500, 1.0):
        value = message.value()
        assert message.error() is None
        assert isinstance(value, bytes)
        found.append(value)
    return found
