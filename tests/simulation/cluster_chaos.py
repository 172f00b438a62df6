"""Histories that a seed decides: what befalls a simulated cluster while records are written to it, and what must hold of it.

acknowledged stays      a record that was acknowledged with acks=all and two replicas in sync is there for every later reader
log matching            two replicas that have a record at one offset below both high watermarks have the same one
committed stays         what one reader saw, every later reader sees at the same place
one leader an epoch     no leader epoch of a partition has two leaders
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tests.support.simulated_cluster import Machine, SimulatedCluster, Writer
from tests.support.simulated_node import Asker
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName
from tidelog.net.errors import RequestFailedError
from tidelog.storage.fetched import FetchIsolation
from tidelog.wire.record_batch import each_batch
from tidelog.wire.records import decode_batch

TOPIC = "orders"
MISFORTUNES = 8
# After all faults end: two rounds of every time-out that a node has, and time to catch up.
SETTLE_S_MAX = 60.0
WRITE_S_MAX = 120.0


# Time-outs that are shorter than the faults are long: leaders change all the time. With Kafka's own, most faults pass before.
QUICK = {
    "broker.session.timeout.ms": "600",
    "broker.heartbeat.interval.ms": "100",
    "replica.lag.time.max.ms": "700",
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.fetch.timeout.ms": "200",
    "controller.quorum.election.backoff.max.ms": "100",
}


class BrokenInvariantError(AssertionError):
    """The name of the invariant comes first."""


def run_history(seed: int, *, misfortunes: int = MISFORTUNES) -> SimulatedCluster:
    """Lets a cluster live through faults under load, then in peace until it has settled; fails where it does not."""
    cluster = SimulatedCluster(seed, config={} if seed % 4 == 0 else QUICK)
    cluster.run(lambda made: _story(made, misfortunes))
    return cluster


async def _story(cluster: SimulatedCluster, misfortunes: int) -> None:
    await cluster.start()
    asker = Asker(cluster, "node-1")
    assert await asker.create(TOPIC, replicas=3, configs={"min.insync.replicas": "2"}) == ErrorCode.NONE
    asker.close()
    history = _History(cluster)
    writing = cluster.loop.create_task(history.write())
    for _ in range(misfortunes):
        await asyncio.sleep(cluster.random.uniform(0, 2))
        await history.befall()
        await asyncio.sleep(cluster.random.uniform(0, 3))
        history.check_logs()
        await history.relieve()
    history.make_peace()
    await writing
    await cluster.until(history.is_settled, "all replicas to be in sync and equal", within_s=SETTLE_S_MAX)
    await history.check_end()


class _History:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._random = cluster.random
        self._writer = Writer(cluster, TOPIC)
        self._committed: list[bytes] = []
        self._leaders: dict[int, int] = {}
        self._is_cut = False
        self.is_over = False

    async def write(self) -> None:
        while not self.is_over:
            await self._writer.write(within_s=WRITE_S_MAX)
            await asyncio.sleep(self._random.uniform(0, 0.1))
        self._writer.close()

    async def befall(self) -> None:
        """One misfortune. Nothing falls without a warning before all that fell before are in sync again: two copies survive one
        such loss and no more, in Kafka as here, where nothing is synced and a killed process counts as a lost disk."""
        cluster, random = self._cluster, self._random
        one, other = random.sample(list(cluster.machines.values()), 2)
        names = [machine.name for machine in cluster.machines.values()]
        is_whole = self._is_whole()
        leader, lose_power = cluster.leader_of(TOPIC), random.random() < 0.5
        match random.randrange(8):
            case 0 | 1 if is_whole and leader is not None:
                await leader.kill(lose_power=lose_power)
            case 2 if is_whole and cluster.active is not None:
                await cluster.active.kill(lose_power=lose_power)
            case 3 if is_whole:
                await one.kill(lose_power=lose_power)
            case 4:
                self._is_cut = True
                cluster.network.partition([one.name], [name for name in names if name != one.name])
            case 5:
                self._is_cut = True
                cluster.network.cut(one.name, other.name)
            case 6 if is_whole:
                await one.stop()
            case _:
                cluster.network.reset(one.name, other.name)

    def _is_whole(self) -> bool:
        """Whether every node serves, and all of them know that all replicas are in sync."""
        machines = self._cluster.machines.values()
        for machine in machines:
            topic = None if machine.node is None else machine.node.image.topic(TopicName(TOPIC))
            if topic is None or len(topic.partitions[PartitionIndex(0)].isr) < len(machines):
                return False
        return not self._is_cut

    async def relieve(self) -> None:
        cluster, random = self._cluster, self._random
        if random.random() < 0.7:
            self._is_cut = False
            cluster.network.heal()
        for machine in cluster.machines.values():
            if not machine.is_up and random.random() < 0.7:
                machine.begin()

    def make_peace(self) -> None:
        """The end of all faults, and soon of all writes."""
        self._is_cut = False
        self._cluster.network.heal()
        for machine in self._cluster.machines.values():
            if not machine.is_up:
                machine.begin()
        self.is_over = True

    def is_settled(self) -> bool:
        ends = self._cluster.log_end_offsets(TOPIC)
        is_equal = len(ends) == len(self._cluster.machines) and len(set(ends.values())) == 1
        return self._is_whole() and is_equal and all(end == committed for end, committed in ends.values())

    def check_logs(self) -> None:
        """What any replica calls committed is what every other one did."""
        for machine in self._cluster.machines.values():
            committed = list(committed_values(machine))
            common = min(len(committed), len(self._committed))
            if committed[:common] != self._committed[:common]:
                place = next(index for index in range(common) if committed[index] != self._committed[index])
                raise BrokenInvariantError(
                    f"committed stays: {machine.name} has {committed[place]!r} at {place}, and it was "
                    f"{self._committed[place]!r}"
                )
            self._committed += committed[len(self._committed) :]
            self._check_leader(machine)

    def _check_leader(self, machine: Machine) -> None:
        replica = None if machine.node is None else machine.node.partitions.named(TopicName(TOPIC)).get(0)
        if replica is not None and replica.is_leading:
            known = self._leaders.setdefault(replica.leader_epoch, machine.number)
            if known != machine.number:
                raise BrokenInvariantError(
                    f"one leader an epoch: both {known} and {machine.number} lead epoch {replica.leader_epoch}"
                )

    async def check_end(self) -> None:
        self.check_logs()
        logs = [list(committed_values(machine)) for machine in self._cluster.machines.values()]
        if any(log != logs[0] for log in logs):
            raise BrokenInvariantError("log matching: the replicas have settled on different logs")
        missing = [value for value in self._writer.acknowledged if value not in set(logs[0])]
        if missing:
            raise BrokenInvariantError(f"acknowledged stays: {missing} were acknowledged and are gone")
        if not self._writer.acknowledged:
            raise BrokenInvariantError("nothing was ever acknowledged: the history proves nothing")
        if await self._read() != logs[0]:
            raise BrokenInvariantError("a reader sees something else than the logs hold")

    async def _read(self) -> list[bytes | None]:
        while True:
            try:
                return await self._writer.read()
            except RequestFailedError:
                await asyncio.sleep(0.1)


def committed_values(machine: Machine) -> Iterator[bytes]:
    """The values that a replica calls committed, as they lie in its log."""
    replica = None if machine.node is None else machine.node.partitions.named(TopicName(TOPIC)).get(0)
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
