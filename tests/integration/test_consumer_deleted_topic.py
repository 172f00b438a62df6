"""Our consumer when a topic that it reads is deleted under it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.consumer_scenarios import consumer_of, new_topic, produce, read
from tidelog import Admin, Consumer
from tidelog.testing import EmbeddedCluster

# What a call may take that waits for nothing but a node on this machine, which may be busy.
AT_ONCE_S = 8.0


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings: dict[str, str | int | bool] = {
        "auto.create.topics.enable": False,
        "group.consumer.min.heartbeat.interval.ms": 50,
        "group.consumer.heartbeat.interval.ms": 50,
    }
    with EmbeddedCluster(config=settings) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_deleted_topic_holds_up_no_poll_and_no_commit_of_another(bootstrap: str, protocol: str) -> None:
    gone, kept = new_topic(bootstrap, 1), new_topic(bootstrap, 1)
    group = f"group-{uuid4()}"
    produce(bootstrap, gone, 10, 1)
    produce(bootstrap, kept, 3, 1)
    with consumer_of(
        bootstrap, group, protocol, enable_auto_commit=True, metadata_max_age_ms=100, heartbeat_interval_ms=100
    ) as consumer:
        consumer.subscribe([gone, kept])
        read(consumer, 13)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_topics([gone])

        longest_s = poll_until_only(consumer, kept)
        produce(bootstrap, kept, 4, 1)
        read(consumer, 4)
        began = time.monotonic()
    closing_s = time.monotonic() - began

    assert longest_s < AT_ONCE_S
    assert closing_s < AT_ONCE_S
    with consumer_of(bootstrap, group) as later:
        (committed,) = later.committed([(kept, 0)]).values()
    assert committed is not None
    assert committed.offset == 7


def poll_until_only(consumer: Consumer, topic: str) -> float:
    """Poll until partitions of no other topic are assigned. How many seconds the longest poll took."""
    longest_s = 0.0
    deadline = time.monotonic() + 90
    while {each.topic for each in consumer.assignment()} != {topic}:
        began = time.monotonic()
        assert began < deadline, consumer.assignment()
        consumer.poll(timeout_ms=50)
        longest_s = max(longest_s, time.monotonic() - began)
    return longest_s
