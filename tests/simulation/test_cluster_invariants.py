"""The watcher of a simulated cluster: what it looks at, and what it leaves alone."""

from __future__ import annotations

import errno

from tests.simulation.cluster_invariants import ClusterInvariants
from tests.support.simulated_cluster import Writer
from tests.support.simulated_node import Asker
from tidelog.model.errors import ErrorCode
from tidelog.simulation.cluster import SimulatedCluster


def test_a_node_that_has_given_up_is_not_looked_at() -> None:
    """Its logs can be read no more, and who reads them anyhow gets the fault of the disk."""

    async def story(cluster: SimulatedCluster) -> None:
        await cluster.start()
        asker = Asker(cluster, "node-1")
        assert await asker.create("orders", replicas=3) == ErrorCode.NONE
        asker.close()
        invariants = ClusterInvariants(cluster, ["orders"])
        active = cluster.active
        assert active is not None
        active.disk.fail("pwritev", "*.log", errno.ENOSPC)
        await cluster.until(lambda: active.has_failed, "the node to give up")
        assert active.node is not None
        # From the beginning of every log, which nobody has read yet.
        invariants.look()
        await cluster.until(lambda: cluster.active not in {None, active}, "another active controller")
        writer = Writer(cluster, "orders")
        await cluster.until(lambda: cluster.leader_of("orders") not in {None, active}, "another leader")
        await writer.write()
        invariants.look()
        assert invariants.partitions
        writer.close()

    SimulatedCluster(3).run(story)
