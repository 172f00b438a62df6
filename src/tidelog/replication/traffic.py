"""How many bytes of records a broker has copied from its leaders, and how many went either way because of reassignments.

A replica that is being added to a partition is one that a reassignment brings there: what it copies until it belongs there counts
as reassignment, besides being replication as any other.
"""

from __future__ import annotations

from tidelog.model.ids import NodeId
from tidelog.replication.partition import Partition


class ReplicationTraffic:
    """The numbers of one broker, since it was started."""

    __slots__ = ("_node_id", "reassignment_bytes_in", "reassignment_bytes_out", "replication_bytes_in")

    def __init__(self, node_id: NodeId) -> None:
        self._node_id = node_id
        self.replication_bytes_in = 0
        self.reassignment_bytes_in = 0
        self.reassignment_bytes_out = 0

    def received(self, partition: Partition, count: int) -> None:
        """So many bytes of a leader's records were appended."""
        self.replication_bytes_in += count
        if partition.adding_replicas and self._node_id in partition.adding_replicas:
            self.reassignment_bytes_in += count

    def sent(self, partition: Partition, follower: NodeId, count: int) -> None:
        """So many bytes of what this broker leads were read for a follower."""
        if partition.adding_replicas and follower in partition.adding_replicas:
            self.reassignment_bytes_out += count
