"""Whole nodes on simulated machines that are one cluster: the same composition root as the real one, on one virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from random import Random
from typing import TypeVar

from tidelog.broker.config.server_properties import check_properties
from tidelog.broker.node.node import BrokerNode
from tidelog.controller.features import METADATA_VERSION, bootstrap_levels
from tidelog.controller.formatting import format_directories
from tidelog.controller.image import ClusterImage, Partition
from tidelog.controller.metadata_version import METADATA_VERSIONS, NEWEST
from tidelog.model.ids import DirectoryId, NodeId, PartitionIndex, TopicName
from tidelog.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.simulation.disk import SimulatedDisk
from tidelog.simulation.loop import VirtualClock, VirtualTimeLoop
from tidelog.simulation.network import SimulatedNetwork
from tidelog.simulation.slow_disk import SlowDisk
from tidelog.storage.seams import Seams

T = TypeVar("T")

CLUSTER_ID = "SimulatedClusterAAAAAA"
PORT = 9092
CONTROLLER_PORT = 9093
LISTENER = "CONTROLLER"
DIRECTORY = "/logs"


class Machine:
    """One machine of the cluster, with a node on it between `begin` and `kill` or `stop`."""

    def __init__(self, cluster: SimulatedCluster, number: int, config: Mapping[str, str]) -> None:
        self.number = number
        self.name = f"node-{number}"
        self.clock = VirtualClock(cluster.loop)
        self.disk = SimulatedDisk(self.clock)
        self.disk.make_directory("/")
        self.config = dict(config)
        self.node: BrokerNode | None = None
        """The node while it serves."""
        self.slow_disk: SlowDisk | None = None
        """Where the node's slow work is done, as long as there is a process."""
        self._cluster = cluster
        self._host = cluster.network.host(self.name)
        self._process: BrokerNode | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Whether there is a process: it starts, serves or stops."""
        return self.slow_disk is not None

    @property
    def has_failed(self) -> bool:
        """Whether the node has given up by itself: its disk has failed."""
        return self._process is not None and self._process.fault is not None

    @property
    def is_stalled(self) -> bool:
        return self._cluster.loop.is_stalled(self.name)

    def begin(self) -> asyncio.Task[None]:
        """Start the node; the task ends when it serves. It may need others for that."""
        assert not self.is_up
        self.slow_disk = SlowDisk(self._cluster.loop, self._cluster.random)
        self._task = self._cluster.loop.create_task(self._start(self.slow_disk), context=self._host.context)
        return self._task

    async def _start(self, slow_disk: SlowDisk) -> None:
        cluster = self._cluster
        seams = Seams(self.disk, self.clock, slow_disk, Random(cluster.random.getrandbits(32)))
        config = check_properties(self.config, strict=True).values
        node = await BrokerNode.start(config, seams, cluster.loop, self._host)
        tell = cluster.on_image
        if tell is not None:
            tell(node.image)
            node.on_image(lambda: tell(node.image))
        self.node = self._process = node

    async def stop(self) -> None:
        """Stop the node cleanly. It may be killed meanwhile, which ends this too."""
        assert self.node is not None
        node, self.node = self.node, None
        self._task = self._cluster.loop.create_task(node.stop(), context=self._host.context)
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._process = self.slow_disk = None
            self._task.result()

    def stall(self) -> None:
        """The process stands still, as after SIGSTOP. Its kernel does not."""
        self._cluster.loop.stall(self.name)

    def resume(self) -> None:
        self._cluster.loop.resume(self.name)

    async def kill(self, *, lose_power: bool = False) -> None:
        """The process dies, or the machine: then a write that was not synced is lost or kept by chance."""
        assert self.slow_disk is not None
        if lose_power:
            self._host.lose_power()
        else:
            self._host.kill()
        self.slow_disk.is_dead = True
        self.slow_disk = self.node = None
        self.resume()
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])
        process, self._process = self._process, None
        if process is not None:
            process.abandon()
        if lose_power:
            self.disk.crash(self._cluster.random)
            self._host.restore_power()
        else:
            self.disk.kill()


class SimulatedCluster:
    """Nodes 1 to `size`, all of them brokers and controllers unless `roles` says otherwise. The same seed gives the same run."""

    def __init__(
        self,
        seed: int,
        size: int = 3,
        *,
        config: Mapping[str, str] | None = None,
        roles: Mapping[int, str] | None = None,
        voters: Collection[int] | None = None,
        is_static: bool = False,
        levels: Mapping[str, int] | None = None,
        on_image: Callable[[ClusterImage], None] | None = None,
    ) -> None:
        """`voters` are the first ones: all controllers, unless it says otherwise. `levels` are the features' where they are not
        those that a new cluster starts with at its metadata.version; `on_image` is told of each image of each node that serves.
        """
        self.on_image = on_image
        version = METADATA_VERSIONS[(levels or {}).get(METADATA_VERSION, NEWEST.level)]
        self._levels = bootstrap_levels(version, levels)
        self.random = Random(seed)
        self.loop = VirtualTimeLoop()
        self.network = SimulatedNetwork(self.loop, self.random)
        self.roles = {number: (roles or {}).get(number, "broker,controller") for number in range(1, size + 1)}
        controllers = [number for number in self.roles if "controller" in self.roles[number]]
        self._first = [number for number in controllers if voters is None or number in voters]
        self._voters = VoterSet(
            Voter(
                ReplicaKey(NodeId(number), DirectoryId(bytes([0xC0 + number]) * 16)),
                (Endpoint(LISTENER, f"node-{number}", CONTROLLER_PORT),),
            )
            for number in self._first
        )
        addresses = {number: f"node-{number}:{CONTROLLER_PORT}" for number in controllers}
        quorum = {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}
        if is_static:
            quorum = {"controller.quorum.voters": ",".join(f"{each}@{addresses[each]}" for each in self._first)}
        self.machines = {
            number: Machine(self, number, {**self._config(number), **quorum, **(config or {})}) for number in self.roles
        }
        for machine in self.machines.values():
            self._format(machine, is_static=is_static)

    def _config(self, number: int) -> dict[str, str]:
        role, name = self.roles[number], f"node-{number}"
        listeners = []
        if "broker" in role:
            listeners.append(f"PLAINTEXT://{name}:{PORT}")
        if "controller" in role:
            listeners.append(f"{LISTENER}://{name}:{CONTROLLER_PORT}")
        return {
            "node.id": str(number),
            "process.roles": role,
            "listeners": ",".join(listeners),
            "controller.listener.names": LISTENER,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": DIRECTORY,
        }

    def _format(self, machine: Machine, *, is_static: bool) -> None:
        is_voter = machine.number in self._first
        format_directories(
            machine.disk,
            [DIRECTORY],
            cluster_id=CLUSTER_ID,
            node_id=NodeId(machine.number),
            controller_endpoints=(),
            random=self.random,
            clock=VirtualClock(self.loop),
            voters=self._voters if is_voter else None,
            is_static_quorum=is_static or not is_voter,
            levels=self._levels,
        )

    def run(self, story: Callable[[SimulatedCluster], Awaitable[T]]) -> T:
        async def told() -> T:
            try:
                return await story(self)
            finally:
                for machine in self.machines.values():
                    if machine.is_up:
                        await machine.kill()

        try:
            return self.loop.run_until_complete(told())
        finally:
            self.loop.close()

    async def start(self, *numbers: int) -> None:
        """Start nodes together, and wait until all of them serve."""
        await asyncio.gather(*(self.machines[number].begin() for number in numbers or self.machines))

    async def until(
        self, condition: Callable[[], bool], what: str, within_s: float = 30.0, *, look_s: float = 0.002
    ) -> float:
        """Waits until something holds, which is looked at every `look_s`. How long it took, in seconds."""
        began_s = self.loop.time()
        while not condition():
            if self.loop.time() - began_s > within_s:
                raise AssertionError(f"waited {within_s} s in vain for {what}")
            await asyncio.sleep(look_s)
        return self.loop.time() - began_s

    @property
    def nodes(self) -> list[BrokerNode]:
        """Those that serve."""
        return [machine.node for machine in self.machines.values() if machine.node is not None]

    @property
    def active(self) -> Machine | None:
        """Where the active controller of the highest epoch is."""
        leading = [machine for machine in self.machines.values() if machine.node and machine.node.quorum.is_leader]
        return max(leading, key=lambda machine: machine.node.quorum.epoch if machine.node else 0, default=None)

    def partition(self, topic: str, index: int = 0) -> Partition | None:
        """A partition as the node with the newest metadata knows it."""
        newest = max(self.nodes, key=lambda node: node.image.offset, default=None)
        found = None if newest is None else newest.image.topic(TopicName(topic))
        return None if found is None else found.partitions.get(PartitionIndex(index))

    def leader_of(self, topic: str, index: int = 0) -> Machine | None:
        """The machine that leads a partition, if it is up and knows so."""
        partition = self.partition(topic, index)
        machine = None if partition is None else self.machines.get(partition.leader)
        if machine is None or machine.node is None:
            return None
        replica = machine.node.partitions.named(TopicName(topic)).get(index)
        return machine if replica is not None and replica.is_leading else None

    def log_end_offsets(self, topic: str, index: int = 0) -> dict[int, tuple[int, int]]:
        """Where each replica's log ends, and its high watermark."""
        found = {}
        for machine in self.machines.values():
            replica = None if machine.node is None else machine.node.partitions.named(TopicName(topic)).get(index)
            if replica is not None and replica.log is not None:
                found[machine.number] = (int(replica.log.log_end_offset), int(replica.log.high_watermark))
        return found
