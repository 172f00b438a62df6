"""Slips with the Python clients: each is found out at once, with a sentence, and leaves the client as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidelog import Admin, Consumer, Producer
from tidelog.testing import EmbeddedCluster
from tidelog.testing.errors import ClusterError


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders")
        yield cluster


def test_a_topic_of_bytes_is_refused_and_the_producer_goes_on(cluster: EmbeddedCluster) -> None:
    wrong: Any = b"orders"
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        with pytest.raises(TypeError, match="topics are named by text, not by bytes"):
            producer.send(wrong, b"x")
        assert producer.send("orders", b"x").result().topic == "orders"


def test_a_consumer_takes_a_list_of_topics(cluster: EmbeddedCluster) -> None:
    topics: Any = ["orders"]
    with Consumer(topics, bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
        assert consumer.subscription() == {"orders"}


@pytest.mark.parametrize("wrong", [(b"orders",), (7,), (["orders", 7],)])
def test_a_consumer_of_no_topic_is_refused(cluster: EmbeddedCluster, wrong: Any) -> None:
    with pytest.raises(TypeError, match="topics are named by text"):
        Consumer(*wrong, bootstrap_servers=cluster.bootstrap_servers, group_id="g")


def test_a_name_is_not_taken_for_a_list_of_topics_to_delete(cluster: EmbeddedCluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        with pytest.raises(TypeError, match=r"topics are given as a list of names, as in \['orders'\]"):
            admin.delete_topics("orders")
        assert "orders" in {topic.name for topic in admin.list_topics()}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"configs": {"retention.ms": 5}}, "retention.ms of topic x is given as text, as in '5', not as 5"),
        ({"configs": ["retention.ms"]}, "configs of topic x is a dictionary of texts"),
        ({"partitions": "3"}, "partitions of topic x is a number, not '3'"),
    ],
)
def test_a_topic_is_made_of_what_can_be_sent(cluster: EmbeddedCluster, given: Any, sentence: str) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin, pytest.raises(TypeError) as caught:
        admin.create_topic("x", **given)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("nodes", ["3", 0, 100])
def test_a_cluster_has_a_number_of_nodes(nodes: Any) -> None:
    with pytest.raises(ClusterError, match="an embedded cluster has 1 to"):
        EmbeddedCluster(nodes=nodes)
