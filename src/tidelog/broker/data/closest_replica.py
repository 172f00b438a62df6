"""Which replica a consumer had better read from: one in its own rack, zone or room (KIP-392).

Only the leader knows how far the others are, so a consumer asks it first. With `replica.selector.class` set to Kafka's
RackAwareReplicaSelector it is sent elsewhere if it says where it is, if the leader is not there, and if a replica there is in
sync and has the offset that the consumer wants. Of several the one that is furthest is chosen.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.node_view import Node
from tidelog.controller.image import ClusterImage
from tidelog.model.data_plane_config import RACK_AWARE_SELECTOR, REPLICA_SELECTOR_CLASS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leading
from tidelog.wire.messages.fetch import FetchPartition, PartitionData


class ClosestReplica:
    """For the partitions of one fetch of a consumer in `rack`."""

    def __init__(self, image: ClusterImage, rack: str, listener_name: str, node_id: NodeId) -> None:
        self._image = image
        self._rack = rack
        self._listener_name = listener_name
        own = image.brokers.get(node_id)
        self._is_here = own is not None and own.rack == rack

    @classmethod
    def for_fetch(cls, rack: str, caller: Caller, node: Node) -> ClosestReplica | None:
        """None where nobody is sent elsewhere."""
        if not rack or node.config[REPLICA_SELECTOR_CLASS] != RACK_AWARE_SELECTOR:
            return None
        closest = cls(node.image, rack, caller.listener_name, node.node_id)
        return None if closest._is_here else closest

    @property
    def place(self) -> tuple[str, object]:
        """What the choice goes by, beside the partition and how far its followers are."""
        return self._rack, self._image

    def may_change(self, partition: Partition) -> bool:
        """Whether there is a follower in the rack at all: it is chosen as soon as it is in sync and has the offset."""
        role = partition.role
        return isinstance(role, Leading) and any(
            broker is not None and broker.rack == self._rack for broker in map(self._image.brokers.get, role.followers)
        )

    def answer(self, asked: FetchPartition, partition: Partition) -> PartitionData | None:
        """What says that another replica is to be asked; None where this one is read."""
        elsewhere = self.of(partition, asked.fetch_offset)
        if elsewhere is None:
            return None
        log = partition.log_at(asked.current_leader_epoch, leader_only=False)
        if isinstance(log, ErrorCode):
            return None
        return PartitionData(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=elsewhere,
            records=b"",
        )

    def of(self, partition: Partition, offset: int) -> NodeId | None:
        """The follower to read from at an offset, if there is one that is closer than the leader."""
        role = partition.role
        if not isinstance(role, Leading) or self._is_here:
            return None
        there = [
            (progress.log_end_offset, progress.last_caught_up_ms, node)
            for node, progress in role.followers.items()
            # One that lags would be chosen again and again, and its readers would lag with it.
            if node in role.isr
            and progress.log_start_offset <= offset <= progress.log_end_offset
            and self._is_reached(node)
        ]
        return max(there)[2] if there else None

    def _is_reached(self, node: NodeId) -> bool:
        broker = self._image.brokers.get(node)
        if broker is None or broker.fenced or broker.rack != self._rack:
            return False
        return any(endpoint.name == self._listener_name for endpoint in broker.endpoints)
