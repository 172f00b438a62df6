"""Which partitions of a coordinator's log this node leads, as the cluster's metadata says: the host is told of every change."""

from __future__ import annotations

from typing import Any, Protocol

from tidelog.broker.coordinators.led_partition import LedPartition
from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.coordination.host import CoordinatorHost
from tidelog.model.ids import NodeId, PartitionIndex, TopicName
from tidelog.model.java_hash import partition_of
from tidelog.replication.partitions import Partitions


class Hosting(Protocol):
    """The part of a node that a coordinator works in."""

    @property
    def node_id(self) -> NodeId: ...

    @property
    def image(self) -> ClusterImage: ...

    @property
    def partitions(self) -> Partitions: ...


class CoordinatorElections:
    """The log of one kind of coordinator. `partition_count` is what its topic will have, until it is there."""

    def __init__(self, node: Hosting, topic: TopicName, partition_count: int) -> None:
        self._node = node
        self._topic = topic
        self._partition_count_wanted = partition_count
        self.partition_count = partition_count
        """How many partitions the log has, or will have."""

    def follow(self, host: CoordinatorHost[Any], image: ClusterImage, delta: ImageDelta | None) -> None:
        """Lead what the metadata says, after the node's partitions have followed it."""
        topic_id = image.topic_ids.get(self._topic)
        self.partition_count = (
            self._partition_count_wanted if topic_id is None else len(image.topics[topic_id].partitions)
        )
        if topic_id is None:
            if delta is not None and self._topic in delta.topics_removed.values():
                host.close()
            return
        if delta is not None and topic_id not in delta.topics_changed:
            return
        hosted = self._node.partitions.named(self._topic)
        for index, metadata in image.topics[topic_id].partitions.items():
            partition = hosted.get(index)
            if metadata.leader == self._node.node_id and partition is not None:
                host.elected(index, LedPartition(partition), metadata.leader_epoch)
            else:
                host.resigned(index)

    def partition_of(self, key: str) -> int:
        """The partition that keeps what belongs to a group or a transactional id."""
        return partition_of(key, self.partition_count)

    def leader_of(self, key: str) -> NodeId | None:
        """The broker that coordinates it at the moment."""
        topic = self._node.image.topic(self._topic)
        metadata = None if topic is None else topic.partitions.get(PartitionIndex(self.partition_of(key)))
        return None if metadata is None or metadata.leader < 0 else metadata.leader
