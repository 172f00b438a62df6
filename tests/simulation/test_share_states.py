"""States of share partitions on three whole nodes on virtual time: share coordinators die, with and without power, while they are
written to; whatever was acknowledged is there in the end, and nothing that nobody wrote."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TypeVar

import pytest

from tests.support.simulated_cluster import QUICK
from tests.support.simulated_node import Asker
from tidelog.broker.share.cluster_persister import ClusterPersister
from tidelog.broker.share.persister import PersisterError, ShareState, StateBatch
from tidelog.coordination.share_state.share_partition_key import SharePartitionKey
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId, TopicName
from tidelog.model.internal_topics import SHARE_GROUP_STATE
from tidelog.model.pending import Pending
from tidelog.simulation.cluster import Machine, SimulatedCluster

T = TypeVar("T")

TOPIC, GROUP = TopicName("orders"), "workers"
ACKNOWLEDGED = 2
PARTITIONS = 3
WRITES = 60
CONFIG = {
    **QUICK,
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "30",
    "share.coordinator.state.topic.prune.interval.ms": "50",
    "share.coordinator.cold.partition.snapshot.interval.ms": "1500",
}


class _Leaders:
    """Leaders of share partitions, on any node that is up. They write one offset after another, and keep in mind what was
    acknowledged."""

    def __init__(self, cluster: SimulatedCluster, random: Random, topic_id: TopicId) -> None:
        self._cluster = cluster
        self._random = random
        self._topic_id = topic_id
        self.acknowledged: dict[int, set[int]] = {index: set() for index in range(PARTITIONS)}
        self.tried: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)

    def persister(self) -> ClusterPersister:
        return self._random.choice(self._cluster.nodes)._broker.persister

    async def answer(self, pending: Pending[T]) -> T | None:
        """None: the node that asked died, or took too long."""
        arrived: asyncio.Future[T] = self._cluster.loop.create_future()
        pending.then(lambda value: None if arrived.done() else arrived.set_result(value))
        try:
            return await asyncio.wait_for(arrived, 60)
        except TimeoutError:
            return None

    async def initialise(self) -> None:
        for index in range(PARTITIONS):
            key = SharePartitionKey(GROUP, self._topic_id, PartitionIndex(index))
            answer = await self.answer(self.persister().initialise(key, 1, 0))
            assert answer is not None
            assert answer.error_code == ErrorCode.NONE

    async def write(self) -> None:
        index = self._random.randrange(PARTITIONS)
        offset = self.tried[index]
        self.tried[index] += 1
        batches = [StateBatch(offset, offset, ACKNOWLEDGED, 1)]
        outcome: Pending[PersisterError | None] = self.persister().write(
            GROUP, self._topic_id, PartitionIndex(index), 0, 1, -1, 0, batches
        )
        done: asyncio.Future[PersisterError | None] = self._cluster.loop.create_future()
        outcome.then(lambda value: None if done.done() else done.set_result(value))
        try:
            if await asyncio.wait_for(done, 5) is None:
                self.acknowledged[index].add(offset)
        except TimeoutError:
            # Its node is gone with the answer, and the write may be there or not.
            return

    async def read(self, index: int) -> set[int]:
        """The offsets that are acknowledged, as the state has it."""
        found = await self.answer(self.persister().read(GROUP, self._topic_id, PartitionIndex(index), 1))
        assert isinstance(found, ShareState), found
        assert all(batch.state == ACKNOWLEDGED for batch in found.batches)
        return {offset for batch in found.batches for offset in range(batch.first_offset, batch.last_offset + 1)}


async def _trouble(cluster: SimulatedCluster, random: Random) -> None:
    """A coordinator dies, and comes back after a while."""
    machine: Machine | None = cluster.leader_of(SHARE_GROUP_STATE, random.randrange(2))
    if machine is None or len(cluster.nodes) < len(cluster.machines):
        return
    await machine.kill(lose_power=random.random() < 0.5)
    await asyncio.sleep(random.uniform(0.2, 3))
    await machine.begin()


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_the_death_of_coordinators(seed: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        random = Random(seed)
        await cluster.start()
        asker = Asker(cluster, "node-1")
        assert await asker.create(TOPIC, PARTITIONS, replicas=3) == ErrorCode.NONE
        asker.close()
        leaders = _Leaders(cluster, random, cluster.nodes[0].image.topic_ids[TOPIC])
        await leaders.initialise()
        deaths = 0
        for number in range(WRITES):
            trouble = None
            if number % 12 == 5:
                trouble = asyncio.ensure_future(_trouble(cluster, random))
                deaths += 1
            await asyncio.gather(*(leaders.write() for _ in range(3)))
            if trouble is not None:
                await trouble

        assert deaths >= 3
        for index, acknowledged in leaders.acknowledged.items():
            found = await leaders.read(index)
            assert acknowledged <= found <= set(range(leaders.tried[index]))
            assert len(acknowledged) > leaders.tried[index] // 2

    SimulatedCluster(seed, config=CONFIG).run(story)
