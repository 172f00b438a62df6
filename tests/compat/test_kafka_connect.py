"""Kafka Connect against a node of ours: a distributed worker that is killed, a source that is exactly once, and a sink."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from tests.support.apache_kafka import NODE_JVM, ApacheKafka, free_ports, wait_until
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

TIMEOUT_S = 90.0
REQUEST_TIMEOUT_S = 30.0
PARTITIONS = 2


@pytest.fixture
def node(tmp_path: Path) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path / "node", group_initial_rebalance_delay_ms="0")
    with node.running():
        yield node


class Worker:
    """What one worker of the Connect cluster says over HTTP."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"

    def ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._base + path, data, {"Content-Type": "application/json"})
        with urlopen(request, timeout=REQUEST_TIMEOUT_S) as answer:
            return json.load(answer)

    def serves(self) -> bool:
        try:
            self.ask("/connectors")
        except (URLError, OSError):
            return False
        return True

    def tasks_that_run(self, connector: str) -> int:
        try:
            status = self.ask(f"/connectors/{connector}/status")
        except URLError:
            return 0
        assert all(task["state"] != "FAILED" for task in status["tasks"]), status
        return sum(task["state"] == "RUNNING" for task in status["tasks"])


@contextmanager
def worker(kafka: ApacheKafka, node: TidelogNode, place: Path) -> Iterator[tuple[Worker, subprocess.Popen[str]]]:
    place.mkdir()
    port = free_ports(1)[0]
    settings = {
        "bootstrap.servers": node.bootstrap,
        "group.id": "connect",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "1000",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.flush.interval.ms": "200",
        "exactly.once.source.support": "enabled",
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "service_load",
    }
    for topic in ("offset", "config", "status"):
        settings[f"{topic}.storage.topic"] = f"connect-{topic}"
        settings[f"{topic}.storage.replication.factor"] = "-1"
    properties = place / "connect.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = kafka.command("org.apache.kafka.connect.cli.ConnectDistributed", str(properties), jvm=NODE_JVM)
    said, asked = place / "said", Worker(port)
    with said.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output, text=True) as process:
        try:
            wait_until(lambda: process.poll() is not None or asked.serves(), "the worker serves", TIMEOUT_S)
            assert process.poll() is None, said.read_text()
            yield asked, process
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


def partitions_of(node: TidelogNode, topic: str) -> int:
    """How many partitions the topic has: none while it is not there."""
    found = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=TIMEOUT_S).topics.get(topic)
    return 0 if found is None else len(found.partitions)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_killed_worker_loses_and_doubles_nothing_of_its_source(
    kafka: ApacheKafka, node: TidelogNode, tmp_path: Path
) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.write_text("".join(f"{line}\n" for line in range(3_000)))
    with worker(kafka, node, tmp_path / "first") as (asked, process):
        read = {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines", "batch.size": "200"}
        created = {
            "topic.creation.default.replication.factor": "-1",
            "topic.creation.default.partitions": str(PARTITIONS),
        }
        asked.ask("/connectors", {"name": "reader", "config": {**read, **created, "tasks.max": "1"}})
        # The sink's consumer must not be the first to ask for the topic: that would make one of the node's own size.
        wait_until(lambda: partitions_of(node, "lines") == PARTITIONS, "the source has made its topic", TIMEOUT_S)
        written = {"connector.class": "FileStreamSink", "file": str(sink), "topics": "lines", "tasks.max": "2"}
        asked.ask("/connectors", {"name": "writer", "config": written})
        wait_until(lambda: len(lines_of(sink)) >= 3_000, "the sink has what was there", TIMEOUT_S)
        assert asked.tasks_that_run("reader") == 1
        assert asked.tasks_that_run("writer") == 2
        process.kill()
    with source.open("a") as file:
        file.writelines(f"{line}\n" for line in range(3_000, 5_000))
    with worker(kafka, node, tmp_path / "second") as (asked, _):
        wait_until(lambda: len(set(lines_of(sink))) >= 5_000, "the sink has what came after", TIMEOUT_S)
        wait_until(lambda: asked.tasks_that_run("writer") == 2, "both tasks of the sink run", TIMEOUT_S)
        assert asked.ask("/connectors/reader/offsets")["offsets"][0]["offset"]["position"] == source.stat().st_size
    # A sink that is killed may get again what it has not yet committed; what the source wrote is there once.
    assert set(lines_of(sink)) == {str(line) for line in range(5_000)}
    assert read_committed(node, "lines", 5_000) == Counter(str(line) for line in range(5_000))


def read_committed(node: TidelogNode, topic: str, count: int) -> Counter[str]:
    """All records of a topic that are not of aborted transactions, and how often each is there."""
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.subscribe([topic])
    seen: Counter[str] = Counter()
    ends: set[int] = set()

    def is_read() -> bool:
        for message in consumer.consume(1_000, 0.2):
            if message.error() is not None:
                ends.add(message.partition() or 0)
                continue
            value = message.value()
            assert value is not None
            seen[str(value, "utf-8")] += 1
        return seen.total() >= count and len(ends) == PARTITIONS

    wait_until(is_read, "the topic is read to its ends", TIMEOUT_S)
    consumer.close()
    return seen
