"""Three processes that are one cluster, under librdkafka and our own clients: deaths, stops, and nothing lost or doubled.

All tests share the cluster, with Kafka's default time-outs, and leave it whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.cluster_load import (
    DEADLINE_S,
    ConfluentLoad,
    Load,
    OurLoad,
    check_nothing_lost_or_doubled,
    wait_until,
)
from tests.support.cluster_processes import ClusterProcesses
from tests.support.command_line import json_lines, tidelog
from tidelog import Admin
from tidelog.client.admin.topics import NewTopic, PartitionDescription
from tidelog.client.errors import ClientError
from tidelog.model.errors import ErrorCode
from tidelog.model.java_hash import partition_of


class Cluster:
    """The three nodes, and an administrator."""

    def __init__(self, processes: ClusterProcesses, admin: Admin) -> None:
        self.processes = processes
        self.nodes = processes.nodes
        self.bootstrap = processes.bootstrap
        self.admin = admin

    @property
    def active_controller(self) -> int:
        return self.admin.describe_quorum().leader_id

    def by_role(self) -> tuple[int, int, int]:
        """Two nodes that are not the active controller, and the one that is."""
        active = self.active_controller
        one, other = (number for number in self.nodes if number != active)
        return one, other, active

    def partition(self, topic: str, index: int = 0) -> PartitionDescription:
        return self.admin.describe_topic(topic).partitions[index]

    def until_in_sync(self, topic: str, nodes: Sequence[int] = (1, 2, 3)) -> None:
        def are_in_sync() -> bool:
            return all(set(each.in_sync) == set(nodes) for each in self.admin.describe_topic(topic).partitions)

        wait_until(are_in_sync, f"{topic} has {list(nodes)} in sync")

    def create(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """A topic whose partitions are placed, the first of each to lead."""
        outcomes = self.admin.create_topics([NewTopic(topic, replicas=replicas)])
        assert not isinstance(outcomes[topic], Exception), outcomes[topic]
        wait_until(lambda: self._leaders(topic) == [each[0] for each in replicas], f"{topic} has its leaders")

    def _leaders(self, topic: str) -> list[int | None]:
        """Of each partition; none where the node that was asked does not know the topic yet."""
        described = self.admin.describe_topics([topic])[topic]
        return [] if isinstance(described, ClientError) else [each.leader for each in described.partitions]

    def loads(self, topic: str) -> list[Load]:
        """librdkafka on partition 0 and our producer on partition 1, both of them writing when first asked."""
        return [ConfluentLoad(self.bootstrap, topic, 0), OurLoad(self.bootstrap, topic, 1)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    processes = ClusterProcesses(tmp_path_factory.mktemp("three-nodes"))
    with processes.running(), Admin(bootstrap_servers=processes.bootstrap) as admin:
        yield Cluster(processes, admin)


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    running.processes.start_missing()


@pytest.mark.parametrize("victim", ["leader", "follower", "active controller", "leader and active controller"])
def test_writes_go_on_after_a_kill_and_lose_and_double_nothing(
    cluster: Cluster, victim: str, record_property: Callable[[str, object], None]
) -> None:
    one, other, active = cluster.by_role()
    killed = {"leader": one, "follower": other}.get(victim, active)
    order = [active, one, other] if victim == "leader and active controller" else [one, other, active]
    topic = "killed-" + victim.replace(" ", "-")
    cluster.create(topic, [order, order])
    loads = cluster.loads(topic)

    with ExitStack() as writing:
        for load in loads:
            writing.enter_context(load)
            load.until_written()
        killed_s = time.monotonic()
        cluster.nodes[killed].kill()
        for load in loads:
            load.until_written()
        cluster.until_in_sync(topic, [number for number in order if number != killed])
        epochs = [each.leader_epoch for each in cluster.admin.describe_topic(topic).partitions]
        cluster.processes.start(killed)
        cluster.until_in_sync(topic)
        for load in loads:
            load.until_written()

    check_nothing_lost_or_doubled(cluster.bootstrap, loads)
    # Only the death of a leader makes others lead.
    assert epochs == [1 if killed == order[0] else 0] * 2
    assert (cluster.active_controller == active) == (killed != active)
    gaps = ", ".join(f"{load.name} {load.longest_gap_s(killed_s) * 1000:.0f} ms" for load in loads)
    record_property("summary", f"longest gap in acknowledged writes after kill -9 of the {victim}: {gaps}")


def test_nodes_that_stop_one_after_the_other_hand_over_first(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    cluster.create("rolled", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    loads = [*cluster.loads("rolled"), ConfluentLoad(cluster.bootstrap, "rolled", 2)]
    began_s = time.monotonic()

    with ExitStack() as writing:
        for load in loads:
            writing.enter_context(load)
            load.until_written()
        for number in cluster.nodes:
            assert cluster.nodes[number].stop() == 0
            led = [each.leader for each in cluster.admin.describe_topic("rolled").partitions]
            assert number not in led
            assert None not in led
            for load in loads:
                load.until_written(5)
            cluster.processes.start(number)
            cluster.until_in_sync("rolled")

    check_nothing_lost_or_doubled(cluster.bootstrap, loads)
    gaps = ", ".join(f"{load.name} {load.longest_gap_s(began_s) * 1000:.0f} ms" for load in loads)
    record_property("summary", f"longest gap in acknowledged writes while every node is stopped and started: {gaps}")


def test_a_node_that_has_stopped_gets_its_replicas_of_new_topics(cluster: Cluster) -> None:
    one, other, active = cluster.by_role()
    # One that leads nothing need not hand over before it may stop.
    cluster.create("handed-over", [[one, other, active]])
    assert cluster.nodes[one].stop() == 0

    cluster.admin.create_topic("maintained", partitions=2, replication_factor=3)
    cluster.until_in_sync("maintained", [other, active])
    assert all(set(each.replicas) == {1, 2, 3} for each in cluster.admin.describe_topic("maintained").partitions)

    cluster.processes.start(one)
    cluster.until_in_sync("maintained")


def test_too_few_in_sync_are_an_error_until_there_are_enough_again(cluster: Cluster) -> None:
    one, other, _ = cluster.by_role()
    cluster.create("pair", [[one, other]])
    cluster.nodes[other].kill()
    cluster.until_in_sync("pair", [one])

    errors: list[object] = []
    impatient = Producer({"bootstrap.servers": cluster.bootstrap, "retries": 0, "acks": "all"})
    impatient.produce("pair", b"refused", partition=0, on_delivery=lambda error, _: errors.append(error))
    impatient.flush(DEADLINE_S)
    assert [error.code() for error in errors if isinstance(error, KafkaError)] == [KafkaError.NOT_ENOUGH_REPLICAS]

    with OurLoad(cluster.bootstrap, "pair", 0) as load:
        cluster.processes.start(other)
        cluster.until_in_sync("pair", [one, other])
        load.until_written()
    check_nothing_lost_or_doubled(cluster.bootstrap, [load])


def test_partitions_are_added_and_the_preferred_leaders_elected_under_load(cluster: Cluster) -> None:
    cluster.create("grown", [[1, 2, 3], [2, 3, 1]])
    loads = cluster.loads("grown")

    with ExitStack() as writing:
        for load in loads:
            writing.enter_context(load)
            load.until_written()
        cluster.admin.create_partitions({"grown": 3}, replicas={"grown": [[3, 1, 2]]})
        added = OurLoad(cluster.bootstrap, "grown", 2)
        writing.enter_context(added)
        added.until_written()
        assert cluster.nodes[3].stop() == 0
        assert cluster.partition("grown", 2).leader != 3
        added.until_written(5)
        cluster.processes.start(3)
        cluster.until_in_sync("grown")
        elected = cluster.admin.elect_leaders(partitions=[("grown", index) for index in range(3)])
        for load in (*loads, added):
            load.until_written(5)

    assert {partition.partition: getattr(error, "code", None) for partition, error in elected.items()} == {
        0: ErrorCode.ELECTION_NOT_NEEDED,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        2: None,
    }
    assert [each.leader for each in cluster.admin.describe_topic("grown").partitions] == [1, 2, 3]
    check_nothing_lost_or_doubled(cluster.bootstrap, [*loads, added])


def test_a_transaction_over_all_nodes_outlives_its_coordinators_death(cluster: Cluster) -> None:
    cluster.create("paid", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "payments", "linger.ms": 0})
    producer.init_transactions(DEADLINE_S)
    for number in range(10):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("paid", b"%d" % number, partition=partition)
        if number == 5:
            # With records of an open transaction behind it; all of this id belong to one partition.
            producer.flush(DEADLINE_S)
            state = cluster.admin.describe_topic("__transaction_state")
            leader = state.partitions[partition_of("payments", len(state.partitions))].leader
            assert leader is not None
            cluster.nodes[leader].kill()
        if number % 5 == 4:
            producer.flush(DEADLINE_S)
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)

    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "payers", "isolation.level": "read_committed"}
    )
    consumer.assign([TopicPartition("paid", partition, 0) for partition in range(3)])
    found: dict[int | None, list[bytes]] = {0: [], 1: [], 2: []}
    deadline_s = time.monotonic() + DEADLINE_S
    while sum(map(len, found.values())) < 24 and time.monotonic() < deadline_s:
        for message in consumer.consume(100, 1.0):
            value = message.value()
            assert message.error() is None
            assert isinstance(value, bytes)
            found[message.partition()].append(value)
    consumer.close()
    assert found == {index: [b"%d" % number for number in range(10) if number % 5 != 4] for index in range(3)}


def test_all_of_them_stop_at_once_and_are_found_whole_again(cluster: Cluster) -> None:
    cluster.create("kept", [[1, 2, 3], [2, 3, 1]])
    loads = cluster.loads("kept")
    with ExitStack() as writing:
        for load in loads:
            writing.enter_context(load)
            load.until_written()

    codes = cluster.processes.stop()

    assert codes == [0, 0, 0]
    # Each was let go while there was a quorum, and has written down the epoch of its last registration.
    assert not any("goes all the same" in node.log for node in cluster.nodes.values())
    assert {number: node.marked_epoch for number, node in cluster.nodes.items()} == _last_registrations(cluster)
    cluster.processes.start()
    cluster.until_in_sync("kept")
    check_nothing_lost_or_doubled(cluster.bootstrap, loads)


def _last_registrations(cluster: Cluster) -> dict[int, int]:
    """The broker epochs in the metadata log: where each broker's last registration is."""
    log = cluster.nodes[1].data / "__cluster_metadata-0" / "00000000000000000000.log"
    found: dict[int, int] = {}
    for line in json_lines(tidelog("dump-log", "--json", log)):
        value = (line.get("decoded") or {}).get("value") or {}
        if value.get("message") == "RegisterBrokerRecord":
            found[value["fields"]["broker_id"]] = line["offset"]
    return found
