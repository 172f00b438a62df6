"""A driver that asks a cluster: one that is not there, and one that has topics nobody means."""

from __future__ import annotations

import re
import socket
from uuid import uuid4

import pytest

from tidelog import Admin, Consumer
from tidelog.client.errors import RefusedError
from tidelog.spark.errors import UnreadableError
from tidelog.spark.sink.sink_decisions import TOPIC as DECISIONS
from tidelog.spark.source.source_cluster import SourceCluster
from tidelog.spark.source.source_options import parse_source_options
from tidelog.testing import EmbeddedCluster


def asked(servers: str) -> str:
    """What comes of the question which partitions there are."""
    options = parse_source_options(
        {
            "subscribe": "orders",
            "kafka.bootstrap.servers": servers,
            "kafka.default.api.timeout.ms": "1500",
            "kafka.request.timeout.ms": "1000",
        }
    )
    cluster = SourceCluster(options)
    try:
        with pytest.raises(UnreadableError) as raised:
            cluster.chosen()
    finally:
        cluster.close()
    return str(raised.value)


def test_a_name_that_nobody_knows_is_said_at_once() -> None:
    assert asked("kafka.invalid:9092").endswith("no host is known as kafka.invalid")


def test_where_nobody_answers_it_says_at_which_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]

    assert asked(f"kafka.invalid:9092,127.0.0.1:{port}").endswith(
        f"cannot connect to 127.0.0.1:{port}: connection refused"
    )


def found(cluster: EmbeddedCluster, pattern: str) -> set[str]:
    """The topics that a pattern finds."""
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribePattern": pattern}
    asking = SourceCluster(parse_source_options(given))
    try:
        return {each.topic for each in asking.chosen().partitions}
    finally:
        asking.close()


def test_a_pattern_finds_internal_topics_only_by_their_names(cluster: EmbeddedCluster, topic: str) -> None:
    internal = {DECISIONS, f"__tidelog_{uuid4().hex}", "__consumer_offsets"}
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for name in sorted(internal):
            try:
                admin.create_topic(name, partitions=1)
            except RefusedError:
                assert name in {each.name for each in admin.list_topics()}, "others of these tests have made it"
        listed = {each.name for each in admin.list_topics(include_internal=False)}
        told = {each.name for each in admin.list_topics() if each.is_internal}
        described = admin.describe_topic(DECISIONS)

    everything = found(cluster, ".*")
    assert topic in everything
    assert not everything & internal
    assert found(cluster, "__.*") == set()
    assert found(cluster, DECISIONS) == {DECISIONS}
    assert found(cluster, f"{topic}|{DECISIONS}|__consumer_offsets") == {topic, DECISIONS, "__consumer_offsets"}

    # Those who list topics or read them by a pattern do not mean these either.
    assert topic in listed
    assert not listed & internal
    assert told >= internal
    assert described.is_internal
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=f"g-{topic}") as consumer:
        consumer.subscribe(pattern=re.compile(f"{topic}|__tidelog_.*"))
        while not consumer.assignment():
            consumer.poll(100)
        assert {each.topic for each in consumer.assignment()} == {topic}
