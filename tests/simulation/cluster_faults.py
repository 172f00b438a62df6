"""What can befall a simulated cluster. Each misfortune strikes, and returns how it ends.

Most are aimed: at the leader of a partition, at who follows it, at the active controller, at a coordinator. Chance alone rarely
finds the few milliseconds in which a bug shows.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from random import Random

from tests.simulation.cluster_invariants import ClusterInvariants
from tests.simulation.cluster_load import PARTITIONS, TOPIC, Load, TransactionLoad
from tidelog.controller.image import ClusterImage, Partition
from tidelog.model.ids import PartitionIndex, TopicName
from tidelog.replication.roles import Leading
from tidelog.simulation.cluster import CONTROLLER_PORT, PORT, Machine, SimulatedCluster

Undo = Callable[[], Awaitable[None] | None]

INTERNAL = ("__consumer_offsets", "__transaction_state")
CLIENTS = [f"client-{number}" for number in range(1, 10)]
WAIT_S_MAX = 1.5


@dataclass(frozen=True, slots=True)
class Step:
    """One misfortune of a plan: when it comes after the one before, how long it lasts, and its own chance."""

    number: int
    name: str
    after_s: float
    for_s: float
    seed: int


class Surroundings:
    """What misfortunes strike, and what they must know to strike where it hurts and no harder than a cluster can bear."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        invariants: ClusterInvariants,
        load: Load,
        topics: Iterable[str],
        note: Callable[[str], None],
    ) -> None:
        self.cluster = cluster
        self.network = cluster.network
        self.load = load
        self.note = note
        self.absent: set[int] = set()
        """Machines whose nodes have not joined yet, or have left for good."""
        self._invariants = invariants
        self._topics = [TopicName(topic) for topic in topics]
        # Machines that may have forgotten something, and the life of the broker in which they did.
        self._forgetful: dict[int, int] = {}

    @property
    def image(self) -> ClusterImage:
        """The newest that any node has had."""
        return self._invariants.image

    # --- where to strike ---------------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> list[Machine]:
        return [machine for machine in self.cluster.machines.values() if "broker" in self.cluster.roles[machine.number]]

    def leader(self, random: Random) -> Machine | None:
        return self.cluster.leader_of(TOPIC, random.choice(PARTITIONS))

    def followers(self, leader: Machine) -> list[Machine]:
        return [machine for machine in self.brokers if machine is not leader and machine.node is not None]

    def coordinator(self, random: Random) -> Machine | None:
        return self.cluster.leader_of(random.choice(INTERNAL))

    def victim(self, random: Random) -> Machine | None:
        """A node that is up: mostly one that matters."""
        machine = random.choice(
            [self.leader(random), self.leader(random), self.cluster.active, self.coordinator(random)]
        )
        if machine is None or random.random() < 0.2:
            machine = random.choice(list(self.cluster.machines.values()))
        return machine if machine.node is not None else None

    def others(self, machine: Machine) -> list[Machine]:
        return [other for other in self.cluster.machines.values() if other is not machine]

    def partition_of(self, topic: str, index: int) -> Partition | None:
        found = self._invariants.image.topic(TopicName(topic))
        return None if found is None else found.partitions.get(PartitionIndex(index))

    # --- how hard to strike ------------------------------------------------------------------------------------------------

    def may_forget(self, machine: Machine) -> bool:
        """Whether all that is committed is also on another one, who would be trusted to have it.

        Two copies survive one loss and no more. A killed process counts as a loss: nobody can tell what its machine had written,
        and the controller trusts it no longer.
        """
        image = self._invariants.image
        for topic in self._topics:
            found = image.topic(topic)
            for partition in () if found is None else found.partitions.values():
                holders = {*partition.isr, *partition.eligible_leader_replicas}
                if not any(self._is_trusted(holder) for holder in holders if holder != machine.number):
                    return False
        return True

    def _is_trusted(self, number: int) -> bool:
        forgot_in = self._forgetful.get(number)
        if forgot_in is None:
            return True
        known = next((broker for broker in self._invariants.image.brokers.values() if broker.node_id == number), None)
        return known is not None and known.epoch > forgot_in

    async def kill(self, machine: Machine, random: Random) -> bool:
        if not machine.is_up or not self.may_forget(machine):
            return False
        lose_power = random.random() < 0.6
        self.forgets(machine)
        self.note(f"{machine.name} {'loses power' if lose_power else 'is killed'}")
        await machine.kill(lose_power=lose_power)
        return True

    def forgets(self, machine: Machine) -> None:
        self._forgetful[machine.number] = max(
            (broker.epoch for broker in self._invariants.image.brokers.values() if broker.node_id == machine.number),
            default=-1,
        )

    def begin(self, machine: Machine) -> None:
        if not machine.is_up and machine.number not in self.absent:
            self.note(f"{machine.name} starts")
            machine.begin().add_done_callback(_forget_outcome)

    async def until(self, condition: Callable[[], bool], within_s: float = WAIT_S_MAX, *, look_s: float = 0.01) -> bool:
        """Wait for something that need not come."""
        ends_s = self.cluster.loop.time() + within_s
        while not condition():
            if self.cluster.loop.time() > ends_s:
                return False
            await asyncio.sleep(look_s)
        return True

    def cut(
        self, pairs: Iterable[tuple[Machine, Machine]], *, both_ways: bool = True, port: int | None = None
    ) -> Callable[[], None]:
        links = [(one.name, other.name) for one, other in pairs]
        if both_ways:
            links += [(target, source) for source, target in links]
        for source, target in links:
            self.network.cut(source, target, port)

        def mend() -> None:
            for source, target in links:
                self.network.mend(source, target, port)

        return mend


def _forget_outcome(task: asyncio.Task[None]) -> None:
    """A node that cannot start because its disk is full is found dead by whoever looks."""
    if not task.cancelled():
        task.exception()


Misfortune = Callable[[Surroundings, Random], Awaitable[Undo | None]]


async def isolate(world: Surroundings, random: Random) -> Undo | None:
    """A node is cut off from all others. Clients still reach it."""
    machine = world.victim(random)
    if machine is None:
        return None
    world.note(f"{machine.name} is isolated")
    return world.cut([(machine, other) for other in world.others(machine)])


async def cut_one_way(world: Surroundings, random: Random) -> Undo | None:
    """A node hears another no more, which hears it."""
    machine = world.victim(random)
    if machine is None:
        return None
    other = random.choice(world.others(machine))
    one, two = random.choice([(machine, other), (other, machine)])
    world.note(f"nothing gets from {one.name} to {two.name}")
    return world.cut([(one, two)], both_ways=False)


async def slow_link(world: Surroundings, random: Random) -> Undo | None:
    """What goes between two machines takes long, and connections overtake each other."""
    machine = world.victim(random)
    if machine is None:
        return None
    latency_ms = random.choice([30, 100, 400])
    links = [(machine.name, other.name) for other in world.others(machine)]
    links += [(target, source) for source, target in links]
    links = random.sample(links, random.randrange(1, len(links) + 1))
    world.note(f"{' '.join(f'{source}>{target}' for source, target in links)} take up to {latency_ms} ms")
    for source, target in links:
        world.network.slow(source, target, latency_ms)

    def mend() -> None:
        for source, target in links:
            world.network.mend(source, target)

    return mend


async def reset(world: Surroundings, random: Random) -> Undo | None:
    """All connections between two machines break."""
    one, other = random.sample(list(world.cluster.machines.values()), 2)
    world.note(f"connections between {one.name} and {other.name} break")
    world.network.reset(one.name, other.name)
    return None


async def kill(world: Surroundings, random: Random) -> Undo | None:
    """A process dies, or its machine, which then forgets what was not synced."""
    machine = world.victim(random)
    if machine is None or not await world.kill(machine, random):
        return None
    return lambda: world.begin(machine)


async def stop(world: Surroundings, random: Random) -> Undo | None:
    """A node stops as it should."""
    machine = world.victim(random)
    if machine is None or not world.may_forget(machine):
        return None
    world.note(f"{machine.name} stops")
    stopping = world.cluster.loop.create_task(machine.stop())
    stopping.add_done_callback(_forget_outcome)

    async def start_again() -> None:
        await world.until(lambda: not machine.is_up)
        if machine.is_up and machine.node is None:
            # It waits for others who are not there.
            world.forgets(machine)
            await machine.kill()
        world.begin(machine)

    return start_again


async def stall(world: Surroundings, random: Random) -> Undo | None:
    """A process stands still, and does not know it afterwards."""
    machine = world.victim(random)
    if machine is None:
        return None
    world.note(f"{machine.name} stalls")
    machine.stall()
    return machine.resume


async def stall_client(world: Surroundings, random: Random) -> Undo | None:
    """A client stands still for longer than its session."""
    host = f"client-{random.choice([1, 2, 4, 4, 5, 5])}"
    world.note(f"{host} stalls")
    world.cluster.loop.stall(host)
    return lambda: world.cluster.loop.resume(host)


async def slow_disk(world: Surroundings, random: Random) -> Undo | None:
    """What a node syncs takes long."""
    machine = world.victim(random)
    disk = None if machine is None else machine.slow_disk
    if machine is None or disk is None:
        return None
    before, disk.latency_ms_max = disk.latency_ms_max, random.choice([50.0, 300.0])
    world.note(f"the disk of {machine.name} takes up to {disk.latency_ms_max:.0f} ms")

    def mend() -> None:
        disk.latency_ms_max = before

    return mend


async def full_disk(world: Surroundings, random: Random) -> Undo | None:
    """A disk is full: the node gives up."""
    machine = world.victim(random)
    if machine is None or not world.may_forget(machine):
        return None
    world.note(f"the disk of {machine.name} is full")
    world.forgets(machine)
    machine.disk.fail("pwritev", "*.log", errno.ENOSPC)

    async def make_room() -> None:
        machine.disk.heal()
        if machine.is_up and (machine.has_failed or machine.node is None):
            await machine.kill()
        world.begin(machine)

    return make_room


async def set_clock(world: Surroundings, random: Random) -> Undo | None:
    """A machine's date is wrong, by minutes or by a day."""
    machine = random.choice(list(world.cluster.machines.values()))
    machine.clock.skew_ms = random.choice([-86_400_000, -120_000, -700, 900, 300_000, 86_400_000])
    world.note(f"the clock of {machine.name} is {machine.clock.skew_ms} ms wrong")
    return None


async def lose_leader_with_a_laggard(world: Surroundings, random: Random) -> Undo | None:
    """A follower is cut off until it is not in sync any more. Then the leader dies, and the follower is back."""
    index = random.choice(PARTITIONS)
    leader = world.cluster.leader_of(TOPIC, index)
    if leader is None or not world.followers(leader):
        return None
    # Mostly the one that comes first among the replicas: an election that looks at nothing else takes that one.
    partition = world.partition_of(TOPIC, index)
    followers = world.followers(leader)
    laggard = followers[0]
    if partition is not None and random.random() < 0.7:
        laggard = min(followers, key=lambda machine: _place(partition, machine))
    world.note(f"{laggard.name} hears nothing from {leader.name}")
    # The controllers may go on as if nothing were.
    mend = world.cut([(leader, laggard)], both_ways=random.random() < 0.5, port=random.choice([None, PORT]))
    is_out = await world.until(lambda: not _is_in_sync(world, index, laggard))
    if is_out:
        await asyncio.sleep(random.uniform(0.05, 0.3))
    if is_out and random.random() < 0.3:
        # Back in time, and half way in.
        mend()
        await asyncio.sleep(random.uniform(0, 0.03))
    await world.kill(leader, random)

    def undo() -> None:
        mend()
        world.begin(leader)

    return undo


async def leave_leader_alone(world: Surroundings, random: Random) -> Undo | None:
    """All followers are cut off from a leader, but not from the controller; when the leader is alone, it may die."""
    index = random.choice(PARTITIONS)
    leader = world.cluster.leader_of(TOPIC, index)
    if leader is None:
        return None
    world.note(f"nobody follows {leader.name}")
    port = None if random.random() < 0.2 else PORT
    mend = world.cut([(leader, follower) for follower in world.followers(leader)], port=port)
    await world.until(lambda: _in_sync(world, index) == 1)
    await asyncio.sleep(random.uniform(0.05, 0.4))
    if random.random() < 0.7:
        await world.kill(leader, random)

    def undo() -> None:
        mend()
        world.begin(leader)

    return undo


async def return_forgetful(world: Surroundings, random: Random) -> Undo | None:
    """A follower catches up while its leader does not reach the controller. It forgets all that it had, and begins a new life.
    Then the controller hears what the leader thought of its former one."""
    found = await _fall_behind(world, random)
    if found is None:
        return None
    index, leader, active, follower, mend = found
    world.note(f"{leader.name} does not reach {active.name}, and {follower.name} catches up")
    let = world.cut([(leader, active)], both_ways=False, port=CONTROLLER_PORT)
    mend()
    await world.until(lambda: _is_joining(leader, index, follower), 0.4)
    world.cut([(leader, follower)], port=PORT)
    if world.may_forget(follower):
        world.forgets(follower)
        world.note(f"{follower.name} loses power, and follows nobody")
        await follower.kill(lose_power=True)
        world.begin(follower)
        await world.until(lambda: follower.node is not None, 0.5)
    let()
    await world.until(lambda: _is_in_sync(world, index, follower), 0.3)

    def undo() -> None:
        mend()
        world.begin(follower)

    return undo


async def lose_the_answer(world: Surroundings, random: Random) -> Undo | None:
    """A follower catches up, and the controller agrees that it is in sync. The leader does not hear so, and the follower is
    cut off again."""
    found = await _fall_behind(world, random)
    if found is None:
        return None
    index, leader, active, follower, mend = found
    world.note(f"{leader.name} hears nothing from {active.name}, and {follower.name} catches up")
    let = world.cut([(active, leader)], both_ways=False, port=CONTROLLER_PORT)
    mend()
    if await world.until(lambda: _is_in_sync(world, index, follower), 0.4):
        world.note(f"{follower.name} is in sync, and hears nothing from {leader.name} again")
        world.cut([(leader, follower)], port=PORT)

    def undo() -> None:
        mend()
        let()

    return undo


async def _fall_behind(
    world: Surroundings, random: Random
) -> tuple[int, Machine, Machine, Machine, Callable[[], None]] | None:
    """A follower is cut off from its leader, as far as replication goes, until it is out of sync."""
    index = random.choice(PARTITIONS)
    leader, active = world.cluster.leader_of(TOPIC, index), world.cluster.active
    if leader is None or active is None or leader is active:
        index = 1 - index
        leader = world.cluster.leader_of(TOPIC, index)
    if leader is None or active is None or leader is active or not world.followers(leader):
        return None
    follower = random.choice(world.followers(leader))
    world.note(f"{follower.name} does not hear {leader.name}")
    mend = world.cut([(leader, follower)], port=PORT)
    if not await world.until(lambda: not _is_in_sync(world, index, follower)):
        mend()
        return None
    await asyncio.sleep(random.uniform(0, 0.2))
    return index, leader, active, follower, mend


async def lose_new_leader(world: Surroundings, random: Random) -> Undo | None:
    """A leader stalls until another leads. It comes back, and the other one dies at once."""
    index = random.choice(PARTITIONS)
    leader = world.cluster.leader_of(TOPIC, index)
    if leader is None:
        return None
    world.note(f"{leader.name} stalls")
    leader.stall()
    await world.until(lambda: _led_by_another(world, index, leader))
    await asyncio.sleep(random.uniform(0, 0.2))
    leader.resume()
    await asyncio.sleep(random.uniform(0, 0.05))
    successor = world.cluster.leader_of(TOPIC, index)
    if successor is None or successor is leader or not await world.kill(successor, random):
        return None
    return lambda: world.begin(successor)


async def delay_markers(world: Surroundings, random: Random) -> Undo | None:
    """The coordinator of transactions does not reach a leader, another coordinates, and then all arrives that was under way."""
    coordinator = world.cluster.leader_of(INTERNAL[1])
    leader = world.leader(random)
    if coordinator is None or leader is None or coordinator is leader:
        return None
    load = world.load
    if isinstance(load, TransactionLoad):
        # Just when the end is asked for: the markers are held then, and nothing that the end waits for.
        await world.until(lambda: load.is_open)
        await world.until(lambda: not load.is_open, look_s=0.001)
    world.note(f"{coordinator.name} does not reach {leader.name}, which still follows it")
    link = (coordinator.name, leader.name, PORT, leader.name)
    world.network.cut(*link)
    await asyncio.sleep(random.uniform(0.05, 0.4))
    world.note(f"{coordinator.name} is isolated, also from clients")
    also = world.cut([(coordinator, other) for other in world.others(coordinator)])
    for host in CLIENTS:
        # They look elsewhere at once.
        world.network.partition([host], [coordinator.name])
        world.network.reset(host, coordinator.name)
    await world.until(lambda: _leader_number(world, INTERNAL[1]) not in {coordinator.number, -1})

    async def undo() -> None:
        if isinstance(load, TransactionLoad):
            await world.until(lambda: load.is_open and _has_open_transaction(leader), 2 * WAIT_S_MAX)
        world.network.mend(*link)
        also()
        for host in CLIENTS:
            world.network.mend(host, coordinator.name)
            world.network.mend(coordinator.name, host)

    return undo


async def delay_commits(world: Surroundings, random: Random) -> Undo | None:
    """A member of a group does not reach the coordinator for longer than its session. What it has sent arrives afterwards."""
    coordinator = world.cluster.leader_of(INTERNAL[0])
    if coordinator is None:
        return None
    host = f"client-{random.choice([4, 5])}"
    world.note(f"{host} does not reach {coordinator.name}")
    world.network.cut(host, coordinator.name)
    await asyncio.sleep(random.uniform(0.8, 1.2))
    return lambda: world.network.mend(host, coordinator.name)


async def take_over(world: Surroundings, random: Random) -> Undo | None:
    """Another process takes a transactional id while the first one stands still and knows nothing of it."""
    load = world.load
    if not isinstance(load, TransactionLoad):
        return await stall_client(world, random)
    # Mostly one that has yet to send a part of what belongs together.
    await world.until(lambda: load.is_half_sent and load.is_open, 1.0)
    host, before = load.writer_host, load.taken_over
    world.note(f"{host} stalls, and another takes its id")
    world.cluster.loop.stall(host)
    load.take_over()

    async def undo() -> None:
        await world.until(lambda: load.taken_over > before)
        world.cluster.loop.resume(host)

    return undo


async def depose_leader(world: Surroundings, random: Random) -> Undo | None:
    """A leader is isolated with what it has not replicated, loses its office, and comes back to who leads by then."""
    index = random.choice(PARTITIONS)
    leader = world.cluster.leader_of(TOPIC, index)
    if leader is None:
        return None
    world.note(f"{leader.name} is isolated until another leads")
    mend = world.cut([(leader, other) for other in world.others(leader)])
    await world.until(lambda: _led_by_another(world, index, leader))
    await asyncio.sleep(random.uniform(0, 0.4))
    mend()
    if random.random() < 0.5:
        await asyncio.sleep(random.uniform(0, 0.1))
        successor = world.cluster.leader_of(TOPIC, index)
        if successor is not None and successor is not leader:
            world.note(f"{successor.name} is isolated")
            return world.cut([(successor, other) for other in world.others(successor)])
    return None


def _place(partition: Partition, machine: Machine) -> int:
    numbers = [int(node) for node in partition.replicas]
    return numbers.index(machine.number) if machine.number in numbers else len(numbers)


def _is_in_sync(world: Surroundings, index: int, machine: Machine) -> bool:
    partition = world.partition_of(TOPIC, index)
    return partition is not None and machine.number in partition.isr


def _has_open_transaction(leader: Machine) -> bool:
    """Whether a partition that a node leads has records that are not stable."""
    replicas = {} if leader.node is None else leader.node.partitions.named(TopicName(TOPIC))
    logs = [replica.log for replica in replicas.values() if replica.is_leading]
    return any(log is not None and log.last_stable_offset < log.high_watermark for log in logs)


def _is_joining(leader: Machine, index: int, follower: Machine) -> bool:
    """Whether a leader has asked for a follower to count as in sync."""
    replica = None if leader.node is None else leader.node.partitions.named(TopicName(TOPIC)).get(index)
    role = None if replica is None else replica.role
    return isinstance(role, Leading) and follower.number in role.joining


def _in_sync(world: Surroundings, index: int) -> int:
    partition = world.partition_of(TOPIC, index)
    return 0 if partition is None else len(partition.isr)


def _leader_number(world: Surroundings, topic: str, index: int = 0) -> int:
    partition = world.partition_of(topic, index)
    return -1 if partition is None else int(partition.leader)


def _led_by_another(world: Surroundings, index: int, machine: Machine) -> bool:
    return _leader_number(world, TOPIC, index) not in {machine.number, -1}


# How often each comes.
WEIGHTS: dict[Misfortune, int] = {
    isolate: 4,
    cut_one_way: 4,
    slow_link: 3,
    reset: 2,
    kill: 5,
    stop: 2,
    stall: 4,
    stall_client: 1,
    slow_disk: 2,
    full_disk: 1,
    set_clock: 1,
    lose_leader_with_a_laggard: 4,
    leave_leader_alone: 3,
    return_forgetful: 3,
    lose_the_answer: 3,
    lose_new_leader: 4,
    depose_leader: 4,
    take_over: 1,
    delay_markers: 1,
    delay_commits: 1,
}
# What matters more, or only, to some of those who use the cluster.
OF_LOAD: dict[str, dict[Misfortune, int]] = {
    "records": {take_over: 0, delay_markers: 0, delay_commits: 0},
    "transactions": {delay_markers: 7, take_over: 7, delay_commits: 0, lose_the_answer: 1, return_forgetful: 1},
    "groups": {stall_client: 3, delay_commits: 6, take_over: 0, delay_markers: 0, lose_the_answer: 1},
}
MISFORTUNES = {misfortune.__name__: misfortune for misfortune in WEIGHTS}
