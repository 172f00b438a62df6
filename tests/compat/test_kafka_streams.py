"""Kafka Streams, exactly once, against a node of ours: its own topics, state that moves, an instance that is killed. With both
protocols: tasks are assigned by one of the members, or by the coordinator (KIP-1071)."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.apache_kafka import NODE_JVM, ApacheKafka, wait_until
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

PROGRAM = Path(__file__).parent / "WordCount.java"
LINES = 6_000
WORDS_A_LINE = 5
WORDS = 150
TIMEOUT_S = 90.0
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "streams"])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[TidelogNode]:
    settings = {
        "group_initial_rebalance_delay_ms": "0",
        "group_streams_initial_rebalance_delay_ms": "0",
        "group_streams_num_standby_replicas": "1",
        # What a killed instance has is somebody else's soon.
        "group_streams_min_session_timeout_ms": "6000",
        "group_streams_session_timeout_ms": "6000",
        "group_streams_min_heartbeat_interval_ms": "1000",
        "group_streams_heartbeat_interval_ms": "1000",
        "transaction_abort_timed_out_transaction_cleanup_interval_ms": "1000",
    }
    node = TidelogNode.at(tmp_path / "node", **settings)
    with node.running():
        yield node


@contextmanager
def instance(kafka: ApacheKafka, node: TidelogNode, place: Path, protocol: str) -> Iterator[subprocess.Popen[str]]:
    """One instance of the application, from where it processes. It is asked to close at the end, unless it is gone by then."""
    place.mkdir()
    said = place / "said"
    command = kafka.command(str(PROGRAM), node.bootstrap, str(place / "state"), protocol, jvm=NODE_JVM)
    with said.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output, text=True) as process:
        try:
            wait_until(lambda: process.poll() is not None or "RUNNING" in said.read_text(), "it runs", TIMEOUT_S)
            assert process.poll() is None, said.read_text()
            yield process
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)
            assert "PENDING_ERROR" not in said.read_text(), said.read_text()


@dataclass
class Counts:
    """What a reader of the counts has seen that leaves aborted transactions out."""

    consumer: Consumer
    latest: dict[str, int] = field(default_factory=dict)
    gone_back: list[tuple[str, int, int]] = field(default_factory=list)

    def total(self) -> int:
        for message in self.consumer.consume(10_000, 0.2):
            assert message.error() is None, message.error()
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            word, count = str(key, "utf-8"), int.from_bytes(bytes(value), "big")
            if count <= self.latest.get(word, 0):
                self.gone_back.append((word, self.latest[word], count))
            self.latest[word] = count
        return sum(self.latest.values())


def send(node: TidelogNode, random: Random, count: int) -> Counter[str]:
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5})
    sent: Counter[str] = Counter()
    for line in range(count):
        words = [f"word{random.randrange(WORDS)}" for _ in range(WORDS_A_LINE)]
        sent.update(words)
        producer.produce("lines", " ".join(words), key=f"key{line % 40}")
    assert producer.flush(TIMEOUT_S) == 0
    return sent


@PROTOCOLS
def test_words_are_counted_once_though_an_instance_is_killed(
    kafka: ApacheKafka, node: TidelogNode, tmp_path: Path, protocol: str
) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for created in admin.create_topics([NewTopic("lines", 4), NewTopic("counts", 2)]).values():
        created.result(TIMEOUT_S)
    random = Random(11)
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.subscribe(["counts"])
    counts = Counts(consumer)
    expected: Counter[str] = Counter()
    with instance(kafka, node, tmp_path / "first", protocol):
        with instance(kafka, node, tmp_path / "second", protocol) as second:
            expected += send(node, random, LINES)
            wait_until(lambda: counts.total() > expected.total() // 2, "half of the words are counted", TIMEOUT_S)
            second.kill()
        expected += send(node, random, LINES)
        with instance(kafka, node, tmp_path / "third", protocol):
            wait_until(lambda: counts.total() >= expected.total(), "all words are counted", TIMEOUT_S)
    assert counts.latest == dict(expected)
    assert counts.gone_back == []
    consumer.close()
    made = set(admin.list_topics(timeout=TIMEOUT_S).topics)
    assert {name for name in made if name.endswith("-changelog") and name.startswith("word-count-")}
