"""Our consumer against our broker, over real sockets: alone, in groups of both protocols, and beside librdkafka."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from tests.support import consumer_scenarios as scenarios
from tests.support.consumer_scenarios import consumer_of, new_topic, produce, read
from tidelog import Admin, AsyncConsumer, Consumer, TopicPartition
from tidelog.client.consumer.errors import ConsumerStateError, WakeupError
from tidelog.client.errors import (
    ClosedError,
    CommitFailedError,
    ConfigError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RefusedError,
    SerializationError,
)
from tidelog.testing import EmbeddedCluster


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings: dict[str, Any] = {
        "group.consumer.min.heartbeat.interval.ms": 50,
        "group.consumer.heartbeat.interval.ms": 50,
        "group.min.session.timeout.ms": 100,
        "group.consumer.regex.refresh.interval.ms": 10_000,
    }
    with EmbeddedCluster(config=settings) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_a_consumer(bootstrap: str, name: str) -> None:
    scenarios.SCENARIOS[name](bootstrap)


def test_a_member_that_polls_too_late_loses_its_partitions_and_joins_again(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 2), f"group-{uuid4().hex[:8]}"
    told: list[str] = []
    with consumer_of(bootstrap, group, max_poll_interval_ms=300, session_timeout_ms=5_000) as consumer:
        consumer.subscribe(
            [topic], on_assigned=lambda _: told.append("assigned"), on_lost=lambda _: told.append("lost")
        )
        scenarios.settle(consumer, partitions=2)

        scenarios.wait_for(lambda: consumer._core._group.needs_attention, "the member has left")  # type: ignore[union-attr]
        with pytest.raises(CommitFailedError):
            consumer.commit({(topic, 0): 0})
        scenarios.settle(consumer, partitions=2)
        scenarios.wait_for(lambda: consumer.poll(timeout_ms=20) == [] and told[-1] == "assigned", "it is back")

    assert told[:3] == ["assigned", "lost", "assigned"]


def test_automatic_commits(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), f"group-{uuid4().hex[:8]}"
    produce(bootstrap, topic, 10, 1)
    with consumer_of(bootstrap, group, enable_auto_commit=True, auto_commit_interval_ms=10) as consumer:
        consumer.subscribe([topic])
        read(consumer, 10)
        scenarios.wait_for(
            lambda: not consumer.poll(timeout_ms=20) and consumer.committed()[TopicPartition(topic, 0)] is not None,
            "a poll has committed",
        )
        produce(bootstrap, topic, 5, 1, start=10)
        read(consumer, 5)
    with consumer_of(bootstrap, group) as consumer:
        found = consumer.committed([(topic, 0)])[TopicPartition(topic, 0)]
        assert found is not None
        assert found.offset == 15, "closing commits as well"


def test_a_wakeup_ends_a_poll_and_nothing_else(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 1)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        threading.Timer(0.05, consumer.wakeup).start()
        began = time.monotonic()
        with pytest.raises(WakeupError):
            consumer.poll(timeout_ms=20_000)
        assert time.monotonic() - began < 10
        produce(bootstrap, topic, 1, 1)
        assert len(read(consumer, 1)) == 1


def test_no_rule_for_a_missing_offset_is_an_error(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 1), f"group-{uuid4().hex[:8]}"
    produce(bootstrap, topic, 3, 1)
    with consumer_of(bootstrap, group, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0)])
        with pytest.raises(NoOffsetForPartitionError, match="no committed offset"):
            consumer.poll(timeout_ms=5000)
        consumer.seek((topic, 0), 99)
        with pytest.raises(OffsetOutOfRangeError, match="no offset 99"):
            consumer.poll(timeout_ms=5000)
        consumer.seek((topic, 0), 1)
        assert [row.offset for row in read(consumer, 2)] == [1, 2]


def test_an_offset_out_of_range_is_reset(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 1)
    produce(bootstrap, topic, 3, 1)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 99)
        assert [row.offset for row in read(consumer, 3)] == [0, 1, 2]
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="by_duration:PT1H") as consumer:
        consumer.assign([(topic, 0)])
        assert [row.offset for row in read(consumer, 3)] == [0, 1, 2]


def test_deserializers_interceptors_and_a_record_that_nobody_can_read(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 1)
    produce(bootstrap, topic, 4, 1)

    def value_of(data: bytes | None) -> int:
        if data == b"2":
            raise ValueError("two")
        return int(data or b"")

    class Doubled:
        def on_consume(self, rows: list[Any]) -> list[Any]:
            return [msgspec.structs.replace(row, value=row.value * 2) for row in rows]

    with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        key_deserializer=lambda key: (key or b"").decode(),
        value_deserializer=value_of,
        interceptors=[Doubled()],
    ) as consumer:
        consumer.assign([(topic, 0)])
        assert [(row.key, row.value) for row in read(consumer, 2)] == [("k0", 0), ("k1", 2)]
        with pytest.raises(SerializationError, match="offset 2"):
            consumer.poll(timeout_ms=5000)
        assert consumer.position((topic, 0)) == 2
        consumer.seek((topic, 0), 3)
        assert [row.value for row in read(consumer, 1)] == [6]


def test_calls_that_make_no_sense_are_one_sentence(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match="did you mean group_id"):
        Consumer(bootstrap_servers=bootstrap, group_idd="x")
    with pytest.raises(ConfigError, match="by_duration"):
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="middle")
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        with pytest.raises(ConfigError, match="without a group_id"):
            consumer.subscribe(["x"], on_assigned=print)
        with pytest.raises(ConsumerStateError, match="subscribe to topics or assign"):
            consumer.poll()
        with pytest.raises(ConsumerStateError, match="not assigned"):
            consumer.seek(("x", 0), 1)
        with pytest.raises(ConsumerStateError, match="group_id"):
            consumer.commit({("x", 0): 1})
        for bad in ["orders"], [("orders", "0")], [("orders", -1)], [0]:
            with pytest.raises(ConfigError, match=r"named by its topic and its number, such as \('orders', 0\)"):
                consumer.assign(bad)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"a list such as \[\('orders', 0\)\], not 'orders'"):
            consumer.assign("orders")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="named by its topic and its number"):
            consumer.seek("orders", 1)  # type: ignore[arg-type]
    with pytest.raises(ClosedError):
        consumer.poll()


def test_the_async_consumer(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, 2), f"group-{uuid4().hex[:8]}"
    produce(bootstrap, topic, 50, 2)

    async def main() -> list[int]:
        told: list[TopicPartition] = []

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            told.extend(partitions)

        values = []
        async with AsyncConsumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
            consumer.subscribe(topic, on_assigned=on_assigned)
            async for record in consumer:
                values.append(int(record.value))
                if len(values) == 50:
                    break
            await consumer.commit()
            assert await consumer.lag((topic, 0)) == 0
            assert told == [(topic, 0), (topic, 1)]
        return values

    assert sorted(asyncio.run(main())) == list(range(50))


def test_offsets_of_a_topic_that_is_not_there_are_refused_at_once_and_create_none(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 1)
    with (
        Consumer(bootstrap_servers=bootstrap, default_api_timeout_ms=60_000) as consumer,
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        before_s = time.monotonic()
        for ask in (
            lambda: consumer.end_offsets([("never-made", 0)]),
            lambda: consumer.beginning_offsets([(topic, 0), ("never-made", 0)]),
            lambda: consumer.offsets_for_times({("never-made", 3): 0}),
        ):
            with pytest.raises(RefusedError, match="there is no topic never-made"):
                ask()
        with pytest.raises(RefusedError, match=f"topic {topic} has no partition 1"):
            consumer.end_offsets([(topic, 1)])
        assert time.monotonic() - before_s < 10
        assert "never-made" not in {each.name for each in admin.list_topics()}
        assert consumer.end_offsets([(topic, 0)]) == {(topic, 0): 0}


def test_a_forked_child_is_told_that_the_consumer_is_the_parents(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 1)
    produce(bootstrap, topic, 20, 1)
    program = """
import os, sys
from tidelog import Consumer
from tidelog.client.errors import ClosedError
consumer = Consumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest", max_poll_records=1)
consumer.assign([(sys.argv[2], 0)])
first = consumer.poll(timeout_ms=20_000)[0].offset
if (child := os.fork()) == 0:
    # What waits to be taken is the parent's, although the child has a copy.
    refused = 0
    for attempt in (consumer.poll, consumer.poll_arrow, lambda: consumer.position((sys.argv[2], 0))):
        try:
            attempt()
        except ClosedError:
            refused += 1
    consumer.close()
    os._exit(refused)
_, status = os.waitpid(child, 0)
second = consumer.poll(timeout_ms=20_000)[0].offset
consumer.close()
print(os.waitstatus_to_exitcode(status), first, second)
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, bootstrap, topic]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (ran.stdout, ran.stderr) == ("3 0 1\n", "")
