"""Nodes that stop together: all of them leave in order while there is a quorum, and nobody waits for one that is gone."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.simulated_cluster import DIRECTORY, SimulatedCluster, Writer
from tests.support.simulated_node import Asker
from tidelog.broker.node.node import LEAVE_TIMEOUT_MS, BrokerNode
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId

# Far below the time-out of any wait for a quorum that is gone.
SOON_S = LEAVE_TIMEOUT_MS / 1000 / 4
MARK = f"{DIRECTORY}/.kafka_cleanshutdown"


async def _with_records(cluster: SimulatedCluster) -> Writer:
    await cluster.start()
    asker = Asker(cluster, next(m.name for m in cluster.machines.values() if "broker" in cluster.roles[m.number]))
    assert await asker.create("orders", replicas=3) == ErrorCode.NONE
    asker.close()
    await cluster.until(lambda: cluster.leader_of("orders") is not None, "a leader of the new topic")
    writer = Writer(cluster, "orders")
    for _ in range(5):
        await writer.write()
    return writer


def _epochs(cluster: SimulatedCluster, node: BrokerNode) -> dict[int, int]:
    return {
        number: node.image.brokers[NodeId(number)].epoch for number in cluster.machines if number in node.image.brokers
    }


def _marked(cluster: SimulatedCluster) -> dict[int, int]:
    """The broker epochs that clean stops have left behind, where they have."""
    found = {}
    for machine in cluster.machines.values():
        if "broker" in cluster.roles[machine.number] and machine.disk.exists(MARK):
            content = machine.disk.read_bytes(MARK, 1000)
            found[machine.number] = json.loads(content)["brokerEpoch"]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_all_at_once_leave_in_order_and_soon(seed: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_records(cluster)
        nodes = cluster.nodes
        epochs = _epochs(cluster, nodes[0])

        began_s = cluster.loop.time()
        await asyncio.gather(*(machine.stop() for machine in cluster.machines.values()))

        assert cluster.loop.time() - began_s < SOON_S
        last = max((node.image for node in nodes), key=lambda image: image.offset)
        assert [broker.fenced for broker in last.brokers.values()] == [True, True, True]
        assert _marked(cluster) == epochs
        await cluster.start()
        await cluster.until(lambda: cluster.leader_of("orders") is not None, "a leader again")
        assert await writer.read() == writer.acknowledged
        writer.close()

    SimulatedCluster(100 + seed).run(story)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_the_last_one_does_not_wait_for_a_quorum_that_is_gone(order: tuple[int, ...]) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_records(cluster)
        epochs = _epochs(cluster, cluster.nodes[0])

        for number in order:
            began_s = cluster.loop.time()
            await cluster.machines[number].stop()
            assert cluster.loop.time() - began_s < SOON_S

        assert _marked(cluster) == epochs
        await cluster.start()
        await cluster.until(lambda: cluster.leader_of("orders") is not None, "a leader again")
        assert await writer.read() == writer.acknowledged
        writer.close()

    SimulatedCluster(200).run(story)


def test_one_that_is_cut_off_from_the_others_gives_up_in_the_end() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_records(cluster)
        alone, *others = cluster.machines.values()
        for other in others:
            cluster.network.cut(alone.name, other.name)
            cluster.network.cut(other.name, alone.name)

        began_s = cluster.loop.time()
        await alone.stop()

        # No port is closed: they may be there, and only late.
        assert 1.0 < cluster.loop.time() - began_s < 4 * LEAVE_TIMEOUT_MS / 1000
        assert list(_marked(cluster)) == [alone.number]
        writer.close()

    SimulatedCluster(300).run(story)


def test_brokers_alone_and_controllers_alone_stop_together() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_records(cluster)
        nodes = {number: machine.node for number, machine in cluster.machines.items()}
        broker = nodes[4]
        assert broker is not None
        epochs = _epochs(cluster, broker)

        began_s = cluster.loop.time()
        await asyncio.gather(*(machine.stop() for machine in cluster.machines.values()))

        assert cluster.loop.time() - began_s < SOON_S
        assert _marked(cluster) == epochs
        writer.close()

    roles = {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker", 6: "broker"}
    SimulatedCluster(400, 6, roles=roles).run(story)


def test_a_leader_is_let_go_as_soon_as_the_others_know_who_leads_instead() -> None:
    interval_ms = 4000

    async def story(cluster: SimulatedCluster) -> None:
        writer = await _with_records(cluster)
        leader = cluster.leader_of("orders")
        assert leader is not None

        began_s = cluster.loop.time()
        await leader.stop()

        # Which they would have told with their next heartbeat only.
        assert cluster.loop.time() - began_s < interval_ms / 1000 / 8
        assert cluster.leader_of("orders") not in {None, leader}
        writer.close()

    SimulatedCluster(500, config={"broker.heartbeat.interval.ms": str(interval_ms)}).run(story)
