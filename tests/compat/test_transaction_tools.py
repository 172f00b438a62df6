"""Apache Kafka's tools for transactions, against a node of ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.apache_kafka import ApacheKafka, Output
from tests.support.dump_log_segments import dump_log_segments
from tests.support.log_builder import LogBuilder
from tests.support.raw_client import RawClient
from tests.support.running_node import DEADLINE_S
from tests.support.tidelog_node import TidelogNode
from tests.support.transactional_clients import (
    TRANSACTION_SETTINGS,
    make_topic,
    new_name,
    read_all,
    transactional_producer,
    write,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

pytestmark = pytest.mark.compat

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
HOUR_MS = 3_600_000

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogNode]:
    # Without verification a batch that belongs to no transaction can be had, which then hangs.
    settings = TRANSACTION_SETTINGS | {"transaction.partition.verification.enable": "false"}
    node = TidelogNode.at(tmp_path_factory.mktemp("node"), **settings)
    with node.running():
        yield node


@pytest.fixture
def tool(kafka: ApacheKafka, node: TidelogNode) -> Tool:
    """kafka-transactions.sh, held to success."""

    def run(*arguments: str) -> str:
        done: Output = kafka.tool(TRANSACTIONS, "--bootstrap-server", node.bootstrap, *arguments)
        assert done.code == 0, f"{arguments}: {done}"
        return done.stdout + done.stderr

    return run


def rows(text: str, first: str) -> list[dict[str, str]]:
    """The rows that a tool printed, by the names of their columns."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    start = next(number for number, line in enumerate(lines) if line[0] == first)
    return [dict(zip(lines[start], line, strict=False)) for line in lines[start + 1 :]]


def test_transactions_are_listed_and_described(tool: Tool, node: TidelogNode) -> None:
    topic, name = make_topic(node.bootstrap), new_name("id")
    producer = transactional_producer(node.bootstrap, name)
    producer.begin_transaction()
    write(producer, topic, ["a"])

    (listed,) = [row for row in rows(tool("list"), "TransactionalId") if row["TransactionalId"] == name]
    assert listed["TransactionState"] == "Ongoing"
    (described,) = rows(tool("describe", "--transactional-id", name), "CoordinatorId")
    assert described["TransactionalId"] == name
    assert described["TransactionState"] == "Ongoing"
    assert f"{topic}-0" in described.values()
    (writer,) = rows(tool("describe-producers", "--topic", topic, "--partition", "0"), "ProducerId")
    assert writer["ProducerId"] == listed["ProducerId"]
    assert writer["CurrentTransactionStartOffset"] == "0"
    producer.commit_transaction(DEADLINE_S)
    (writer,) = rows(tool("describe-producers", "--topic", topic, "--partition", "0"), "ProducerId")
    assert writer["CurrentTransactionStartOffset"] == "None"
    assert [
        row["TransactionalId"] for row in rows(tool("list", "--transactional-id-pattern", name), "TransactionalId")
    ] == [name]


def test_a_hanging_transaction_is_found_and_aborted(tool: Tool, node: TidelogNode) -> None:
    topic = make_topic(node.bootstrap)
    batch = LogBuilder().batch(
        "hangs",
        producer_id=4_711,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
        timestamps=[int(time.time() * 1000) - HOUR_MS],
    )
    data = PartitionProduceData(index=0, records=bytes(batch))
    named = TopicProduceData(name=topic, topic_id=ZERO_UUID, partition_data=[data])
    request = ProduceRequest(transactional_id="nobody", acks=-1, timeout_ms=5_000, topic_data=[named])
    with RawClient(node.bootstrap) as client:
        answer = client.call(request, ProduceResponse, 11)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    other = transactional_producer(node.bootstrap, new_name("id"))
    other.begin_transaction()
    write(other, topic, ["behind it"])
    other.commit_transaction(DEADLINE_S)
    assert read_all(node.bootstrap, topic) == []

    (found,) = rows(tool("find-hanging", "--topic", topic, "--partition", "0"), "Topic")
    assert (found["Topic"], found["ProducerId"], found["StartOffset"]) == (topic, "4711", "0")
    tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")

    assert read_all(node.bootstrap, topic) == ["behind it"]


def test_a_transaction_is_terminated_by_force(tool: Tool, node: TidelogNode) -> None:
    topic, name = make_topic(node.bootstrap), new_name("id")
    producer = transactional_producer(node.bootstrap, name)
    producer.begin_transaction()
    write(producer, topic, ["a"])

    tool("forceTerminateTransaction", "--transactionalId", name)

    (described,) = rows(tool("describe", "--transactional-id", name), "CoordinatorId")
    assert described["TransactionState"] != "Ongoing"
    assert read_all(node.bootstrap, topic) == []


@pytest.mark.parametrize("group_mode", [False, True])
def test_kafkas_copier_copies_each_record_once(kafka: ApacheKafka, node: TidelogNode, group_mode: bool) -> None:
    source, target = make_topic(node.bootstrap), make_topic(node.bootstrap)
    values = [str(number) for number in range(200)]
    # Outside of a transaction: the copier counts offsets, and would wait for the marker to become a record.
    write(Producer({"bootstrap.servers": node.bootstrap}), source, values)
    arguments = [
        *("--broker-list", node.bootstrap),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--consumer-group", new_name("group"), "--transactional-id", new_name("id")),
        *("--max-messages", "200", "--transaction-size", "17", "--enable-random-aborts"),
    ]
    if group_mode:
        arguments += ["--group-mode", "--use-group-metadata"]

    done = kafka.tool(COPIER, *arguments)

    assert done.code == 0, done
    assert read_all(node.bootstrap, target) == values


def test_dump_log_segments_reads_the_coordinators_log(kafka: ApacheKafka, node: TidelogNode) -> None:
    topic, name = make_topic(node.bootstrap), new_name("dumped")
    producer = transactional_producer(node.bootstrap, name)
    for commit in (True, False):
        producer.begin_transaction()
        write(producer, topic, ["a"])
        if commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)

    files: list[Path] = sorted(node.data.glob("__transaction_state-*/*.log"))
    states = [
        record["payload"]["data"]["transactionStatus"]
        for dump in dump_log_segments(kafka, files, "--transaction-log-decoder").values()
        for record in dump.decoded_records()
        if record["key"]["data"]["transactionalId"] == name
    ]

    # Empty; then twice Ongoing, Prepare and Complete.
    assert states == [0, 1, 2, 4, 1, 3, 5]
