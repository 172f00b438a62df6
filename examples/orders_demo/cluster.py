"""The cluster of the demo: `tidelog up` with several nodes, each a process, of which one is killed later.

with running_cluster(directory, nodes=3) as cluster:
    cluster.bootstrap, cluster.kill_leader_of("orders", 0)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.orders_demo.shop import DEAD_LETTERS, NOTIFICATIONS, ORDERS, PAID, PARTITIONS, REVENUE
from tidelog import Admin
from tidelog.client.admin import NewTopic
from tidelog.client.errors import ClientError

STOP_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Cluster:
    bootstrap: str
    """Every node, so that any of them may die."""
    nodes: dict[int, int]
    """The process of each."""

    def create_topics(self) -> None:
        """A copy of each partition on every node, and no write counts that is not on two of them."""
        # The shop's clock has nothing to do with ours: nothing is so old that it has to go.
        configs = {"min.insync.replicas": str(min(2, len(self.nodes))), "retention.ms": "-1"}
        topics = {ORDERS: PARTITIONS, NOTIFICATIONS: PARTITIONS, REVENUE: 2, PAID: 2, DEAD_LETTERS: 1}
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            made = admin.create_topics(
                NewTopic(name, partitions=count, replication_factor=len(self.nodes), configs=configs)
                for name, count in topics.items()
            )
        for outcome in made.values():
            if isinstance(outcome, ClientError):
                raise outcome

    def kill_leader_of(self, topic: str, partition: int) -> int:
        """Kill the node that leads a partition, with SIGKILL. Its number."""
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            leader = admin.describe_topic(topic).partitions[partition].leader
        assert leader is not None
        os.kill(self.nodes[leader], signal.SIGKILL)
        return leader


@contextmanager
def running_cluster(directory: Path, nodes: int) -> Iterator[Cluster]:
    """A cluster on free ports of this machine; stopped at the end."""
    tidelog = str(Path(sys.executable).with_name("tidelog"))
    command = [tidelog, "up", "--nodes", str(nodes), "--port", "0", "--dir", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline().startswith("ready"):
                sys.exit("the cluster did not start; `tidelog up` says why")
            members = json.loads((directory / "cluster.json").read_text())
            yield Cluster(
                ",".join(f"127.0.0.1:{each['port']}" for each in members),
                {each["node"]: each["pid"] for each in members},
            )
        finally:
            process.terminate()
            process.wait(STOP_TIMEOUT_S)
