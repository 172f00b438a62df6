"""Transactions whose coordinator is Tidelog, then Apache Kafka on the same directory, then Tidelog again; and vice versa.

A producer keeps a transaction open through all of it. What the others have committed and aborted is as it was, whichever program
reads it; and one that is left behind open is ended by its successor, under the other program.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.apache_kafka import ApacheKafka, Node
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

pytestmark = pytest.mark.compat

AnyNode = Node | TidelogNode
# No transaction may time out while one program stops and the other one starts, however slowly.
TIMEOUT_MS = 300_000
TIMEOUT_S = 60.0


def stopped(node: AnyNode) -> None:
    node.stop()


def killed(node: AnyNode) -> None:
    node.kill()


@pytest.mark.parametrize("end", [stopped, killed])
@pytest.mark.parametrize("starts", ["tidelog", "kafka"])
def test_transactions_outlive_the_program_that_coordinates_them(
    kafka: ApacheKafka, tmp_path: Path, starts: str, end: Callable[[AnyNode], None]
) -> None:
    place = Node(kafka, tmp_path, TRANSACTION_SETTINGS)
    place.format()
    programs: list[AnyNode] = [TidelogNode(place), place]
    if starts == "kafka":
        programs.reverse()
    first, second = programs
    with ExitStack() as stack:
        stack.callback(place.kill)
        stack.callback(lambda: [each.kill() for each in programs])
        first.start()
        at = place.bootstrap
        topic, held, left = make_topic(at), make_topic(at), make_topic(at)
        group, left_name = new_name("group"), new_name("left")
        holding = transactional_producer(at, new_name("holding"), transaction_timeout_ms=TIMEOUT_MS)
        committed: list[str] = []
        kept: list[str] = []
        holding.begin_transaction()
        abandoned: Producer | None = None

        def look(round_number: int) -> None:
            """What everybody should see now."""
            assert read_all(at, topic) == committed
            assert len(read_all(at, topic, committed=False)) == 2 * len(committed)
            assert read_all(at, held) == []
            assert read_all(at, held, committed=False) == kept
            assert offset_of(at, group, topic) == round_number

        for round_number, (program, successor) in enumerate(((first, second), (second, first), (first, None)), start=1):
            # librdkafka finds no way to commit offsets once the node that it did so with was away, whichever program that is.
            steady = transactional_producer(at, "steady", transaction_timeout_ms=TIMEOUT_MS)
            steady.begin_transaction()
            write(steady, topic, [f"committed {round_number}"])
            send_offset(at, steady, group, topic, round_number)
            steady.commit_transaction(TIMEOUT_S)
            committed.append(f"committed {round_number}")
            steady.begin_transaction()
            write(steady, topic, [f"aborted {round_number}"])
            send_offset(at, steady, group, topic, 99)
            steady.abort_transaction(TIMEOUT_S)
            write(holding, held, [f"held {round_number}"])
            kept.append(f"held {round_number}")
            abandoned = transactional_producer(at, left_name, transaction_timeout_ms=TIMEOUT_MS)
            abandoned.begin_transaction()
            write(abandoned, left, [f"left {round_number}"])
            look(round_number)
            if successor is None:
                break
            end(program)
            successor.start()
            look(round_number)
            # Nothing of it is committed: the next of its name, in the next round, will abort it.
            assert read_all(at, left) == []
        holding.commit_transaction(TIMEOUT_S)
        assert read_all(at, held) == kept
        assert abandoned is not None
        abandoned.commit_transaction(TIMEOUT_S)
        assert read_all(at, left) == ["left 3"]
        assert read_all(at, left, committed=False) == ["left 1", "left 2", "left 3"]


def send_offset(bootstrap: str, producer: Producer, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), TIMEOUT_S
    )
    consumer.close()


def offset_of(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    (found,) = consumer.committed([TopicPartition(topic, 0)], DEADLINE_S)
    consumer.close()
    return int(found.offset)
