"""The configuration of nodes that share a machine: what `tidelog up` and the embedded cluster start.

Apache Kafka starts with the same configuration on the same directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

HOST = "127.0.0.1"

# Kafka keeps three copies of what it needs itself, and wants two of them in sync; a small cluster has fewer.
_INTERNAL_REPLICAS_MAX = 3
_INTERNAL_IN_SYNC_MIN = 2


class LocalNode(NamedTuple):
    """One node: its number, its directory and its ports, of which 0 is any that is free."""

    node_id: int
    directory: str
    port: int
    controller_port: int


def local_properties(node: LocalNode, nodes: Sequence[LocalNode]) -> dict[str, str]:
    """What `node`, one of `nodes`, is configured with."""
    replicas, in_sync = min(_INTERNAL_REPLICAS_MAX, len(nodes)), min(_INTERNAL_IN_SYNC_MIN, len(nodes))
    listeners = f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{node.controller_port}"
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "listeners": listeners,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{each.controller_port}" for each in nodes),
        "log.dirs": node.directory,
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        # Whoever tries out two systems that commit together should not have to look for the switch first.
        "transaction.two.phase.commit.enable": "true",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
        # A member that joins just after another has left would wait for its next heartbeat, which is five seconds away.
        "group.consumer.assignment.interval.ms": "0",
    }
