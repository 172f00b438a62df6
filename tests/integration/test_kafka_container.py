"""`KafkaContainer`: a suite that was written for testcontainers-python, with one import changed."""

from __future__ import annotations

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tidelog.testing import ClusterError, KafkaContainer


def test_a_suite_moves_over_by_its_import() -> None:
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft().with_env("KAFKA_NUM_PARTITIONS", "3") as kafka:
        bootstrap = kafka.get_bootstrap_server()
        assert bootstrap == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
        producer.produce("orders", b"order")
        assert producer.flush(10) == 0
        topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics
        assert len(topics["orders"].partitions) == 3
        assert kafka.cluster.read("orders", 1)[0].value == b"order"


def test_the_cluster_has_the_id_that_it_is_given() -> None:
    kafka = KafkaContainer(port=19092).with_cluster_id("MkU3OEVBNTcwNTJENDM2Qg")
    kafka.start(timeout=10)
    try:
        assert kafka.cluster.cluster_id == "MkU3OEVBNTcwNTJENDM2Qg"
        assert kafka.get_exposed_port(19092) > 0
        with pytest.raises(ClusterError, match="has no port 9093: clients are served on 19092"):
            kafka.get_exposed_port(9093)
    finally:
        kafka.stop()
    kafka.stop()
    with pytest.raises(ClusterError, match="the container does not run"):
        kafka.get_bootstrap_server()


def test_what_only_a_container_has_is_refused_in_a_sentence() -> None:
    kafka = KafkaContainer()
    with pytest.raises(AttributeError, match="has no with_volume_mapping: it is a node in this process"):
        kafka.with_volume_mapping("/a", "/b")
    with pytest.raises(TypeError, match="has no volumes"):
        KafkaContainer(volumes=[])
    with pytest.raises(ClusterError, match="KAFKA_LISTENERS cannot be set: KafkaContainer decides listeners itself"):
        kafka.with_env("KAFKA_LISTENERS", "PLAINTEXT://:9092")
    with pytest.raises(ClusterError, match="a cluster id has 22 characters"):
        kafka.with_cluster_id("x")
    with pytest.raises(ClusterError, match=r"Unknown configuration no\.such\.key"):
        kafka.with_env("KAFKA_NO_SUCH_KEY", "1").start()
