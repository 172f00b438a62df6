"""Transactions and groups over three whole nodes on virtual time, by our own clients: coordinators die, nothing is half done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from tests.support.log_builder import LogBuilder
from tests.support.simulated_cluster import Machine, SimulatedCluster
from tests.support.simulated_node import PORT, PRODUCE_VERSION, Asker
from tidelog.broker.transactions.transaction_markers import Marker
from tidelog.client.consumer.async_consumer import AsyncConsumer
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.options import parse_options
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.seams import ClientSeams
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicPartition
from tidelog.model.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.model.pending import Pending
from tidelog.simulation.loop import VirtualClock
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
)

TOPIC = "orders"
PARTITIONS = (0, 1, 2)
ID = "payments"

CONFIG = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}

Read = dict[int, list[bytes | None]]


def _cluster(seed: int) -> SimulatedCluster:
    return SimulatedCluster(seed, config=CONFIG)


def _seams(cluster: SimulatedCluster) -> ClientSeams:
    return ClientSeams(
        cluster.loop,
        cluster.network.host("client"),
        VirtualClock(cluster.loop),
        Random(cluster.random.getrandbits(32)),
    )


def _bootstrap(cluster: SimulatedCluster) -> str:
    return ",".join(f"{machine.name}:{PORT}" for machine in cluster.machines.values())


async def _with_topic(cluster: SimulatedCluster) -> None:
    """Three nodes, and a topic of which each leads a partition."""
    await cluster.start()
    asker = Asker(cluster, "node-1")
    assert await asker.create(TOPIC, len(PARTITIONS), replicas=3) == ErrorCode.NONE
    asker.close()
    await cluster.until(lambda: all(cluster.leader_of(TOPIC, index) for index in PARTITIONS), "leaders")
    assert len({cluster.leader_of(TOPIC, index) for index in PARTITIONS}) == 3


@asynccontextmanager
async def _producer(cluster: SimulatedCluster) -> AsyncIterator[AsyncProducer]:
    producer = AsyncProducer.on(
        _seams(cluster), bootstrap_servers=_bootstrap(cluster), transactional_id=ID, retry_backoff_ms=20
    )
    async with producer:
        await producer.init_transactions()
        yield producer


async def _write(producer: AsyncProducer, value: bytes) -> None:
    """One record in each partition, in the transaction that is open."""
    await asyncio.gather(*[await producer.send(TOPIC, value, partition=index) for index in PARTITIONS])


async def _transact(producer: AsyncProducer, value: bytes, *, commit: bool = True) -> None:
    await producer.begin_transaction()
    await _write(producer, value)
    await (producer.commit_transaction() if commit else producer.abort_transaction())


def _consumer(cluster: SimulatedCluster, **options: object) -> AsyncConsumer:
    given = {
        "bootstrap_servers": _bootstrap(cluster),
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        **options,
    }
    return AsyncConsumer._on(_seams(cluster), parse_options(ConsumerOptions, given))


async def _committed(cluster: SimulatedCluster, *, until: bytes) -> Read:
    """What a reader of committed records sees in each partition, up to a last value."""
    found: Read = {index: [] for index in PARTITIONS}
    async with _consumer(cluster) as consumer:
        consumer.assign([(TOPIC, index) for index in PARTITIONS])
        deadline_s = cluster.loop.time() + 30
        while any(values[-1:] != [until] for values in found.values()):
            assert cluster.loop.time() < deadline_s, f"{until!r} is not to be seen: {found}"
            for row in await consumer.poll(100):
                found[row.partition].append(row.value)
    return found


def _coordinator(cluster: SimulatedCluster) -> Machine:
    """Who coordinates the producer's transactions."""
    number = cluster.nodes[0].transactions.leader_of(ID)
    assert number is not None
    return cluster.machines[number]


def _is_in_sync(cluster: SimulatedCluster) -> bool:
    found = [cluster.partition(topic, index) for topic in (TOPIC, TRANSACTION_STATE) for index in PARTITIONS]
    return all(partition is not None and len(partition.isr) == 3 for partition in found)


class _Held:
    """A way to the partitions on which every marker gets lost."""

    def __init__(self) -> None:
        self.count = 0

    def write(self, _marker: Marker, partitions: tuple[TopicPartition, ...]) -> list[ErrorCode | Pending[ErrorCode]]:
        self.count += 1
        return [Pending() for _ in partitions]


def test_a_transaction_over_partitions_of_three_leaders_is_seen_whole_or_not_at_all() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await _with_topic(cluster)
        async with _producer(cluster) as producer:
            await _transact(producer, b"first")
            await _transact(producer, b"dropped", commit=False)
            await _transact(producer, b"second")
            took_s = await cluster.until(
                lambda: all(len(node.transactions.markers) == 0 for node in cluster.nodes), "no marker to be missing"
            )
            # Not as long as a follower's fetch that waits in vain.
            assert took_s < 0.1
        assert await _committed(cluster, until=b"second") == {index: [b"first", b"second"] for index in PARTITIONS}

    _cluster(1).run(story)


@pytest.mark.parametrize("seed", range(3))
def test_who_takes_over_from_a_coordinator_that_died_before_the_markers_writes_them(seed: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await _with_topic(cluster)
        async with _producer(cluster) as producer:
            await _transact(producer, b"before")
            former = _coordinator(cluster)
            assert former.node is not None
            former.node.transactions.markers._writer = held = _Held()
            await _transact(producer, b"decided")
            await cluster.until(lambda: held.count > 0, "the markers to be due")
            await former.kill()
            # Nobody but the next coordinator can end it.
            assert await _committed(cluster, until=b"decided") == {
                index: [b"before", b"decided"] for index in PARTITIONS
            }
            await _transact(producer, b"after")
        assert (await _committed(cluster, until=b"after"))[0] == [b"before", b"decided", b"after"]

    _cluster(seed).run(story)


@pytest.mark.parametrize("seed", range(3))
def test_transactions_are_atomic_while_nodes_die_and_come_back(seed: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await _with_topic(cluster)
        committed: list[bytes] = []

        async def produce(producer: AsyncProducer) -> None:
            for number in range(40):
                value = b"%d" % number
                is_committed = number % 4 != 3
                await _transact(producer, value, commit=is_committed)
                if is_committed:
                    committed.append(value)
                await asyncio.sleep(cluster.random.random() / 10)

        async with _producer(cluster) as producer:
            work = cluster.loop.create_task(produce(producer))
            for victim in (_coordinator(cluster), *cluster.random.choices([*cluster.machines.values()], k=2)):
                await asyncio.sleep(cluster.random.random())
                await victim.kill()
                await asyncio.sleep(cluster.random.random())
                await cluster.start(victim.number)
                await cluster.until(lambda: _is_in_sync(cluster), "all in sync again")
            await work
            await _transact(producer, b"last")
        assert len(committed) == 30
        assert await _committed(cluster, until=b"last") == {index: [*committed, b"last"] for index in PARTITIONS}

    _cluster(seed).run(story)


def test_a_client_that_adds_partitions_itself_is_asked_after_at_the_coordinator() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await _with_topic(cluster)
        async with _producer(cluster):
            pass
        coordinator = _coordinator(cluster)
        index = next(each for each in PARTITIONS if cluster.leader_of(TOPIC, each) is not coordinator)
        leader = cluster.leader_of(TOPIC, index)
        assert leader is not None
        at_coordinator, at_leader = Asker(cluster, coordinator.name), Asker(cluster, leader.name)
        init = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
        given = await at_coordinator.call(init, InitProducerIdResponse, 3)
        assert given.error_code == ErrorCode.NONE
        batch = LogBuilder().batch(
            "one",
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            is_transactional=True,
            base_sequence=0,
        )

        async def produce() -> int:
            data = PartitionProduceData(index=index, records=bytes(batch))
            topic = TopicProduceData(name=TOPIC, topic_id=ZERO_UUID, partition_data=[data])
            request = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=30_000, topic_data=[topic])
            answer = await at_leader.call(request, ProduceResponse, PRODUCE_VERSION)
            return answer.responses[0].partition_responses[0].error_code

        assert await produce() == ErrorCode.INVALID_TXN_STATE
        add = AddPartitionsToTxnRequest(
            transactions=[],
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[index])],
        )
        added = await at_coordinator.call(add, AddPartitionsToTxnResponse, 3)
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == ErrorCode.NONE
        assert await produce() == ErrorCode.NONE
        end = EndTxnRequest(
            transactional_id=ID, producer_id=given.producer_id, producer_epoch=given.producer_epoch, committed=True
        )
        assert (await at_coordinator.call(end, EndTxnResponse, 3)).error_code == ErrorCode.NONE
        await cluster.until(lambda: cluster.log_end_offsets(TOPIC, index)[leader.number][1] == 2, "the marker")
        for asker in (at_coordinator, at_leader):
            asker.close()

    _cluster(2).run(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_survives_the_death_of_its_coordinator(protocol: str) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await _with_topic(cluster)
        group = {"group_id": "readers", "group_protocol": protocol, "enable_auto_commit": False}
        async with _producer(cluster) as producer:
            await _transact(producer, b"before")
            async with _consumer(cluster, **group) as consumer:
                consumer.subscribe([TOPIC])
                await _poll(cluster, consumer, b"before")
                await consumer.commit()
                number = cluster.nodes[0].groups.leader_of("readers")
                assert number is not None
                await cluster.machines[number].kill()
                await _transact(producer, b"after")
                await _poll(cluster, consumer, b"after")
                await consumer.commit()
            async with _consumer(cluster, **group) as consumer:
                found = await consumer.committed([(TOPIC, index) for index in PARTITIONS])
                # Each transaction is a record and a marker, which the last position need not be behind.
                assert all(offset is not None and offset.offset >= 3 for offset in found.values()), found
        assert cluster.leader_of(CONSUMER_OFFSETS, 0) is not None

    _cluster(3).run(story)


async def _poll(cluster: SimulatedCluster, consumer: AsyncConsumer, value: bytes) -> None:
    """Until the value has come from every partition, once, and nothing else."""
    found: list[int] = []
    deadline_s = cluster.loop.time() + 60
    while len(found) < len(PARTITIONS):
        assert cluster.loop.time() < deadline_s, f"{value!r} came from {found} only"
        for row in await consumer.poll(100):
            assert row.value == value
            found.append(row.partition)
    assert sorted(found) == list(PARTITIONS)
