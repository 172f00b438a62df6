"""Compacted logs, seen by Apache Kafka: its own tester, its dump, its broker on our directory, and ours on its."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka, Node, wait_until
from tests.support.dump_log_segments import complaints, run
from tests.support.kafka_driver import KafkaDriver, Received, Sent
from tests.support.tidelog_node import TidelogNode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.storage.checkpoint_file import CLEANER_OFFSET_CHECKPOINT, read_offsets
from tidelog.storage.os_files import OsFiles

pytestmark = pytest.mark.compat

TOPIC = "orders"
ORDERS = TopicPartition(TopicName(TOPIC), PartitionIndex(0))
TESTER = "org.apache.kafka.tools.LogCompactionTester"
# A cleaner that does not wait.
EAGER = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01", "log.segment.bytes": "1048576"}
COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "86400000", "segment.bytes": "1048576"}
GAP = re.compile(r"  \d+ is followed by \d+")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def cleaned_until(data: Path) -> int:
    return read_offsets(OsFiles(), f"{data}/{CLEANER_OFFSET_CHECKPOINT}").get(ORDERS, 0)


def fill(driver: KafkaDriver, rounds: int) -> None:
    """Many values for few keys, in every codec, of plain and of transactional producers; and some deletions."""
    for codec in CODECS:
        driver.open_producer(codec, **{"compression.type": codec})
    driver.open_producer("txn", **{"transactional.id": f"txn-{time.time_ns()}"})
    for number in range(rounds):
        codec = CODECS[number % len(CODECS)]
        records = [Sent(f"{codec} {each}".encode(), f"{number}.{each} ".encode() + b"x" * 4000) for each in range(20)]
        driver.send(codec, TOPIC, records)
        driver.begin("txn")
        driver.send("txn", TOPIC, [Sent(b"txn %d" % (number % 7), b"%d" % number), Sent(b"shared", b"%d" % number)])
        if number % 3 == 0:
            driver.abort("txn")
        else:
            driver.commit("txn")
    driver.send("none", TOPIC, [Sent(b"none 3", None), Sent(b"gzip 3", None)])
    for name in (*CODECS, "txn"):
        driver.close_producer(name)


def last_values(rows: list[Received]) -> dict[bytes | None, bytes | None]:
    return {row.key: row.value for row in rows}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, what, timeout_s=60.0)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_kafkas_own_tester_is_content(kafka: ApacheKafka, tmp_path: Path, codec: str) -> None:
    node = TidelogNode(Node(kafka, tmp_path, EAGER))
    with node.running():
        done = kafka.tool(
            TESTER,
            *("--bootstrap-server", node.bootstrap, "--messages", "200000", "--duplicates", "10"),
            # Its help says milliseconds, and it sleeps for seconds.
            *("--percent-deletes", "20", "--sleep", "4", "--compression-type", codec),
            timeout_s=180,
        )

        assert done.code == 0, done.stdout + done.stderr
        checkpoint = read_offsets(OsFiles(), f"{node.data}/{CLEANER_OFFSET_CHECKPOINT}")
        assert any(name.topic.startswith("log-cleaner-test") and offset for name, offset in checkpoint.items())


@pytest.fixture
def compacted_by_us(kafka: ApacheKafka, tmp_path: Path) -> tuple[TidelogNode, Node, dict[bytes | None, bytes | None]]:
    """A directory whose log we have compacted, stopped; and what a reader of committed records gathers from it."""
    place = Node(kafka, tmp_path, EAGER, log_level="info")
    node = TidelogNode(place)
    with node.running(), KafkaDriver(kafka, node.bootstrap) as driver:
        driver.create_topic(TOPIC, config=COMPACTED)
        fill(driver, 80)
        gathered = last_values(driver.consume(TOPIC, committed=True))
        wait_for(lambda: cleaned_until(node.data) > 500, "our cleaner has been at work")
        assert last_values(driver.consume(TOPIC, committed=True)) == gathered
    return node, place, gathered


def test_kafkas_dump_finds_nothing_wrong(
    kafka: ApacheKafka, compacted_by_us: tuple[TidelogNode, Node, dict[bytes | None, bytes | None]]
) -> None:
    node, _, _ = compacted_by_us
    partition = node.data / "orders-0"

    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        files = sorted(partition.glob(f"*{suffix}"))
        options = ("--deep-iteration", "--print-data-log") if suffix == ".log" else ()
        assert files or suffix == ".txnindex"
        if files:
            found = complaints(run(kafka, files, *options))
            # The gaps that compaction leaves are no fault.
            assert [line for line in found if not GAP.fullmatch(line)] == []
            assert found or suffix != ".log"


def test_kafka_goes_on_with_what_we_compacted(
    kafka: ApacheKafka, compacted_by_us: tuple[TidelogNode, Node, dict[bytes | None, bytes | None]]
) -> None:
    node, place, gathered = compacted_by_us
    before = cleaned_until(node.data)

    with place.running(), KafkaDriver(kafka, place.bootstrap) as driver:
        assert last_values(driver.consume(TOPIC, committed=True)) == gathered
        fill(driver, 80)
        gathered = last_values(driver.consume(TOPIC, committed=True))
        wait_for(lambda: cleaned_until(place.data) > before, "Kafka's cleaner has been at work")
        assert last_values(driver.consume(TOPIC, committed=True)) == gathered
    # It began where we had ended.
    assert f"dirty section = [{before}, " in place.log_file.read_text(errors="replace")

    between = cleaned_until(place.data)
    with node.running(), KafkaDriver(kafka, node.bootstrap) as driver:
        assert last_values(driver.consume(TOPIC, committed=True)) == gathered
        fill(driver, 80)
        gathered = last_values(driver.consume(TOPIC, committed=True))
        wait_for(lambda: cleaned_until(node.data) > between, "our cleaner has been at work again")
        assert last_values(driver.consume(TOPIC, committed=True)) == gathered
