"""What this package reads of the cluster's metadata.

The image itself belongs to `controller`, which lies in the same layer. It fits these protocols; the broker joins the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from tidelog.model.ids import DirectoryId, LeaderEpoch, NodeId, PartitionIndex, TopicId, TopicName

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


class PartitionMetadata(Protocol):
    """One partition: who has it, who is in sync, who leads."""

    @property
    def replicas(self) -> tuple[NodeId, ...]: ...

    @property
    def adding_replicas(self) -> tuple[NodeId, ...]: ...

    @property
    def removing_replicas(self) -> tuple[NodeId, ...]: ...

    @property
    def isr(self) -> tuple[NodeId, ...]: ...

    @property
    def leader(self) -> NodeId: ...

    @property
    def leader_epoch(self) -> LeaderEpoch: ...

    @property
    def partition_epoch(self) -> int: ...

    def directory_of(self, node: NodeId) -> DirectoryId | None: ...


class TopicMetadata(Protocol):
    """A topic and its partitions."""

    @property
    def name(self) -> TopicName: ...

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def partitions(self) -> Mapping[PartitionIndex, PartitionMetadata]: ...


class MetadataView(Protocol):
    """The topics of the cluster at one moment."""

    @property
    def topics(self) -> Mapping[TopicId, TopicMetadata]: ...

    @property
    def topic_ids(self) -> Mapping[TopicName, TopicId]: ...


class MetadataChange(Protocol):
    """What is different from the image before."""

    @property
    def topics_changed(self) -> Iterable[TopicId]: ...

    @property
    def topics_removed(self) -> Mapping[TopicId, TopicName]: ...

    @property
    def configs_changed(self) -> Iterable[tuple[int, str]]:
        """Pairs of Kafka's resource type and a name."""
        ...
