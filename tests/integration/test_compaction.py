"""Compaction in a running node: readers, settings and deletions meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not by a list
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from tidelog.storage.checkpoint_file import CLEANER_OFFSET_CHECKPOINT, read_offsets
from tidelog.storage.os_files import OsFiles
from tidelog.testing import EmbeddedCluster

SEGMENT = {"segment.bytes": str(1024 * 1024)}
EAGER = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **SEGMENT}
DEADLINE_S = 20.0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {DEADLINE_S:.0f} s: {what}"
        time.sleep(0.01)


class Bench:
    """A node whose cleaner hardly waits, and librdkafka to use it with."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.servers = cluster.bootstrap_servers
        self.directory = Path(cluster.directory)
        self.admin = AdminClient({"bootstrap.servers": self.servers})

    def create(self, topic: str, config: dict[str, str]) -> None:
        self.admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(10)

    def alter(self, topic: str, **values: str) -> None:
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(10)

    def write(self, topic: str, rounds: range, keys: int = 100) -> dict[bytes, bytes]:
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        last = {}
        for number in rounds:
            for key in range(keys):
                last[b"%d" % key] = b"%d " % number + b"x" * 500
                producer.produce(topic, last[b"%d" % key], b"%d" % key)
            producer.poll(0)
        assert producer.flush(10) == 0
        return last

    def read(self, topic: str) -> tuple[int, dict[bytes, bytes]]:
        """How many records there are, and the last value of each key."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "-", "enable.auto.commit": False})
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)
            consumer.assign([TopicPartition(topic, 0, 0)])
            count, found, position = 0, {}, 0
            while position < end:
                message = consumer.poll(10)
                assert message is not None
                assert message.error() is None, message.error()
                # In order, whatever happens to the files meanwhile.
                offset = message.offset()
                assert offset is not None
                assert offset >= position
                position = offset + 1
                count += 1
                found[bytes(message.key() or b"")] = bytes(message.value() or b"")
            return count, found
        finally:
            consumer.close()

    def cleaned_until(self, topic: str) -> int:
        offsets = read_offsets(OsFiles(), f"{self.directory}/{CLEANER_OFFSET_CHECKPOINT}")
        return next((offset for name, offset in offsets.items() if name.topic == topic), 0)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    cluster = EmbeddedCluster(
        config={"log.cleaner.backoff.ms": 20, "log.segment.delete.delay.ms": 50}, directory=tmp_path / "data"
    )
    with cluster:
        yield Bench(cluster)


def test_readers_are_right_while_the_log_is_compacted_under_them(bench: Bench) -> None:
    bench.create("orders", EAGER)
    last: dict[bytes, bytes] = {}
    for begin in range(0, 180, 30):
        last = bench.write("orders", range(begin, begin + 30))
        assert bench.read("orders")[1] == last

    wait_for(lambda: bench.cleaned_until("orders") > 14_000, "the log is compacted nearly to its end")
    count, found = bench.read("orders")

    assert found == last
    assert count < 18_000 / 3


def test_settings_of_a_topic_act_at_once(bench: Bench) -> None:
    bench.create("orders", SEGMENT)
    last = bench.write("orders", range(60))
    assert bench.cleaned_until("orders") == 0

    bench.alter("orders", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")

    wait_for(lambda: bench.cleaned_until("orders") > 3000, "the topic is compacted")
    count, found = bench.read("orders")
    assert found == last
    assert count < 6000


def test_limits_that_contradict_each_other_are_refused(bench: Bench) -> None:
    bench.create("orders", EAGER)

    with pytest.raises(KafkaException, match=r"min\.compaction\.lag\.ms") as refused:
        bench.alter("orders", min_compaction_lag_ms="2000", max_compaction_lag_ms="1000")

    assert "(2000) > max.compaction.lag.ms (1000)" in str(refused.value)


def test_a_topic_that_is_deleted_and_made_again_begins_anew(bench: Bench) -> None:
    for number in range(3):
        bench.create("orders", EAGER)
        last = bench.write("orders", range(60))
        assert bench.read("orders")[1] == last
        bench.admin.delete_topics(["orders"])["orders"].result(10)
        wait_for(lambda: not list(bench.directory.glob("orders-0")), f"topic {number} is gone")
