"""Who can be reached where: nodes as the clients of one listener see them.

A client stays on the listener it came in on: it is told each broker's address on that one, and of a broker that has none it is
told nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tidelog.controller.cluster_view import is_online
from tidelog.controller.image import BrokerRegistration, ClusterImage, Endpoint, Partition
from tidelog.model.ids import NodeId

NO_NODE = NodeId(-1)


def endpoint_of(endpoints: Iterable[Endpoint], listener_name: str) -> Endpoint | None:
    """The address on a listener, or None where the node does not have it."""
    for endpoint in endpoints:
        if endpoint.name == listener_name:
            return endpoint
    return None


def brokers_on(image: ClusterImage, listener_name: str) -> list[tuple[BrokerRegistration, Endpoint]]:
    """The brokers that have a listener, with their address on it; fenced ones too."""
    found = []
    for broker in image.brokers.values():
        endpoint = endpoint_of(broker.endpoints, listener_name)
        if endpoint is not None:
            found.append((broker, endpoint))
    return found


def any_alive_broker(image: ClusterImage, random: Random) -> NodeId:
    """The broker that clients are told is the controller: any, since each of them passes on what only the controller can do."""
    alive = [broker.node_id for broker in image.brokers.values() if not broker.fenced]
    return random.choice(alive) if alive else NO_NODE


def offline_replicas(image: ClusterImage, partition: Partition, listener_name: str) -> list[int]:
    """The replicas of a partition that a client on a listener cannot count on."""
    offline: list[int] = []
    for node in partition.replicas:
        broker = image.brokers.get(node)
        if (
            broker is None
            or broker.fenced
            or endpoint_of(broker.endpoints, listener_name) is None
            or not is_online(broker, partition.directory_of(node))
        ):
            offline.append(node)
    return offline
