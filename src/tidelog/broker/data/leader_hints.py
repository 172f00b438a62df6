"""Where a client should go instead: the current leader in an answer that says "not here" (KIP-951)."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.controller.image import NO_LEADER, ClusterImage, Endpoint
from tidelog.model.ids import NO_LEADER_EPOCH, NodeId, PartitionIndex, TopicName


class LeaderHint(NamedTuple):
    """The leader that the metadata names, and its epoch; -1 for what is not known."""

    leader_id: int
    leader_epoch: int


class LeaderEndpoint(NamedTuple):
    """Where such a leader listens for clients like this one."""

    node_id: NodeId
    endpoint: Endpoint
    rack: str | None


class LeaderHints:
    """Collects what one answer has to say about leaders."""

    def __init__(self, image: ClusterImage, listener_name: str) -> None:
        self._image = image
        self._listener_name = listener_name
        self.endpoints: dict[NodeId, LeaderEndpoint] = {}

    def leader_of(self, topic: TopicName, index: PartitionIndex) -> LeaderHint:
        """The leader of a partition. Its endpoint is noted, if it has one for this listener and is not fenced."""
        metadata = self._image.topic(topic)
        partition = None if metadata is None else metadata.partitions.get(index)
        if partition is None:
            return LeaderHint(NO_LEADER, NO_LEADER_EPOCH)
        broker = self._image.brokers.get(partition.leader)
        if broker is not None and not broker.fenced:
            for endpoint in broker.endpoints:
                if endpoint.name == self._listener_name:
                    self.endpoints[broker.node_id] = LeaderEndpoint(broker.node_id, endpoint, broker.rack)
        return LeaderHint(partition.leader, partition.leader_epoch)
