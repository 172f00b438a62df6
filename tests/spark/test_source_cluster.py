"""A driver that asks a cluster which is not there."""

from __future__ import annotations

import socket

import pytest

from tidelog.spark.errors import UnreadableError
from tidelog.spark.source.source_cluster import SourceCluster
from tidelog.spark.source.source_options import parse_source_options


def asked(servers: str) -> str:
    """What comes of the question which partitions there are."""
    options = parse_source_options(
        {
            "subscribe": "orders",
            "kafka.bootstrap.servers": servers,
            "kafka.default.api.timeout.ms": "300",
            "kafka.request.timeout.ms": "200",
        }
    )
    cluster = SourceCluster(options)
    try:
        with pytest.raises(UnreadableError) as raised:
            cluster.partitions()
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
