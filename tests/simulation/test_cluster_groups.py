"""Groups over three whole nodes on virtual time, by our own clients: who owns a partition, and who only thinks so."""

from __future__ import annotations

import pytest

from tests.simulation.cluster_load import GROUP, PARTITIONS, TOPIC, new_consumer, new_producer
from tests.support.simulated_node import Asker
from tidelog.client.consumer.async_consumer import AsyncConsumer
from tidelog.client.errors import CommitFailedError
from tidelog.model.errors import ErrorCode
from tidelog.simulation.cluster import SimulatedCluster

CONFIG = {
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}
SESSIONS: dict[str, dict[str, object]] = {
    "classic": {"session_timeout_ms": 1000, "heartbeat_interval_ms": 200},
    "consumer": {},
}


async def _offsets(cluster: SimulatedCluster, consumer: AsyncConsumer, count: int) -> list[int]:
    """Of the next records, as many as are asked for."""
    found: list[int] = []
    deadline_s = cluster.loop.time() + 30
    while len(found) < count:
        assert cluster.loop.time() < deadline_s, f"only {found} came"
        found += [row.offset for row in await consumer.poll(100)]
    return found


@pytest.mark.parametrize("protocol", SESSIONS)
def test_a_member_that_does_not_know_it_is_out_reads_on_from_where_it_began_and_commits_nothing(protocol: str) -> None:
    """Apache Kafka's consumer does the same: it hears that it is none any more from the coordinator, which it does not reach."""
    group: dict[str, object] = {
        "group_id": GROUP,
        "group_protocol": protocol,
        "max_poll_records": 1,
        **SESSIONS[protocol],
    }

    async def story(cluster: SimulatedCluster) -> None:
        await cluster.start()
        asker = Asker(cluster, "node-1")
        assert await asker.create(TOPIC, len(PARTITIONS), replicas=3) == ErrorCode.NONE
        asker.close()
        async with (
            new_producer(cluster, "client-1") as producer,
            new_consumer(cluster, "client-4", **group) as first,
            new_consumer(cluster, "client-5", **group) as second,
        ):
            first.subscribe([TOPIC])
            while len(first.assignment()) < len(PARTITIONS):
                await first.poll(100)
            coordinator = cluster.nodes[0].groups.leader_of(GROUP)
            await cluster.until(lambda: all(cluster.leader_of(TOPIC, each) for each in PARTITIONS), "leaders")
            index = next(each for each in PARTITIONS if _leads(cluster, each) != coordinator)
            assert await first.position((TOPIC, index)) == 0
            for machine in cluster.machines.values():
                cluster.network.partition(["client-4"], [machine.name])

            for value in (b"one", b"two"):
                await (await producer.send(TOPIC, value, partition=index))
            second.subscribe([TOPIC])
            assert await _offsets(cluster, second, 2) == [0, 1]
            await second.commit()

            for number in cluster.machines:
                if number != coordinator:
                    cluster.network.mend("client-4", f"node-{number}")
                    cluster.network.mend(f"node-{number}", "client-4")
            assert await _offsets(cluster, first, 1) == [0]
            cluster.network.heal()
            with pytest.raises(CommitFailedError):
                await first.commit({(TOPIC, index): 1})
            found = await second.committed([(TOPIC, index)])
            assert [None if offset is None else offset.offset for offset in found.values()] == [2]

    SimulatedCluster(4, config=CONFIG).run(story)


def _leads(cluster: SimulatedCluster, index: int) -> int | None:
    leader = cluster.leader_of(TOPIC, index)
    return None if leader is None else leader.number
