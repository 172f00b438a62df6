"""A simulated cluster of many partitions loses a node: how long, on virtual time, until every partition is led again.

`SOAK_PARTITIONS` says how many there are (10000), each with three replicas.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.support.simulated_cluster import Machine, SimulatedCluster, Writer
from tests.support.simulated_node import Asker
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName

PARTITIONS = int(os.environ.get("SOAK_PARTITIONS", "10000"))
PER_TOPIC = 500
# Simulated disks are memory, and each index would be ten megabytes of it.
CONFIG = {"log.index.size.max.bytes": "120"}
# The death is noticed by broken connections, and one election of all partitions follows.
LED_AGAIN_S_MAX = 1.0

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]


def _in_sync(cluster: SimulatedCluster, topics: list[str]) -> int:
    """How many partitions have all their replicas in sync, as the newest metadata say."""
    newest = max(cluster.nodes, key=lambda node: node.image.offset)
    found = (newest.image.topic(TopicName(topic)) for topic in topics)
    return sum(
        len(partition.isr) == 3 for topic in found if topic is not None for partition in topic.partitions.values()
    )


def _led(machines: list[Machine], topics: list[str]) -> int:
    """How many partitions some node leads, and knows so."""
    return sum(
        replica.is_leading
        for machine in machines
        if machine.node is not None
        for topic in topics
        for replica in machine.node.partitions.named(TopicName(topic)).values()
    )


@pytest.mark.parametrize("is_active", [False, True], ids=["broker", "active controller"])
def test_every_partition_is_led_again_within_a_second_of_a_death(*, is_active: bool) -> None:
    topics = [f"topic-{first // PER_TOPIC}" for first in range(0, PARTITIONS, PER_TOPIC)]

    async def story(cluster: SimulatedCluster) -> tuple[int, float, float]:
        await cluster.start()
        asker = Asker(cluster, "node-1")
        for number, topic in enumerate(topics):
            count = min(PER_TOPIC, PARTITIONS - number * PER_TOPIC)
            assert await asker.create(topic, count, replicas=3) == ErrorCode.NONE
        asker.close()
        machines = list(cluster.machines.values())
        await cluster.until(lambda: _led(machines, topics) == PARTITIONS, "all leaders", 120.0, look_s=0.1)
        active = cluster.active
        assert active is not None
        victim = active if is_active else next(machine for machine in machines if machine is not active)
        lost = _led([victim], topics)
        began_s = cluster.loop.time()
        began_cpu_s = time.process_time()
        await victim.kill()
        others = [machine for machine in machines if machine is not victim]
        await cluster.until(lambda: _led(others, topics) == PARTITIONS, "all leaders again", 60.0, look_s=0.01)
        led_s, cpu_s = cluster.loop.time() - began_s, time.process_time() - began_cpu_s
        writer = Writer(cluster, topics[0])
        await writer.write()
        writer.close()
        await cluster.start(victim.number)
        await cluster.until(lambda: _in_sync(cluster, topics) == PARTITIONS, "all replicas in sync", 60.0, look_s=0.1)
        return lost, led_s, cpu_s

    began_s = time.monotonic()
    lost, led_s, cpu_s = SimulatedCluster(1, config=CONFIG).run(story)
    print(
        f"\n{PARTITIONS} partitions: {lost} lost their leader, and all were led again after {led_s:.2f} virtual seconds\n"
        f"that took {cpu_s:.1f} s of CPU for all nodes, and the whole story {time.monotonic() - began_s:.0f} s"
    )
    assert lost >= PARTITIONS // 4
    assert led_s < LED_AGAIN_S_MAX
