"""A simulated cluster, and one who writes to it and keeps in mind what was acknowledged."""

from __future__ import annotations

import asyncio

from tests.support.simulated_node import Asker
from tidelog.model.errors import ErrorCode
from tidelog.net.errors import RequestFailedError
from tidelog.simulation.cluster import DIRECTORY, Machine, SimulatedCluster

__all__ = ["DIRECTORY", "Machine", "SimulatedCluster", "Writer"]


class Writer:
    """Writes numbered records with acks=all to whoever leads, again until it is told that one is there."""

    def __init__(self, cluster: SimulatedCluster, topic: str) -> None:
        self.topic = topic
        self._cluster = cluster
        self._topic = topic
        self.acknowledged: list[bytes] = []
        self.tried = 0
        self._askers: dict[str, Asker] = {}

    async def write(self, *, within_s: float = 60.0) -> float:
        """One record. How long it took, in seconds."""
        cluster = self._cluster
        value = b"%s %d" % (self._topic.encode(), self.tried)
        self.tried += 1
        began_s = cluster.loop.time()
        while cluster.loop.time() - began_s < within_s:
            if await self._try(value) is ErrorCode.NONE:
                self.acknowledged.append(value)
                return cluster.loop.time() - began_s
            await asyncio.sleep(0.01)
        raise AssertionError(f"nobody took {value!r} within {within_s} s")

    async def _try(self, value: bytes) -> ErrorCode | None:
        leader = self._cluster.leader_of(self._topic)
        if leader is None:
            return None
        asker = self._askers.get(leader.name)
        if asker is None:
            asker = self._askers[leader.name] = Asker(self._cluster, leader.name)
        try:
            return ErrorCode.of(await asker.produce(self._topic, value))
        except RequestFailedError:
            return None

    async def read(self) -> list[bytes | None]:
        """All that the leader has committed."""
        await self._cluster.until(lambda: self._cluster.leader_of(self._topic) is not None, "a leader to read from")
        leader = self._cluster.leader_of(self._topic)
        assert leader is not None
        asker = Asker(self._cluster, leader.name)
        try:
            found: list[bytes | None] = []
            while True:
                more = await asker.fetch(self._topic, len(found))
                if not more:
                    return found
                found += more
        finally:
            asker.close()

    def close(self) -> None:
        for asker in self._askers.values():
            asker.close()
