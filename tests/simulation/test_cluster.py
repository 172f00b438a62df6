"""Three whole nodes as one cluster, on virtual time: topics with replicas, acknowledged writes, deaths, and nothing lost."""

from __future__ import annotations

import asyncio
import errno

import pytest

from tests.support.simulated_cluster import DIRECTORY, Machine, SimulatedCluster, Writer, committed_values
from tests.support.simulated_node import Asker
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition


async def _with_topic(cluster: SimulatedCluster, **configs: str) -> Writer:
    await cluster.start()
    return await _topic(cluster, "orders", **configs)


async def _topic(cluster: SimulatedCluster, topic: str, *, node: str = "node-1", **configs: str) -> Writer:
    """A new topic with three replicas that has its leader, and who writes to it."""
    asker = Asker(cluster, node)
    named = {key.replace("_", "."): value for key, value in configs.items()}
    assert await asker.create(topic, replicas=3, configs=named) == ErrorCode.NONE
    asker.close()
    await cluster.until(lambda: cluster.leader_of(topic) is not None, "a leader of the new topic")
    return Writer(cluster, topic)


def _isr(cluster: SimulatedCluster, topic: str = "orders") -> tuple[int, ...]:
    partition = cluster.partition(topic)
    return () if partition is None else partition.isr


def _leads(cluster: SimulatedCluster, machine: Machine, topic: str = "orders") -> bool:
    assert machine.node is not None
    replica = machine.node.partitions.named(TopicName(topic)).get(0)
    return replica is not None and replica.is_leading


def _directory(machine: Machine | None, topic: str) -> str:
    """Where a machine has its replica of a topic."""
    assert machine is not None
    assert machine.node is not None
    directory = machine.node.log_directories.directory_of(TopicPartition(TopicName(topic), PartitionIndex(0)))
    assert directory is not None
    return directory.path


def test_a_record_that_is_acknowledged_is_on_all_three() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_topic(cluster)
        for _ in range(20):
            await writer.write()
        assert {end for end, _ in cluster.log_end_offsets("orders").values()} == {20}
        assert await writer.read() == writer.acknowledged
        await cluster.until(
            lambda: set(cluster.log_end_offsets("orders").values()) == {(20, 20)}, "the high watermark everywhere"
        )
        writer.close()

    SimulatedCluster(1).run(story)


def test_an_idle_quorum_keeps_its_leader_however_short_its_patience_is() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.start()
        await cluster.until(lambda: cluster.active is not None, "an active controller")
        epochs = {node.quorum.epoch for node in cluster.nodes}
        await asyncio.sleep(5)
        assert {node.quorum.epoch for node in cluster.nodes} == epochs

    # Shorter than Kafka lets an answer wait that has nothing to say, and no records that only show that the leader is there.
    hasty = {"controller.quorum.fetch.timeout.ms": "250", "metadata.max.idle.interval.ms": "0"}
    SimulatedCluster(5, config=hasty).run(story)


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_leader_is_replaced_within_a_second_and_nothing_acknowledged_is_lost(seed: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_topic(cluster, min_insync_replicas="2")
        for _ in range(10):
            await writer.write()
        leader = cluster.leader_of("orders")
        assert leader is not None
        await leader.kill()
        gap_s = await writer.write()
        assert gap_s < 1.0
        for _ in range(10):
            await writer.write()
        await cluster.start(leader.number)
        await cluster.until(lambda: len(_isr(cluster)) == 3, "the killed replica to be in sync again")
        await writer.write()
        ends = {end for end, _ in cluster.log_end_offsets("orders").values()}
        assert len(ends) == 1
        found = await writer.read()
        assert set(writer.acknowledged) <= set(found)
        writer.close()

    SimulatedCluster(seed).run(story)


@pytest.mark.parametrize("seed", range(4))
def test_the_death_of_leader_and_active_controller_in_one_costs_less_than_a_second(seed: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_topic(cluster, min_insync_replicas="2")
        await writer.write()
        # Topics go where they like: take one that the active controller's own node leads.
        number = 0
        while cluster.active is None or cluster.leader_of(writer.topic) is not cluster.active:
            writer.close()
            number += 1
            writer = await _topic(cluster, f"orders-{number}", min_insync_replicas="2")
            await writer.write()
        await cluster.active.kill()
        assert await writer.write() < 1.0
        assert set(writer.acknowledged) <= set(await writer.read())
        writer.close()

    SimulatedCluster(seed).run(story)


def test_a_leader_whose_disk_is_full_is_replaced_at_once_and_its_node_goes_on() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.start()
        # Topics go to the directory that has fewer.
        topics = ("orders", "payments")
        for topic in topics:
            (await _topic(cluster, topic, min_insync_replicas="2")).close()
        lies = {topic: _directory(cluster.leader_of(topic), topic) for topic in topics}
        assert sorted(lies.values()) == [DIRECTORY, "/second"]
        lost = next(topic for topic in topics if lies[topic] == "/second")
        writer = Writer(cluster, lost)
        await writer.write()
        leader = cluster.leader_of(lost)
        assert leader is not None
        leader.disk.fail("pwritev", "/second/*", errno.ENOSPC)

        # The controller hears of it with a heartbeat; the next one that was due anyway may be two seconds away.
        assert await writer.write() < 0.2

        assert cluster.leader_of(lost) is not leader
        assert not leader.has_failed
        assert len(_isr(cluster, lost)) == 2
        assert set(writer.acknowledged) <= set(await writer.read())
        writer.close()

    directories = {"log.dirs": f"{DIRECTORY},/second", "metadata.log.dir": DIRECTORY}
    SimulatedCluster(1, config=directories).run(story)


def test_a_follower_that_is_gone_leaves_the_set_and_comes_back() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_topic(cluster, min_insync_replicas="2")
        await writer.write()
        leader = cluster.leader_of("orders")
        follower = next(machine for machine in cluster.machines.values() if machine is not leader)
        await follower.kill()
        assert await writer.write() < 1.0
        assert follower.number not in _isr(cluster)
        await cluster.start(follower.number)
        await cluster.until(lambda: follower.number in _isr(cluster), "the follower to be in sync again")
        writer.close()

    SimulatedCluster(7).run(story)


def test_too_few_in_sync_replicas_take_no_writes_and_lose_none() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_topic(cluster, min_insync_replicas="2")
        await writer.write()
        leader = cluster.leader_of("orders")
        assert leader is not None
        # Cut off as far as replication goes; the quorum of the metadata stays.
        others = [machine for machine in cluster.machines.values() if machine is not leader]
        for other in others:
            await other.stop()
        assert leader.node is not None
        asker = Asker(cluster, leader.name)
        assert await asker.produce("orders", b"too few") == ErrorCode.NOT_ENOUGH_REPLICAS
        asker.close()
        await cluster.start(*(other.number for other in others))
        await writer.write()
        assert await writer.read() == writer.acknowledged
        writer.close()

    SimulatedCluster(8).run(story)


def test_a_stalled_follower_leaves_the_set_when_it_lags() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_topic(cluster)
        await writer.write()
        leader = cluster.leader_of("orders")
        assert leader is not None
        follower = next(
            machine for machine in cluster.machines.values() if machine is not leader and machine is not cluster.active
        )
        # It still sends heartbeats, but gets no records.
        cluster.network.cut(leader.name, follower.name)
        took_s = await writer.write(within_s=30)
        assert follower.number not in _isr(cluster)
        assert 1 < took_s < 8
        cluster.network.heal()
        await cluster.until(lambda: follower.number in _isr(cluster), "the follower to be in sync again")
        writer.close()

    SimulatedCluster(9, config={"replica.lag.time.max.ms": "4000"}).run(story)


def test_what_a_cut_off_leader_wrote_alone_is_cut_off_when_it_comes_back() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_topic(cluster)
        await writer.write()
        former = cluster.leader_of("orders")
        assert former is not None
        others = [machine for machine in cluster.machines.values() if machine is not former]
        cluster.network.partition([former.name], [other.name for other in others])
        asker = Asker(cluster, former.name)
        lost = cluster.loop.create_task(asker.produce("orders", b"lost"))
        await asyncio.sleep(0.1)
        assert cluster.log_end_offsets("orders")[former.number] == (2, 1)
        await cluster.until(lambda: any(_leads(cluster, other) for other in others), "another leader", within_s=30)
        took = Asker(cluster, next(other for other in others if _leads(cluster, other)).name)
        assert await took.produce("orders", b"kept") == ErrorCode.NONE
        cluster.network.heal()
        await cluster.until(lambda: len(_isr(cluster)) == 3, "all in sync again")
        assert await lost != ErrorCode.NONE
        assert await writer.read() == [*writer.acknowledged, b"kept"]
        await cluster.until(
            lambda: set(cluster.log_end_offsets("orders").values()) == {(2, 2)}, "the high watermark everywhere"
        )
        for machine in cluster.machines.values():
            assert list(committed_values(machine)) == [*writer.acknowledged, b"kept"]
        for each in (asker, took):
            each.close()
        writer.close()

    SimulatedCluster(10).run(story)


def test_a_wiped_replica_is_filled_again() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_topic(cluster)
        for _ in range(10):
            await writer.write()
        leader = cluster.leader_of("orders")
        follower = next(machine for machine in cluster.machines.values() if machine is not leader)
        await follower.stop()
        for name in follower.disk.list_directory("/logs/orders-0"):
            follower.disk.remove(f"/logs/orders-0/{name}")
        await cluster.start(follower.number)
        await cluster.until(lambda: follower.number in _isr(cluster), "the wiped replica to be in sync again")
        assert cluster.log_end_offsets("orders")[follower.number][0] == 10
        writer.close()

    SimulatedCluster(11).run(story)


def test_nodes_stop_one_after_the_other_without_a_failed_write() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_topic(cluster, min_insync_replicas="2")
        for number in list(cluster.machines):
            await writer.write()
            await cluster.machines[number].stop()
            assert await writer.write() < 1.0
            await cluster.start(number)
            await cluster.until(lambda: len(_isr(cluster)) == 3, "all in sync again")
        assert set(writer.acknowledged) <= set(await writer.read())
        writer.close()

    SimulatedCluster(12).run(story)


@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
def test_brokers_and_controllers_may_be_nodes_of_their_own(*, is_static: bool) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.start()
        writer = await _topic(cluster, "orders", node="node-4")
        for _ in range(5):
            await writer.write()
        active = cluster.active
        assert active is not None
        assert "broker" not in cluster.roles[active.number]
        await active.kill()
        await writer.write()
        writer = await _topic(cluster, "payments", node="node-5")
        assert await writer.write() < 1.0
        await cluster.start(active.number)
        writer.close()

    roles = {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker", 6: "broker"}
    SimulatedCluster(13, 6, roles=roles, is_static=is_static).run(story)
