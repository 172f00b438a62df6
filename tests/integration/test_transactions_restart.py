"""What transactions are after their node has stopped or was killed: all of it comes from the logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.running_node import DEADLINE_S
from tests.support.tidelog_node import TidelogNode
from tests.support.transactional_clients import (
    TRANSACTION_SETTINGS,
    make_topic,
    new_name,
    read_all,
    transactional_producer,
    wait_until,
    write,
)

ENDS = pytest.mark.parametrize("end", [TidelogNode.stop, TidelogNode.kill], ids=["stopped", "killed"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path, **TRANSACTION_SETTINGS)
    node.start()
    yield node
    node.kill()


def ended(producer: Producer, topic: str, values: list[str], *, commit: bool) -> None:
    producer.begin_transaction()
    write(producer, topic, values)
    if commit:
        producer.commit_transaction(DEADLINE_S)
    else:
        producer.abort_transaction(DEADLINE_S)


@ENDS
def test_a_transaction_goes_on_over_the_end_of_its_node(place: TidelogNode, end: Callable[[TidelogNode], None]) -> None:
    topic = make_topic(place.bootstrap)
    producer = transactional_producer(place.bootstrap, new_name("id"))
    ended(producer, topic, ["committed"], commit=True)
    ended(producer, topic, ["aborted"], commit=False)
    producer.begin_transaction()
    write(producer, topic, ["before"])

    end(place)
    place.start()

    assert read_all(place.bootstrap, topic) == ["committed"]
    write(producer, topic, ["after"])
    producer.commit_transaction(DEADLINE_S)
    assert read_all(place.bootstrap, topic) == ["committed", "before", "after"]
    assert read_all(place.bootstrap, topic, committed=False) == ["committed", "aborted", "before", "after"]


@ENDS
def test_an_abandoned_transaction_is_aborted_by_the_next_start(
    place: TidelogNode, end: Callable[[TidelogNode], None]
) -> None:
    topic = make_topic(place.bootstrap)
    abandoned = transactional_producer(place.bootstrap, new_name("id"), transaction_timeout_ms=1_000)
    abandoned.begin_transaction()
    write(abandoned, topic, ["abandoned"])
    other = transactional_producer(place.bootstrap, new_name("id"))
    ended(other, topic, ["behind it"], commit=True)

    end(place)
    place.start()

    wait_until(place.bootstrap, topic, ["behind it"])


@ENDS
def test_pending_offsets_survive_with_their_transaction(place: TidelogNode, end: Callable[[TidelogNode], None]) -> None:
    topic, group = make_topic(place.bootstrap), new_name("group")
    producer = transactional_producer(place.bootstrap, new_name("id"))
    consumer = Consumer(
        {
            "bootstrap.servers": place.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    producer.begin_transaction()
    write(producer, topic, ["a"])
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata(), DEADLINE_S)

    end(place)
    place.start()
    producer.commit_transaction(DEADLINE_S)

    assert consumer.committed([TopicPartition(topic, 0)], DEADLINE_S)[0].offset == 1
    assert read_all(place.bootstrap, topic) == ["a"]
    consumer.close()
