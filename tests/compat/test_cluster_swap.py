"""A whole cluster of three nodes is stopped, goes on as Apache Kafka 4.3.1 on the same directories, and comes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.cluster_load import DEADLINE_S, read_with_confluent, read_with_ours, wait_until
from tests.support.cluster_processes import ClusterProcesses
from tests.support.kafka_processes import KafkaProcesses
from tidelog import Admin
from tidelog.client.admin import NewTopic, TopicDescription
from tidelog.controller.metadata_version import NEWEST, OLDEST, MetadataVersion

pytestmark = pytest.mark.compat

PARTITIONS = range(3)
# What Kafka logs when it does not trust a file, or has to make it again.
TROUBLE = (
    "orrupt",
    "ebuilding index",
    "ecovering unflushed",
    "stray",
    "Deleted producer state",
    "was not shut down cleanly",
)


def write(cluster: ClusterProcesses, numbers: Sequence[int]) -> None:
    """Numbers to all partitions by an idempotent producer, and then in a transaction; and one that is aborted."""
    plain = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in numbers:
        plain.produce("orders", b"%d" % number, partition=number % 3)
    assert plain.flush(DEADLINE_S) == 0
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "payments"})
    producer.init_transactions(DEADLINE_S)
    for is_committed in (True, False):
        producer.begin_transaction()
        for number in numbers:
            producer.produce("payments", b"%d" % number if is_committed else b"never", partition=number % 3)
        if is_committed:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.flush(DEADLINE_S)
            producer.abort_transaction(DEADLINE_S)


def commit(cluster: ClusterProcesses, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "auditors"})
    consumer.commit(
        offsets=[confluent_kafka.TopicPartition("orders", index, offset) for index in PARTITIONS], asynchronous=False
    )
    consumer.close()


def committed(cluster: ClusterProcesses) -> list[int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "auditors"})
    found = consumer.committed([confluent_kafka.TopicPartition("orders", index) for index in PARTITIONS], DEADLINE_S)
    consumer.close()
    return [each.offset for each in found]


def until_whole(admin: Admin) -> list[TopicDescription]:
    """All topics once every replica is in sync."""

    def topics() -> list[TopicDescription]:
        return [admin.describe_topic(each.name) for each in admin.list_topics()]

    def is_whole() -> bool:
        return all(len(each.in_sync) == 3 for topic in topics() for each in topic.partitions)

    wait_until(is_whole, "all replicas are in sync")
    return topics()


def payments(cluster: ClusterProcesses, count: int) -> list[set[bytes]]:
    """What a reader of committed records finds in each partition."""
    options = {"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "isolation.level": "read_committed"}
    consumer = confluent_kafka.Consumer(options)
    consumer.assign([confluent_kafka.TopicPartition("payments", index, 0) for index in PARTITIONS])
    found: list[list[bytes]] = [[], [], []]

    def has_all() -> bool:
        for message in consumer.consume(500, 1.0):
            value = message.value()
            assert message.error() is None
            assert isinstance(value, bytes)
            found[message.partition() or 0].append(value)
        return sum(map(len, found)) >= count

    wait_until(has_all, f"{count} committed records are read")
    consumer.close()
    assert sum(map(len, found)) == count
    return [set(each) for each in found]


def expected(end: int, index: int) -> list[bytes]:
    return [b"%d" % number for number in range(end) if number % 3 == index]


@pytest.mark.parametrize("version", [NEWEST, OLDEST], ids=lambda version: version.name)
def test_a_stopped_cluster_goes_on_as_apache_kafka_and_comes_back(
    kafka: ApacheKafka, tmp_path: Path, version: MetadataVersion
) -> None:
    cluster = ClusterProcesses(tmp_path, version=version, is_static=version is OLDEST)
    with cluster.running(), Admin(bootstrap_servers=cluster.bootstrap) as admin:
        assert admin.describe_features()["metadata.version"].level == version.level
        replicas = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        admin.create_topics([NewTopic(name, replicas=replicas) for name in ("orders", "payments")])
        write(cluster, range(300))
        commit(cluster, 50)
        ours = until_whole(admin)
        assert cluster.stop() == [0, 0, 0]

    theirs = KafkaProcesses(kafka, cluster, tmp_path)
    with theirs.running(), Admin(bootstrap_servers=cluster.bootstrap) as admin:
        described = until_whole(admin)
        assert {(each.name, each.id) for each in described} == {(each.name, each.id) for each in ours}
        assert [each.node_id for each in admin.describe_quorum().voters] == [1, 2, 3]
        for index in PARTITIONS:
            assert read_with_confluent(cluster.bootstrap, "orders", index, 100) == expected(300, index)
        assert payments(cluster, 300) == [set(expected(300, index)) for index in PARTITIONS]
        assert committed(cluster) == [50, 50, 50]
        write(cluster, range(300, 450))
        commit(cluster, 60)
        until_whole(admin)
    for number in cluster.nodes:
        troubled = [line for line in theirs.log(number).splitlines() if any(each in line for each in TROUBLE)]
        # Its own metadata log Kafka recovers at every start, however it was stopped.
        assert [line for line in troubled if "__cluster_metadata" not in line] == []

    with cluster.running(), Admin(bootstrap_servers=cluster.bootstrap) as admin:
        again = until_whole(admin)
        assert {(each.name, each.id) for each in again} == {(each.name, each.id) for each in ours}
        for index in PARTITIONS:
            assert read_with_ours(cluster.bootstrap, "orders", index, 150) == expected(450, index)
        assert payments(cluster, 450) == [set(expected(450, index)) for index in PARTITIONS]
        assert committed(cluster) == [60, 60, 60]
        write(cluster, range(450, 460))
        assert payments(cluster, 460) == [set(expected(460, index)) for index in PARTITIONS]
        assert cluster.stop() == [0, 0, 0]
