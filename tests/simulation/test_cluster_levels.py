"""Three nodes at old levels of metadata.version, from which they rise to the newest while they serve."""

from __future__ import annotations

import pytest

from tests.support.simulated_cluster import SimulatedCluster, Writer
from tests.support.simulated_node import Asker
from tidelog.controller.metadata_version import METADATA_VERSIONS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import MIGRATING_DIRECTORY
from tidelog.wire.messages.features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

# Below 10 followers do not name their epoch, below 12 each smaller in-sync set begins a leader epoch, below 13 the log begins
# without a transaction, below 15 controllers do not register, below 17 there are no directories.
OLD = (7, 9, 11, 14, 16, 17, 22)
STEPS = (10, 12, 15, 17, 23, 30)


def _has_whole_isr(cluster: SimulatedCluster) -> bool:
    partition = cluster.partition("orders")
    return partition is not None and len(partition.isr) == 3


async def _survives_a_death(cluster: SimulatedCluster, writer: Writer) -> None:
    """The leader dies, another one leads, and it comes back."""
    leader = cluster.leader_of("orders")
    assert leader is not None
    await leader.kill()
    for _ in range(3):
        await writer.write()
    await cluster.start(leader.number)
    await cluster.until(lambda: _has_whole_isr(cluster), "the killed replica to be in sync again")
    await writer.write()


async def _raise_to(cluster: SimulatedCluster, level: int) -> None:
    asker = Asker(cluster, "node-1")
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=level)
    answer = await asker.call(UpdateFeaturesRequest(feature_updates=[update]), UpdateFeaturesResponse, 1)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    asker.close()
    await cluster.until(
        lambda: all(node.image.metadata_version.level == level for node in cluster.nodes), "all nodes at the level"
    )


def _has_told_all(cluster: SimulatedCluster) -> bool:
    """What nodes tell at the newest level: controllers and directories."""
    partition = cluster.partition("orders")
    return partition is not None and all(
        set(node.image.controllers) == {1, 2, 3}
        and all(broker.log_directories for broker in node.image.brokers.values())
        and MIGRATING_DIRECTORY not in partition.directories
        for node in cluster.nodes
    )


@pytest.mark.parametrize("level", OLD, ids=lambda level: METADATA_VERSIONS[level].name)
def test_a_cluster_at_an_old_level_loses_nothing_and_rises_to_the_newest(level: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.start()
        asker = Asker(cluster, "node-1")
        assert await asker.create("orders", replicas=3, configs={"min.insync.replicas": "2"}) == ErrorCode.NONE
        asker.close()
        await cluster.until(lambda: _has_whole_isr(cluster), "the replicas to be in sync")
        writer = Writer(cluster, "orders")
        await writer.write()
        await _survives_a_death(cluster, writer)
        for step in STEPS:
            if step > level:
                await _raise_to(cluster, step)
                await writer.write()
        await cluster.until(lambda: _has_told_all(cluster), "all nodes to tell what they can at the newest level")
        await _survives_a_death(cluster, writer)
        assert set(writer.acknowledged) <= set(await writer.read())
        writer.close()

    SimulatedCluster(level, is_static=True, levels={"metadata.version": level}).run(story)
