"""Parts of the answers to ShareFetch and ShareAcknowledge: partitions by topic, and where a client should go instead."""

from __future__ import annotations

from typing import Generic, TypeVar

from tidelog.broker.data.leader_hints import LeaderHints
from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.node_view import Node
from tidelog.broker.share.share_sessions import FetchedPartition
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicId
from tidelog.net.parts import SENDFILE_BYTES_MIN
from tidelog.storage.errors import StorageError
from tidelog.storage.file_region import FileRegion
from tidelog.wire.messages.share_fetch import LeaderIdAndEpoch, NodeEndpoint

P = TypeVar("P")

_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class ByTopic(Generic[P]):
    """What is answered of each partition, in the order in which topics and partitions come up."""

    def __init__(self) -> None:
        self.topics: dict[TopicId, dict[int, P]] = {}

    def add(self, partition: FetchedPartition, data: P) -> None:
        self.topics.setdefault(partition.topic_id, {})[partition.partition] = data

    def get(self, partition: FetchedPartition) -> P | None:
        return self.topics.get(partition.topic_id, {}).get(partition.partition)


class Hints:
    """The current leaders of partitions that are not led here, and where they listen."""

    def __init__(self, caller: Caller, node: Node) -> None:
        self._image = node.image
        self._hints = LeaderHints(node.image, caller.listener_name)

    def leader_of(self, partition: FetchedPartition, error: int) -> LeaderIdAndEpoch:
        """What the answer says of a partition with this error: the leader, or that it has nothing to say."""
        topic = self._image.topics.get(partition.topic_id)
        if topic is None or error not in _ELSEWHERE:
            # As in Kafka, whose messages begin with zeros.
            return LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
        hint = self._hints.leader_of(topic.name, partition.partition)
        return LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)

    def endpoints(self) -> list[NodeEndpoint]:
        return [
            NodeEndpoint(node_id=each.node_id, host=each.endpoint.host, port=each.endpoint.port, rack=each.rack)
            for each in self._hints.endpoints.values()
        ]


class RecordBytes:
    """Few records are a part of the answer's bytes; more leave straight from their file, by `sendfile`."""

    def __init__(self) -> None:
        self._copied_bytes = 0

    def of(self, region: FileRegion) -> bytes | FileRegion:
        if self._copied_bytes + region.count >= SENDFILE_BYTES_MIN:
            return region
        try:
            records = region.read()
        except StorageError:
            # Whoever sends it finds out again, and ends the connection.
            return region
        if len(records) != region.count:
            return region
        self._copied_bytes += region.count
        return records
