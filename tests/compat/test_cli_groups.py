"""`tidelog groups` beside Apache Kafka's kafka-consumer-groups: the same question to the same node, the same answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node, wait_until
from tests.support.command_line import json_lines, tidelog
from tidelog import Admin, Producer
from tidelog.testing import EmbeddedCluster

pytestmark = pytest.mark.compat

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUP = "readers"

Rows = list[tuple[str, int, int]]


@pytest.fixture(scope="module", params=["tidelog", "kafka"])
def bootstrap(
    request: pytest.FixtureRequest, kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "tidelog":
        with EmbeddedCluster() as cluster:
            prepare(cluster.bootstrap_servers)
            yield cluster.bootstrap_servers
    else:
        with Node(kafka, tmp_path_factory.mktemp("kafka"), SMALL_NODE) as node:
            prepare(node.bootstrap)
            yield node.bootstrap


def prepare(bootstrap: str) -> None:
    """Ten records with the times 1000, 2000 and so on in each of two partitions, the second of which has lost two."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic("orders", partitions=2)
        wait_until(lambda: "orders" in {topic.name for topic in admin.list_topics()}, "the topic is there")
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(10):
                for partition in range(2):
                    producer.send("orders", b"x", partition=partition, timestamp_ms=1000 * (number + 1))
        admin.delete_records({("orders", 1): 2})
        admin.alter_group_offsets(GROUP, {("orders", 0): 5, ("orders", 1): 4})


def kafka_says(kafka: ApacheKafka, bootstrap: str, *arguments: str) -> Rows:
    """The new offsets in the table of a dry run."""
    said = kafka.tool(
        GROUPS, "--bootstrap-server", bootstrap, "--group", GROUP, "--reset-offsets", "--dry-run", *arguments
    )
    assert said.code == 0, said
    cells = [line.split() for line in said.stdout.splitlines()]
    return sorted((row[1], int(row[2]), int(row[3])) for row in cells if len(row) >= 4 and row[0] == GROUP)


def we_say(bootstrap: str, *arguments: str) -> Rows:
    result = tidelog("groups", "reset-offsets", GROUP, *arguments, "--json", "--bootstrap", bootstrap)
    assert result.exit_code == 0, result.output
    return [(row["topic"], row["partition"], row["new_offset"]) for row in json_lines(result)]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (["--topic", "orders", "--to-earliest"], ["orders", "--to-earliest"]),
        (["--topic", "orders:1", "--to-latest"], ["orders:1", "--to-latest"]),
        (["--all-topics", "--to-latest"], ["--all-topics", "--to-latest"]),
        (["--topic", "orders", "--to-offset", "1"], ["orders", "--to-offset", "1"]),
        (["--topic", "orders", "--to-offset", "99"], ["orders", "--to-offset", "99"]),
        (["--topic", "orders", "--shift-by", "-3"], ["orders", "--shift-by", "-3"]),
        (
            ["--topic", "orders", "--to-datetime", "1970-01-01T00:00:06.500"],
            ["orders", "--to-time", "1970-01-01T00:00:06.500"],
        ),
        (["--topic", "orders", "--to-datetime", "2999-01-01T00:00:00.000"], ["orders", "--to-time", "2999-01-01"]),
        (["--topic", "orders", "--by-duration", "PT1H"], ["orders", "--by-duration", "PT1H"]),
    ],
)
def test_a_reset_leads_to_the_same_place(
    kafka: ApacheKafka, bootstrap: str, theirs: list[str], ours: list[str]
) -> None:
    expected = kafka_says(kafka, bootstrap, *theirs)

    assert expected
    assert we_say(bootstrap, *ours) == expected


def test_lag_and_state_are_the_same(kafka: ApacheKafka, bootstrap: str) -> None:
    told = kafka.tool(GROUPS, "--bootstrap-server", bootstrap, "--group", GROUP, "--describe")
    expected = sorted(
        (int(row[2]), int(row[3]), int(row[4]), int(row[5]))
        for row in (line.split() for line in told.stdout.splitlines())
        if len(row) > 5 and row[0] == GROUP
    )
    rows = json_lines(tidelog("groups", "lag", GROUP, "--json", "--bootstrap", bootstrap))

    assert [(row["partition"], row["committed"], row["end"], row["lag"]) for row in rows] == expected
    listed = kafka.tool(GROUPS, "--bootstrap-server", bootstrap, "--list", "--state").stdout.split()
    (row,) = json_lines(tidelog("groups", "list", "--json", "--bootstrap", bootstrap))
    assert [row["group"], row["state"]] == listed[-2:]
