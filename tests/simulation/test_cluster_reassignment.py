"""Partitions that get other replicas while they are written to and nodes die, on virtual time: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.support.simulated_cluster import DIRECTORY, QUICK, Machine, SimulatedCluster, Writer, committed_values
from tests.support.simulated_node import Asker
from tidelog.controller.image import Partition
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.net.errors import RequestFailedError
from tidelog.wire.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

TOPIC = "orders"
TOPIC_RESOURCE, BROKER = 2, 4
ROUNDS = 4


def five_nodes(seed: int) -> SimulatedCluster:
    """Three that vote, and two brokers beside them."""
    return SimulatedCluster(seed, 5, roles={4: "broker", 5: "broker"}, config=QUICK)


async def with_topic(cluster: SimulatedCluster, replicas: Sequence[int]) -> Writer:
    await cluster.start()
    asker = Asker(cluster, "node-1")
    topic = CreatableTopic(
        name=TOPIC,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
        configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
    )
    created = await asker.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
    assert created.topics[0].error_code == ErrorCode.NONE
    asker.close()
    await cluster.until(lambda: cluster.leader_of(TOPIC) is not None, "a leader of the new topic")
    return Writer(cluster, TOPIC)


async def reassign(cluster: SimulatedCluster, replicas: Sequence[int] | None) -> ErrorCode | None:
    """Ask any node that is up. None where it gave no answer."""
    machine = next(machine for machine in cluster.machines.values() if machine.node is not None)
    asker = Asker(cluster, machine.name)
    wanted = ReassignablePartition(partition_index=0, replicas=None if replicas is None else list(replicas))
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=[wanted])])
    try:
        answer = await asker.call(request, AlterPartitionReassignmentsResponse, 1)
    except RequestFailedError:
        return None
    finally:
        asker.close()
    return ErrorCode.of(answer.responses[0].partitions[0].error_code)


async def listed(cluster: SimulatedCluster) -> list[tuple[list[int], list[int], list[int]]]:
    asker = Asker(cluster, "node-1")
    try:
        answer = await asker.call(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse, 0)
    finally:
        asker.close()
    return [
        (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    ]


def partition(cluster: SimulatedCluster) -> Partition:
    found = cluster.partition(TOPIC)
    assert found is not None
    return found


def is_done(cluster: SimulatedCluster) -> bool:
    now = partition(cluster)
    return not now.adding_replicas and not now.removing_replicas


def has_files(machine: Machine) -> bool:
    return f"{TOPIC}-0" in machine.disk.list_directory(DIRECTORY)


def is_settled(cluster: SimulatedCluster) -> bool:
    """Whether the replicas, and nobody else, have the partition, all of them the same."""
    now = partition(cluster)
    ends = cluster.log_end_offsets(TOPIC)
    return (
        is_done(cluster)
        and sorted(now.isr) == sorted(now.replicas) == sorted(ends)
        and len(set(ends.values())) == 1
        and all(end == committed for end, committed in ends.values())
    )


async def check_end(cluster: SimulatedCluster, writer: Writer) -> None:
    await cluster.until(lambda: is_settled(cluster), "the replicas to be equal", within_s=60)
    logs = [list(committed_values(cluster.machines[node])) for node in partition(cluster).replicas]
    assert all(log == logs[0] for log in logs)
    assert writer.acknowledged
    assert set(writer.acknowledged) <= set(logs[0])
    assert await writer.read() == logs[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_partition_moves_to_other_nodes_while_it_is_written_to(seed: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await with_topic(cluster, [1, 2, 3])
        await writer.write()

        assert await reassign(cluster, [4, 5, 3]) is ErrorCode.NONE
        gap_s = 0.0
        while not is_done(cluster):
            gap_s = max(gap_s, await writer.write())
        for _ in range(10):
            gap_s = max(gap_s, await writer.write())

        assert partition(cluster).replicas == (4, 5, 3)
        assert gap_s < 1.0
        await cluster.until(
            lambda: not has_files(cluster.machines[1]) and not has_files(cluster.machines[2]),
            "those that have left to delete their files",
        )
        assert await listed(cluster) == []
        await check_end(cluster, writer)
        writer.close()

    five_nodes(seed).run(story)


def test_a_log_that_starts_in_the_middle_of_a_batch_gets_another_replica() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await with_topic(cluster, [1, 2])
        leader = cluster.leader_of(TOPIC)
        assert leader is not None
        asker = Asker(cluster, leader.name)
        assert await asker.produce(TOPIC, b"deleted", more=[b"kept", b"kept too"]) == ErrorCode.NONE
        deleted = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
        request = DeleteRecordsRequest(topics=[deleted], timeout_ms=5_000)
        answer = await asker.call(request, DeleteRecordsResponse, 2)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        asker.close()

        assert await reassign(cluster, [1, 2, 3]) is ErrorCode.NONE
        await cluster.until(lambda: is_done(cluster), "the new replica to be in sync", within_s=10)
        await writer.write()

        await cluster.until(lambda: is_settled(cluster), "the replicas to be equal", within_s=10)
        for node in (1, 2, 3):
            assert list(committed_values(cluster.machines[node])) == [b"kept", b"kept too", *writer.acknowledged]
        writer.close()

    five_nodes(11).run(story)


def test_one_that_cannot_be_done_is_taken_back() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await with_topic(cluster, [1, 2, 3])
        # Heartbeats arrive, records do not.
        for leader in (1, 2, 3):
            cluster.network.cut(f"node-{leader}", "node-4")
        assert await reassign(cluster, [4, 2, 3]) is ErrorCode.NONE
        for _ in range(20):
            await writer.write()
        under_way = await listed(cluster)

        assert await reassign(cluster, None) is ErrorCode.NONE
        again = await reassign(cluster, None)
        cluster.network.heal()

        assert under_way == [([4, 2, 3, 1], [4], [1])]
        assert again is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert partition(cluster).replicas == (2, 3, 1)
        await cluster.until(lambda: not has_files(cluster.machines[4]), "the one that was to come to delete its files")
        await check_end(cluster, writer)
        writer.close()

    five_nodes(7).run(story)


def test_a_replica_that_was_down_when_it_lost_its_place_has_nothing_to_say_any_more() -> None:
    async def story(cluster: SimulatedCluster) -> None:
        writer = await with_topic(cluster, [1, 2, 5])
        await writer.write()
        await cluster.machines[5].stop()

        assert await reassign(cluster, [1, 2, 4]) is ErrorCode.NONE
        await cluster.until(lambda: is_done(cluster), "the reassignment to be done")
        await writer.write()
        await cluster.start(5)

        assert not has_files(cluster.machines[5])
        assert sorted(cluster.log_end_offsets(TOPIC)) == [1, 2, 4]
        await check_end(cluster, writer)
        writer.close()

    five_nodes(8).run(story)


async def configure(cluster: SimulatedCluster, kind: int, name: str, **values: str) -> None:
    asker = Asker(cluster, f"node-{name}" if kind == BROKER else "node-1")
    changes = [
        IncrementalAlterConfigsAlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in values.items()
    ]
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await asker.call(request, IncrementalAlterConfigsResponse, 1)
    assert answer.responses[0].error_code == ErrorCode.NONE
    asker.close()


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_catches_up_as_fast_as_it_may(side: str) -> None:
    """About 8 KB at 2 KB a second. Those that are in sync are not held back meanwhile."""

    async def story(cluster: SimulatedCluster) -> None:
        writer = await with_topic(cluster, [1, 2, 3])
        for _ in range(100):
            await writer.write()
        await configure(cluster, TOPIC_RESOURCE, TOPIC, **{f"{side}_replication_throttled_replicas": "*"})
        for node in ("1", "2", "3", "4"):
            await configure(cluster, BROKER, node, **{f"{side}_replication_throttled_rate": "2000"})
        assert partition(cluster).leader == 1
        replica = cluster.machines[1].node.partitions.named(TopicName(TOPIC))[0] if cluster.machines[1].node else None
        assert replica is not None
        assert replica.log is not None
        expected_s = replica.log.size_bytes / 2000

        began_s = cluster.loop.time()
        assert await reassign(cluster, [4, 2, 3]) is ErrorCode.NONE
        assert await writer.write() < 0.5
        await cluster.until(lambda: is_done(cluster), "the reassignment to be done", within_s=60)

        # A second's worth passes at once, and the last piece is not waited for.
        assert expected_s / 2 < cluster.loop.time() - began_s < expected_s + 3
        await check_end(cluster, writer)
        writer.close()

    cluster = SimulatedCluster(
        9, 5, roles={4: "broker", 5: "broker"}, config={**QUICK, "replica.fetch.max.bytes": "500"}
    )
    cluster.run(story)


@pytest.mark.parametrize("seed", range(100, 104))
def test_reassignments_under_load_with_deaths(seed: int) -> None:
    """One node at a time dies, also by power, whatever is under way. Two copies of everything survive that."""

    async def story(cluster: SimulatedCluster) -> None:
        random = cluster.random
        writer = await with_topic(cluster, [1, 2, 3])
        is_over = False

        async def write() -> None:
            while not is_over:
                await writer.write(within_s=120)
                await asyncio.sleep(random.uniform(0, 0.2))

        writing = cluster.loop.create_task(write())
        for _ in range(ROUNDS):
            target = random.sample(range(1, 6), random.choice((2, 3, 3, 4)))
            await reassign(cluster, target)
            await asyncio.sleep(random.uniform(0, 0.4))
            if random.random() < 0.2:
                await reassign(cluster, None)
            victim = random.choice(list(cluster.machines.values()))
            if len(partition(cluster).isr) >= 3:
                await victim.kill(lose_power=random.random() < 0.5)
                await asyncio.sleep(random.uniform(0, 1.5))
                await cluster.start(victim.number)
            await cluster.until(lambda: is_done(cluster), "the reassignment to be done", within_s=60)
            await cluster.until(
                lambda: len(partition(cluster).isr) == len(partition(cluster).replicas), "all in sync", within_s=60
            )
        is_over = True
        await writing
        await check_end(cluster, writer)
        writer.close()

    five_nodes(seed).run(story)
