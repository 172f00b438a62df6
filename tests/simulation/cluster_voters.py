"""A quorum whose voters change in the middle of its misfortunes: one comes, one may go, and in peace all is as before."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation.cluster_faults import Surroundings
from tests.simulation.cluster_growth import GUEST, ask
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import DirectoryId
from tidelog.raft.voter_set import VoterSet
from tidelog.simulation.cluster import CONTROLLER_PORT, LISTENER
from tidelog.wire.messages.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    Listener,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

FIRST = (1, 2, 3)
TIMEOUT_MS = 1000


class VoterChanges:
    """One coming and one going. Nobody but these changes the voters."""

    def __init__(self, world: Surroundings, random: Random) -> None:
        self._world = world
        self._cluster = world.cluster
        self._random = random
        self._directories: dict[int, DirectoryId] = {}

    async def change(self) -> None:
        """As far as the cluster's troubles let it: what is asked for may be refused, or happen without an answer."""
        self._learn_directories()
        guest = self._cluster.machines[GUEST]
        if not await self._world.until(lambda: guest.node is not None):
            return
        await self._add(GUEST)
        if self._random.random() < 0.6:
            await self._remove(self._random.choice(FIRST))

    async def restore(self) -> None:
        """In peace: the first ones vote again, and nobody else, as every node that is there knows in the end."""
        while (voters := self._voters()) is None or set(voters.ids) != {*FIRST}:
            missing = [number for number in FIRST if voters is not None and number not in voters.ids]
            if voters is not None and missing:
                await self._add(missing[0])
            elif voters is not None:
                await self._remove(GUEST)
            await asyncio.sleep(0.05)
        await self._cluster.until(
            lambda: all(set(node.quorum.voters.ids) == {*FIRST} for node in self._cluster.nodes),
            "all nodes to know the voters",
        )

    def _voters(self) -> VoterSet | None:
        self._learn_directories()
        active = self._cluster.active
        return None if active is None or active.node is None else active.node.quorum.voters

    def _learn_directories(self) -> None:
        for number, machine in self._cluster.machines.items():
            directory_id = None if machine.node is None else machine.node.quorum.local.key.directory_id
            if directory_id is not None:
                self._directories[number] = directory_id

    async def _add(self, number: int) -> None:
        self._learn_directories()
        directory_id = self._directories.get(number)
        if directory_id is None:
            return
        request = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=TIMEOUT_MS,
            voter_id=number,
            voter_directory_id=directory_id,
            listeners=[Listener(name=LISTENER, host=f"node-{number}", port=CONTROLLER_PORT)],
        )
        answer = await ask(self._cluster, self._random, request, AddRaftVoterResponse, 1)
        self._note(f"node-{number} is to vote", None if answer is None else answer.error_code)

    async def _remove(self, number: int) -> None:
        directory_id = self._directories.get(number)
        if directory_id is None:
            return
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=number, voter_directory_id=directory_id)
        answer = await ask(self._cluster, self._random, request, RemoveRaftVoterResponse, 0)
        self._note(f"node-{number} is to vote no more", None if answer is None else answer.error_code)

    def _note(self, what: str, error_code: int | None) -> None:
        self._world.note(f"{what}: {'no answer' if error_code is None else ErrorCode.of(error_code).name}")
