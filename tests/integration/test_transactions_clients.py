"""Transactions of librdkafka and aiokafka against a real node: what ends well, what does not, and what readers see of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition as AioPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.running_node import DEADLINE_S, RunningNode
from tests.support.transactional_clients import (
    TRANSACTION_SETTINGS,
    make_topic,
    new_name,
    read_all,
    transactional_producer,
    wait_until,
    write,
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), settings=TRANSACTION_SETTINGS) as running:
        yield running


@pytest.fixture
def topic(node: RunningNode) -> str:
    return make_topic(node.bootstrap, partitions=2)


# librdkafka


def test_readers_of_committed_records_see_what_was_committed_alone(node: RunningNode, topic: str) -> None:
    producer = transactional_producer(node.bootstrap, new_name("id"))
    for number, end in enumerate(["commit", "abort", "commit"]):
        producer.begin_transaction()
        for partition in range(2):
            write(producer, topic, [f"{end} {number}.{index}" for index in range(3)], partition)
        if end == "commit":
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)

    committed = [f"commit {number}.{index}" for number in (0, 2) for index in range(3)]
    assert read_all(node.bootstrap, topic, partitions=2) == committed * 2
    assert len(read_all(node.bootstrap, topic, committed=False, partitions=2)) == 18


def test_an_open_transaction_holds_its_readers_back_until_it_ends(node: RunningNode, topic: str) -> None:
    producer = transactional_producer(node.bootstrap, new_name("id"))
    producer.begin_transaction()
    write(producer, topic, ["in the transaction"])
    other = transactional_producer(node.bootstrap, new_name("id"))
    other.begin_transaction()
    write(other, topic, ["after it"])
    other.commit_transaction(DEADLINE_S)
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])

    assert read_all(node.bootstrap, topic) == []
    assert consumer.poll(0.2) is None
    producer.commit_transaction(DEADLINE_S)

    # The fetch that waits is woken by the marker, long before its time is over.
    found = consumer.consume(2, 5.0)
    assert [message.value() for message in found] == [b"in the transaction", b"after it"]
    consumer.close()


def test_offsets_and_records_of_one_transaction_go_together(node: RunningNode, topic: str) -> None:
    source = make_topic(node.bootstrap)
    feeder = transactional_producer(node.bootstrap, new_name("id"))
    feeder.begin_transaction()
    write(feeder, source, [str(number) for number in range(10)])
    feeder.commit_transaction(DEADLINE_S)
    groups = [new_name("group"), new_name("group")]

    for group, target_partition in zip(groups, range(2), strict=True):
        consumer = Consumer(
            {
                "bootstrap.servers": node.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([source])
        producer = transactional_producer(node.bootstrap, new_name("id"))
        messages = consumer.consume(10, DEADLINE_S)
        assert len(messages) == 10
        for end in ("abort", "commit"):
            producer.begin_transaction()
            write(producer, topic, [(message.value() or b"").decode() for message in messages], target_partition)
            producer.send_offsets_to_transaction(
                consumer.position([TopicPartition(source, 0)]), consumer.consumer_group_metadata(), DEADLINE_S
            )
            if end == "abort":
                producer.abort_transaction(DEADLINE_S)
                assert consumer.committed([TopicPartition(source, 0)], DEADLINE_S)[0].offset < 0
            else:
                producer.commit_transaction(DEADLINE_S)
                assert consumer.committed([TopicPartition(source, 0)], DEADLINE_S)[0].offset == 10
        consumer.close()

    assert read_all(node.bootstrap, topic, partitions=2) == [str(number) for number in range(10)] * 2


def test_a_successor_aborts_what_its_predecessor_left_open_and_fences_it(node: RunningNode, topic: str) -> None:
    name = new_name("id")
    zombie = transactional_producer(node.bootstrap, name)
    zombie.begin_transaction()
    write(zombie, topic, ["of the zombie"])

    successor = transactional_producer(node.bootstrap, name)
    successor.begin_transaction()
    write(successor, topic, ["of the successor"])
    successor.commit_transaction(DEADLINE_S)

    assert read_all(node.bootstrap, topic) == ["of the successor"]
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(DEADLINE_S)
    assert refused.value.args[0].fatal()
    assert read_all(node.bootstrap, topic) == ["of the successor"]


def test_an_abandoned_transaction_is_aborted_when_its_time_is_over(node: RunningNode, topic: str) -> None:
    abandoned = transactional_producer(node.bootstrap, new_name("id"), transaction_timeout_ms=5_000)
    abandoned.begin_transaction()
    write(abandoned, topic, ["abandoned"])
    other = transactional_producer(node.bootstrap, new_name("id"))
    other.begin_transaction()
    write(other, topic, ["behind it"])
    other.commit_transaction(DEADLINE_S)
    assert read_all(node.bootstrap, topic) == []

    wait_until(node.bootstrap, topic, ["behind it"])

    with pytest.raises(KafkaException):
        abandoned.commit_transaction(DEADLINE_S)


# aiokafka, which knows none of KIP-890


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, DEADLINE_S))


def test_an_older_client_commits_and_aborts(node: RunningNode, topic: str) -> None:
    async def write_both() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=node.bootstrap, transactional_id=new_name("id"))
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"committed", partition=0)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"aborted", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"committed again", partition=0)
        finally:
            await producer.stop()

    run(write_both())

    assert read_all(node.bootstrap, topic) == ["committed", "committed again"]
    assert len(read_all(node.bootstrap, topic, committed=False)) == 3


def test_an_older_client_copies_with_its_offsets(node: RunningNode, topic: str) -> None:
    source, group = make_topic(node.bootstrap), new_name("group")
    feeder = transactional_producer(node.bootstrap, new_name("id"))
    feeder.begin_transaction()
    write(feeder, source, ["a", "b"])
    feeder.commit_transaction(DEADLINE_S)
    place = AioPartition(source, 0)

    async def copy() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=node.bootstrap, transactional_id=new_name("id"))
        consumer = AIOKafkaConsumer(
            source,
            bootstrap_servers=node.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        await producer.start()
        await consumer.start()
        try:
            for _ in range(2):
                message = await consumer.getone()
                async with producer.transaction():
                    await producer.send_and_wait(topic, message.value, partition=0)
                    await producer.send_offsets_to_transaction({place: message.offset + 1}, group)
            assert await consumer.committed(place) == 2
        finally:
            await consumer.stop()
            await producer.stop()

    run(copy())

    assert read_all(node.bootstrap, topic) == ["a", "b"]


def test_an_older_client_is_fenced(node: RunningNode, topic: str) -> None:
    name = new_name("id")

    async def fence() -> None:
        zombie = AIOKafkaProducer(bootstrap_servers=node.bootstrap, transactional_id=name)
        await zombie.start()
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"of the zombie", partition=0)
        successor = AIOKafkaProducer(bootstrap_servers=node.bootstrap, transactional_id=name)
        await successor.start()
        async with successor.transaction():
            await successor.send_and_wait(topic, b"of the successor", partition=0)
        with pytest.raises(ProducerFenced):
            await zombie.commit_transaction()
        await successor.stop()
        await zombie.stop()

    run(fence())

    assert read_all(node.bootstrap, topic) == ["of the successor"]
