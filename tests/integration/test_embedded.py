"""The embedded cluster, as a test program uses it."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.embedded_nodes import call_on, nodes_of
from tidelog.storage.errors import StorageError
from tidelog.testing import ClusterError, EmbeddedCluster


def write(bootstrap: str, topic: str, values: list[bytes]) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _message: failed.append(error) if error else None)
    assert producer.flush(20) == 0
    assert failed == []


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, timeout=20)
        assert [message.error() for message in messages] == [None] * count
        return [message.value() for message in messages]
    finally:
        consumer.close()


@pytest.fixture
def before() -> set[threading.Thread]:
    """The threads that were there already: other tests of the same process may have a cluster of their own."""
    return set(threading.enumerate())


def threads_left(before: set[threading.Thread]) -> list[str]:
    left = set(threading.enumerate()) - before
    return [thread.name for thread in left if thread.name.startswith("tidelog")]


def test_a_client_writes_and_reads(before: set[threading.Thread]) -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders")
        write(cluster.bootstrap_servers, "orders", [b"one", b"two"])

        assert read(cluster.bootstrap_servers, "orders", 2) == [b"one", b"two"]

    assert threads_left(before) == []


def test_it_can_be_used_from_a_coroutine(before: set[threading.Thread]) -> None:
    async def use() -> bool:
        async with EmbeddedCluster() as cluster:
            host, _, port = cluster.bootstrap_servers.partition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            await writer.wait_closed()
            return bool(cluster.cluster_id)

    assert asyncio.run(use())
    assert threads_left(before) == []


def test_two_do_not_meet() -> None:
    with EmbeddedCluster() as one, EmbeddedCluster() as other:
        one.create_topic("orders")

        assert one.cluster_id != other.cluster_id
        with pytest.raises(ClusterError, match="there is no topic orders"):
            other.delete_topic("orders")


def test_a_directory_that_is_given_is_kept_and_can_be_started_again(tmp_path: Path) -> None:
    with EmbeddedCluster(directory=tmp_path) as cluster:
        before = cluster.cluster_id
        cluster.create_topic("orders")
        write(cluster.bootstrap_servers, "orders", [b"one"])

    with EmbeddedCluster(directory=tmp_path) as cluster:
        assert cluster.cluster_id == before
        assert read(cluster.bootstrap_servers, "orders", 1) == [b"one"]


def test_logs_whose_identity_is_lost_do_not_become_another_cluster(tmp_path: Path) -> None:
    with EmbeddedCluster(directory=tmp_path):
        pass
    (tmp_path / "meta.properties").unlink()

    with pytest.raises(ClusterError, match=r"holds logs, and its meta\.properties is missing: put the file back"):
        EmbeddedCluster(directory=tmp_path).start()

    assert not (tmp_path / "meta.properties").exists()


def test_a_temporary_directory_is_removed() -> None:
    cluster = EmbeddedCluster().start()
    directory = Path(cluster.directory)
    assert (directory / "meta.properties").exists()

    cluster.stop()
    cluster.stop()

    assert not directory.exists()


def test_configuration_reaches_the_node() -> None:
    with EmbeddedCluster(config={"message.max.bytes": 1000, "auto.create.topics.enable": False}) as cluster:
        cluster.create_topic("small")
        with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
            write(cluster.bootstrap_servers, "small", [bytes(5000)])


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"log.retenton.ms": 1}, "did you mean log.retention.ms"),
        ({"num.partitions": "many"}, "Invalid value many"),
        ({"listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}, "SSL"),
    ],
)
def test_a_mistake_is_one_error_and_leaves_nothing(
    config: dict[str, str | int | bool], sentence: str, before: set[threading.Thread]
) -> None:
    with pytest.raises(ClusterError, match=sentence):
        EmbeddedCluster(config=config).start()

    assert threads_left(before) == []


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with EmbeddedCluster(directory=tmp_path), pytest.raises(ClusterError, match="cannot lock"):
        EmbeddedCluster(directory=tmp_path).start()


def test_several_nodes_are_one_cluster(before: set[threading.Thread]) -> None:
    with EmbeddedCluster(nodes=3) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        servers = cluster.bootstrap_servers.split(",")
        write(servers[0], "orders", [b"one", b"two"])
        found = read(servers[2], "orders", 2)

    assert len(set(servers)) == 3
    assert found == [b"one", b"two"]
    assert threads_left(before) == []


@pytest.mark.parametrize("nodes", [0, 100])
def test_a_number_of_nodes_that_makes_no_sense_is_refused(nodes: int) -> None:
    with pytest.raises(ClusterError, match=f"has 1 to 99 nodes, not {nodes}"):
        EmbeddedCluster(nodes=nodes)


def test_several_nodes_do_not_share_what_is_each_ones_own(before: set[threading.Thread]) -> None:
    with pytest.raises(
        ClusterError,
        match=r"node\.id cannot be set here: an embedded cluster of several nodes decides node\.id, broker\.id",
    ):
        EmbeddedCluster(nodes=3, config={"node.id": 1}).start()
    with pytest.raises(ClusterError, match=r"log\.dirs cannot be set for several nodes"):
        EmbeddedCluster(nodes=3, config={"log.dirs": "/nowhere"}).start()

    assert threads_left(before) == []


def test_a_cluster_that_does_not_run_says_so() -> None:
    cluster = EmbeddedCluster()
    with pytest.raises(ClusterError, match="does not run"):
        assert cluster.bootstrap_servers
    with cluster, pytest.raises(ClusterError, match="started once"):
        cluster.start()
    with pytest.raises(ClusterError, match="started once"):
        cluster.start()


def test_what_the_cluster_refuses_is_one_sentence() -> None:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders")
        with pytest.raises(ClusterError, match="TOPIC_ALREADY_EXISTS"):
            cluster.create_topic("orders")
        with pytest.raises(ClusterError, match="INVALID_TOPIC_EXCEPTION"):
            cluster.create_topic("a/b")
        cluster.delete_topic("missing", missing_ok=True)


def test_a_fault_of_the_node_is_told_at_the_stop(before: set[threading.Thread]) -> None:
    cluster = EmbeddedCluster().start()
    directory = cluster.directory

    async def fail() -> None:
        (node,) = nodes_of(cluster)
        node._metadata_failed(StorageError(directory, "write", errno.ENOSPC))

    call_on(cluster, fail())

    with pytest.raises(ClusterError, match=r"did not stop cleanly: cannot write .*No space left"):
        cluster.stop()
    assert threads_left(before) == []
    assert not Path(directory).exists()
