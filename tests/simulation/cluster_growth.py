"""A node that joins a cluster in the middle of its misfortunes, gets replicas, gives them back in peace, and leaves for good."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation.cluster_faults import Surroundings
from tests.simulation.cluster_invariants import expect
from tests.simulation.cluster_load import PARTITIONS, TOPIC
from tests.simulation.cluster_security import new_asker
from tests.support.simulated_node import A
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.net.errors import RequestFailedError
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.wire.messages.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse
from tidelog.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.schema import Request

# The number of the node that comes and goes. It votes only in histories that change the voters; the others do at first.
GUEST = 4
ANSWER_S_MAX = 1.0
MOVE_S_MAX = 30.0


class Growth:
    """The coming and going of one node."""

    def __init__(self, world: Surroundings, random: Random) -> None:
        self._world = world
        self._cluster = world.cluster
        self._random = random
        self._moved: list[int] = []
        world.absent.add(GUEST)

    async def join(self) -> None:
        """Start, and take replicas over, as far as the cluster's troubles let it."""
        await asyncio.sleep(self._random.uniform(0, 0.5))
        self._world.absent.discard(GUEST)
        guest = self._cluster.machines[GUEST]
        self._world.begin(guest)
        if not await self._world.until(lambda: guest.node is not None):
            return
        for index in self._random.sample(PARTITIONS, self._random.choice([1, 2])):
            kept = self._random.sample([1, 2, 3], 2)
            replicas = self._random.sample([GUEST, *kept], 3)
            self._world.note(f"{TOPIC}-{index} is to move to {replicas}")
            self._moved.append(index)
            await self._move(index, replicas)

    async def leave(self) -> None:
        """In peace: give everything back, stop, and be forgotten."""
        guest = self._cluster.machines[GUEST]
        await self._cluster.until(lambda: guest.node is not None, "the guest to serve")
        for index in self._moved:
            replicas = self._random.sample([1, 2, 3], 3)
            self._world.note(f"{TOPIC}-{index} is to move back to {replicas}")
            while True:
                if await self._move(index, replicas) is ErrorCode.NONE:
                    break
                await asyncio.sleep(0.05)
        await self._cluster.until(self._has_nothing, "the guest's replicas to move away", MOVE_S_MAX, look_s=0.02)
        self._world.note("node-4 leaves for good")
        self._world.absent.add(GUEST)
        await guest.stop()
        request = UnregisterBrokerRequest(broker_id=GUEST)
        while True:
            answer = await self._ask(request, UnregisterBrokerResponse, 0)
            error = None if answer is None else ErrorCode.of(answer.error_code)
            if error in {ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED}:
                break
            await asyncio.sleep(0.05)
        await self._cluster.until(lambda: NodeId(GUEST) not in self._world.image.brokers, "the guest to be forgotten")

    def _has_nothing(self) -> bool:
        for index in PARTITIONS:
            partition = self._world.partition_of(TOPIC, index)
            if partition is None or GUEST in partition.replicas or partition.adding_replicas:
                return False
        return True

    async def _move(self, index: int, replicas: list[int]) -> ErrorCode | None:
        """What was answered; None where nobody did, and it may be done or not."""
        wanted = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=[wanted])])
        answer = await self._ask(request, AlterPartitionReassignmentsResponse, 1)
        if answer is None or answer.error_code != ErrorCode.NONE:
            return None
        error = ErrorCode.of(answer.responses[0].partitions[0].error_code)
        expect(
            error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "committed metadata", f"{TOPIC} is not known any more"
        )
        return error

    async def _ask(self, request: Request, answer: type[A], version: int) -> A | None:
        return await ask(self._cluster, self._random, request, answer, version)


async def ask(cluster: SimulatedCluster, random: Random, request: Request, answer: type[A], version: int) -> A | None:
    """What one of the brokers that serve answers, if it does so in time."""
    serving = [
        machine.name
        for machine in cluster.machines.values()
        if machine.node is not None and "broker" in cluster.roles[machine.number]
    ]
    if not serving:
        return None
    asker = new_asker(cluster, random.choice(serving))
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            return await asker.call(request, answer, version)
    except (RequestFailedError, TimeoutError):
        return None
    finally:
        asker.close()
