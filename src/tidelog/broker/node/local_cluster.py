"""Nodes that share a machine: what `tidelog up` and the embedded cluster start, and where each keeps what.

    DIRECTORY/node-1/server.properties      written at every start
    DIRECTORY/node-1/data/                  the node's log directory

Apache Kafka starts with the same configuration on the same directory. The voters of several nodes are written down with their
controller ports when the directories are formatted, so a later start listens on the same ones; the first start's files tell them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tidelog.model.config import ConfigError
from tidelog.storage.files import Files, parent_of
from tidelog.storage.properties import format_properties, parse_properties

HOST = "127.0.0.1"

# Nodes on one machine are for trying things out: a number beyond this is a slip of the finger that would take the machine down.
NODES_MAX = 99

# Kafka keeps three copies of what it needs itself, and wants two of them in sync; a small cluster has fewer.
_INTERNAL_REPLICAS_MAX = 3
_INTERNAL_IN_SYNC_MIN = 2

CONTROLLER_LISTENER = "CONTROLLER"
_QUORUM = "controller.quorum.bootstrap.servers"
_SERVER_PROPERTIES = "server.properties"
_PROPERTIES_BYTES_MAX = 1 << 20

DECIDED_HERE = (
    "node.id",
    "broker.id",
    "process.roles",
    "listeners",
    "listener.security.protocol.map",
    "inter.broker.listener.name",
    "controller.listener.names",
    _QUORUM,
    "controller.quorum.voters",
)
"""What fits together as `local_properties` has it: with one of them changed no node would start."""

EACH_NODES_OWN = ("advertised.listeners", "log.dir", "log.dirs", "metadata.log.dir")
"""What several nodes cannot have in common."""


class LocalNode(NamedTuple):
    """One node: its number, its log directory and its ports, of which 0 is any that is free."""

    node_id: int
    directory: str
    port: int
    controller_port: int


def check_local_settings(given: Collection[str], nodes: int, who: str) -> None:
    """ConfigError for a key that is not for the user of so many local nodes to set. `who` is what starts them."""
    for name in DECIDED_HERE:
        if name in given:
            raise ConfigError(
                f"{name} cannot be set here: {who} decides {', '.join(DECIDED_HERE)} itself, "
                "and `tidelog broker --config FILE` takes all of them"
            )
    for name in EACH_NODES_OWN if nodes > 1 else ():
        if name in given:
            raise ConfigError(f"{name} cannot be set for several nodes, which do not share it: each is given its own")


def local_properties(node: LocalNode, nodes: Sequence[LocalNode]) -> dict[str, str]:
    """What `node`, one of `nodes`, is configured with."""
    replicas, in_sync = min(_INTERNAL_REPLICAS_MAX, len(nodes)), min(_INTERNAL_IN_SYNC_MIN, len(nodes))
    listeners = f"PLAINTEXT://{HOST}:{node.port},{CONTROLLER_LISTENER}://{HOST}:{node.controller_port}"
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "listeners": listeners,
        "controller.listener.names": CONTROLLER_LISTENER,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{CONTROLLER_LISTENER}:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        _QUORUM: ",".join(f"{HOST}:{each.controller_port}" for each in nodes),
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


def log_directory_of(directory: str, node_id: int) -> str:
    """Where a node of the cluster in `directory` keeps its data."""
    return f"{directory}/node-{node_id}/data"


def server_properties_of(node: LocalNode) -> str:
    """The file with a node's configuration."""
    return f"{parent_of(node.directory)}/{_SERVER_PROPERTIES}"


def write_server_properties(files: Files, node: LocalNode, properties: Mapping[str, str], head: str) -> None:
    """Write a node's configuration below a line that says whose it is."""
    path = server_properties_of(node)
    files.write_bytes_atomically(path, f"# {head}\n".encode() + format_properties(properties))


def controller_ports_of(files: Files, directory: str) -> tuple[int, ...]:
    """The controller ports of the cluster that a directory holds, one for each node; none where it holds none.

    Any node's configuration names all of them, so that one whose files are gone is not forgotten. ConfigError where somebody
    has written something else there.
    """
    if not files.is_dir(directory):
        return ()
    for name in sorted(files.list_directory(directory)):
        path = f"{directory}/{name}/{_SERVER_PROPERTIES}"
        if name.startswith("node-") and files.exists(path):
            properties = parse_properties(files.read_bytes(path, _PROPERTIES_BYTES_MAX))
            ports = [each.rpartition(":")[2] for each in properties.get(_QUORUM, "").split(",")]
            if not all(port.isascii() and port.isdigit() for port in ports):
                raise ConfigError(f"{path} does not name the cluster's controllers in {_QUORUM}: restore that line")
            return tuple(map(int, ports))
    return ()
