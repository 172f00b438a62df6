"""A simulated cluster, and one who writes to it and keeps in mind what was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tests.support.simulated_node import Asker
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.net.errors import RequestFailedError
from tidelog.simulation.cluster import DIRECTORY, Machine, SimulatedCluster
from tidelog.storage.fetched import FetchIsolation
from tidelog.wire.record_batch import each_batch
from tidelog.wire.records import decode_batch

__all__ = ["DIRECTORY", "QUICK", "Machine", "SimulatedCluster", "Writer", "committed_values"]

# Time-outs that are shorter than the faults are long: leaders change all the time. With Kafka's own, most faults pass before.
QUICK = {
    "broker.session.timeout.ms": "600",
    "broker.heartbeat.interval.ms": "100",
    "replica.lag.time.max.ms": "700",
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.fetch.timeout.ms": "200",
    "controller.quorum.election.backoff.max.ms": "100",
}


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


def committed_values(machine: Machine, topic: str = "orders") -> Iterator[bytes]:
    """The values that a replica calls committed, as they lie in its log."""
    replica = None if machine.node is None else machine.node.partitions.named(TopicName(topic)).get(0)
    log = None if replica is None else replica.log
    if log is None:
        return
    offset = int(log.log_start_offset)
    while offset < log.high_watermark:
        fetched = log.read(offset, 1 << 20, upper_bound=FetchIsolation.HIGH_WATERMARK)
        assert not isinstance(fetched, ErrorCode)
        data = b"".join(region.read() for region in fetched.regions)
        before = offset
        for position, header in each_batch(data):
            for row in decode_batch(data, header, position):
                if offset <= row.offset < log.high_watermark:
                    assert row.value is not None
                    yield row.value
            offset = max(offset, header.next_offset)
        assert offset > before
