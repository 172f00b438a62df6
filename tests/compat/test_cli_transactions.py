"""`tidelog transactions` beside Apache Kafka's kafka-transactions: the same question to the same node, the same answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node
from tests.support.command_line import json_lines, tidelog
from tidelog import Admin, Producer
from tidelog.testing import EmbeddedCluster

pytestmark = pytest.mark.compat

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(scope="module", params=["tidelog", "kafka"])
def bootstrap(
    request: pytest.FixtureRequest, kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "tidelog":
        with EmbeddedCluster() as cluster:
            yield from prepared(cluster.bootstrap_servers)
    else:
        with Node(kafka, tmp_path_factory.mktemp("kafka"), SMALL_NODE) as node:
            yield from prepared(node.bootstrap)


def prepared(bootstrap: str) -> Iterator[str]:
    """A transaction that is open in two partitions, one that was committed, one that was aborted, and an id without any."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic("orders", partitions=3)
    with Producer(bootstrap_servers=bootstrap, transactional_id="open") as producer:
        for name in ("committed", "aborted", "empty"):
            with Producer(bootstrap_servers=bootstrap, transactional_id=name) as other:
                other.init_transactions()
                if name != "empty":
                    other.begin_transaction()
                    other.send("orders", b"x", partition=0).result(10)
                    (other.commit_transaction if name == "committed" else other.abort_transaction)()
        producer.init_transactions()
        producer.begin_transaction()
        for partition in (0, 2):
            producer.send("orders", b"x", partition=partition).result(10)
        yield bootstrap


def kafka_says(kafka: ApacheKafka, bootstrap: str, *arguments: str) -> list[dict[str, str]]:
    """The rows of a table by their titles."""
    said = kafka.tool(TRANSACTIONS, "--bootstrap-server", bootstrap, *arguments)
    assert said.code == 0, said
    titles, *rows = [line.split("\t") for line in said.stdout.splitlines() if line.strip()]
    return [{title.strip(): cell.strip() for title, cell in zip(titles, row, strict=False)} for row in rows]


def we_say(bootstrap: str, *arguments: str) -> list[dict[str, object]]:
    result = tidelog("transactions", *arguments, "--json", "--bootstrap", bootstrap)
    assert result.exit_code == 0, result.stderr
    return json_lines(result)


def test_the_list(kafka: ApacheKafka, bootstrap: str) -> None:
    theirs = {
        (row["TransactionalId"], int(row["Coordinator"]), int(row["ProducerId"]), row["TransactionState"])
        for row in kafka_says(kafka, bootstrap, "list")
    }
    ours = {
        (row["transactional_id"], row["coordinator"], row["producer_id"], row["state"])
        for row in we_say(bootstrap, "list")
    }
    assert ours == theirs
    assert {each[0]: each[3] for each in ours} == {
        "open": "Ongoing",
        "committed": "CompleteCommit",
        "aborted": "CompleteAbort",
        "empty": "Empty",
    }


def test_a_list_by_pattern_and_age(kafka: ApacheKafka, bootstrap: str) -> None:
    for kafkas, ours in (
        (("--transactional-id-pattern", "[oc].*"), ("--pattern", "[oc].*")),
        (("--duration-filter", "3600000"), ("--longer-than-ms", "3600000")),
    ):
        theirs = {row["TransactionalId"] for row in kafka_says(kafka, bootstrap, "list", *kafkas)}
        assert {row["transactional_id"] for row in we_say(bootstrap, "list", *ours)} == theirs


@pytest.mark.parametrize("name", ["open", "committed", "aborted", "empty"])
def test_a_description(kafka: ApacheKafka, bootstrap: str, name: str) -> None:
    (theirs,) = kafka_says(kafka, bootstrap, "describe", "--transactional-id", name)
    (ours,) = we_say(bootstrap, "describe", name)
    assert (ours["coordinator"], ours["producer_id"], ours["producer_epoch"], ours["state"], ours["timeout_ms"]) == (
        int(theirs["CoordinatorId"]),
        int(theirs["ProducerId"]),
        int(theirs["ProducerEpoch"]),
        theirs["TransactionState"],
        int(theirs["TransactionTimeoutMs"]),
    )
    started = theirs["CurrentTransactionStartTimeMs"]
    assert ours["start_time_ms"] == (None if started == "None" else int(started))
    partitions = theirs.get("TopicPartitions", "")
    assert ours["partitions"] == (
        {"orders": sorted(int(each.removeprefix("orders-")) for each in partitions.split(","))} if partitions else {}
    )


def test_producers_of_a_partition(kafka: ApacheKafka, bootstrap: str) -> None:
    theirs = {
        (
            int(row["ProducerId"]),
            int(row["ProducerEpoch"]),
            int(row["LatestCoordinatorEpoch"]),
            int(row["LastSequence"]),
            int(row["LastTimestamp"]),
            row["CurrentTransactionStartOffset"],
        )
        for row in kafka_says(kafka, bootstrap, "describe-producers", "--topic", "orders", "--partition", "0")
    }
    with Admin(bootstrap_servers=bootstrap) as admin:
        (found,) = admin.describe_producers([("orders", 0)]).values()
    assert isinstance(found, list)
    assert {
        (
            each.producer_id,
            each.producer_epoch,
            -1 if each.coordinator_epoch is None else each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp_ms,
            "None" if each.transaction_start_offset is None else str(each.transaction_start_offset),
        )
        for each in found
    } == theirs
    assert len(theirs) == 3


def test_nothing_hangs(kafka: ApacheKafka, bootstrap: str) -> None:
    assert kafka_says(kafka, bootstrap, "find-hanging", "--topic", "orders", "--max-transaction-timeout", "0") == []
    assert we_say(bootstrap, "find-hanging", "--topic", "orders", "--max-transaction-timeout", "0") == []
