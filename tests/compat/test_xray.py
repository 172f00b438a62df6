"""`tidelog xray` of Apache Kafka's node: what the protocol alone tells, and nothing that it cannot know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node
from tests.support.command_line import json_lines, tidelog
from tidelog import Admin, Producer

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def node(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(kafka, tmp_path_factory.mktemp("kafka"), SMALL_NODE) as node:
        with Admin(bootstrap_servers=node.bootstrap) as admin:
            admin.create_topic("orders", partitions=1)
            with Producer(bootstrap_servers=node.bootstrap) as producer:
                for number in range(3):
                    producer.send("orders", b"order %d" % number).result()
            admin.alter_group_offsets("billing", {("orders", 0): 2})
        yield node


def test_a_record_in_apache_kafka(node: Node) -> None:
    (xray,) = json_lines(tidelog("xray", "orders:0@1", "--json", "--bootstrap", node.bootstrap))
    (segment,) = (Path(node.root) / "data" / "orders-0").glob("*.log")
    dumped = json_lines(tidelog("dump-log", segment, "--batches", "--json"))
    (batch,) = [each for each in dumped if each["type"] == "batch" and each["base_offset"] == 1]

    told = xray["batch"]
    assert (told["size"], told["crc"], told["base_sequence"]) == (
        batch["size_bytes"],
        batch["crc"],
        batch["base_sequence"],
    )
    assert (told["position"], told["is_valid"], xray["segment"], xray["index"]) == (None, None, None, None)
    assert (xray["hw"], xray["in_sync"], xray["listened"]) == (3, [1], False)
    assert xray["not_traced"] == ["node 1: not traced"]
    assert [(each["group"], each["passed"]) for each in xray["commits"]] == [("billing", True)]
    assert {each["source"] for each in xray["story"]} == {"protocol"}


def test_a_probe_is_sent_and_told_as_far_as_the_protocol_goes(node: Node) -> None:
    result = tidelog("xray", "orders:0", "--produce", "--bootstrap", node.bootstrap)
    drawn = tidelog("xray", "orders:0@3", "--svg", "--bootstrap", node.bootstrap)

    assert result.exit_code == 0, result.stderr
    assert "orders-0 offset 3" in result.stdout
    assert result.stdout.endswith("not traced: node 1: not traced\n")
    assert drawn.stdout.startswith("<svg")
    assert "not traced" in drawn.stdout
