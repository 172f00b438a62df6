"""Our consumer when a topic that it reads is deleted under it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.consumer_scenarios import consumer_of, new_topic, produce, read
from tidelog import Admin, Consumer, OffsetAndMetadata
from tidelog.client.errors import RefusedError
from tidelog.model.errors import ErrorCode
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


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_was_read_of_a_deleted_topic_is_not_committed_for_its_successor(bootstrap: str, protocol: str) -> None:
    topic = new_topic(bootstrap, 1)
    group = f"group-{uuid4()}"
    produce(bootstrap, topic, 10, 1)
    with consumer_of(
        bootstrap, group, protocol, enable_auto_commit=True, auto_commit_interval_ms=50, metadata_max_age_ms=100
    ) as consumer:
        consumer.subscribe([topic])
        read(consumer, 10)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_topics([topic])
        new_topic(bootstrap, 1, topic)
        produce(bootstrap, topic, 6, 1)

        rows = read(consumer, 6)

    assert [row.offset for row in rows] == list(range(6))
    with consumer_of(bootstrap, group) as later:
        (committed,) = later.committed([(topic, 0)]).values()
    assert committed is not None
    assert committed.offset == 6


def test_a_commit_that_meets_a_successor_leaves_it_alone(bootstrap: str) -> None:
    topic = new_topic(bootstrap, 1)
    produce(bootstrap, topic, 10, 1)
    with consumer_of(bootstrap, f"group-{uuid4()}") as consumer:
        consumer.assign([(topic, 0)])
        read(consumer, 10)
        consumer.pause((topic, 0))
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_topics([topic])
        new_topic(bootstrap, 1, topic)
        produce(bootstrap, topic, 6, 1)

        began = time.monotonic()
        # An error where the coordinator is the first to tell; where a fetch was, the consumer is at the beginning already.
        with contextlib.suppress(RefusedError):
            consumer.commit()
        took_s = time.monotonic() - began
        (committed,) = consumer.committed([(topic, 0)]).values()

    assert took_s < AT_ONCE_S
    assert committed is None or committed.offset == 0


def test_a_topic_that_is_not_there_fails_a_commit_at_once_and_is_not_made(bootstrap: str) -> None:
    kept, typo = new_topic(bootstrap, 1), f"typo-{uuid4()}"
    with consumer_of(bootstrap, f"group-{uuid4()}") as consumer:
        began = time.monotonic()
        with pytest.raises(RefusedError, match=f"topic {typo} does not exist") as refused:
            consumer.commit({(typo, 0): 1, (kept, 0): 3})
        assert consumer.committed([(typo, 0), (kept, 0)]) == {(typo, 0): None, (kept, 0): OffsetAndMetadata(3)}
        took_s = time.monotonic() - began
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert took_s < AT_ONCE_S


def test_looking_something_up_makes_no_topic() -> None:
    typo = f"typo-{uuid4()}"
    with EmbeddedCluster(config={"auto.create.topics.enable": True}) as cluster:
        with consumer_of(cluster.bootstrap_servers, "readers") as consumer:
            with pytest.raises(RefusedError, match="does not exist"):
                consumer.commit({(typo, 0): 1})
            assert consumer.committed([(typo, 0)]) == {(typo, 0): None}
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            assert typo not in {each.name for each in admin.list_topics()}


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
