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


def any_alive_broker(image: ClusterImage, random: Random) -> NodeId:
    """The broker that clients are told is the controller: any, since each of them passes on what only the controller can do."""
    alive = [broker.node_id for broker in image.brokers.values() if not broker.fenced]
    return random.choice(alive) if alive else NO_NODE


class ListenerView:
    """The brokers that have a listener, fenced ones too, as they are in one image."""

    def __init__(self, image: ClusterImage, listener_name: str) -> None:
        self.endpoints: dict[NodeId, Endpoint] = {}
        self.alive: dict[NodeId, BrokerRegistration] = {}
        self._brokers = image.brokers
        for broker in image.brokers.values():
            endpoint = endpoint_of(broker.endpoints, listener_name)
            if endpoint is not None:
                self.endpoints[broker.node_id] = endpoint
                if not broker.fenced:
                    self.alive[broker.node_id] = broker

    @property
    def brokers(self) -> list[tuple[BrokerRegistration, Endpoint]]:
        return [(self._brokers[node], endpoint) for node, endpoint in self.endpoints.items()]

    def is_registered(self, node: NodeId) -> bool:
        """Whether there is such a broker, with or without the listener."""
        return node in self._brokers

    def offline_replicas(self, partition: Partition) -> list[int]:
        """The replicas of a partition that a client on this listener cannot count on."""
        offline: list[int] = []
        for node, directory in zip(partition.replicas, partition.directories, strict=False):
            broker = self.alive.get(node)
            if broker is None or not is_online(broker, directory):
                offline.append(node)
        return offline
