"""What a coordinator reads of the cluster's topics. The image itself belongs to `controller`; it fits these protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tidelog.model.ids import NO_OFFSET, NodeId, Offset, PartitionIndex, TopicId, TopicName


class PartitionView(Protocol):
    """One partition, as far as an assignment depends on it."""

    @property
    def replicas(self) -> tuple[NodeId, ...]: ...


class TopicView(Protocol):
    """A topic; its partitions are numbered from 0."""

    @property
    def name(self) -> TopicName: ...

    @property
    def topic_id(self) -> TopicId: ...

    @property
    def partitions(self) -> Mapping[PartitionIndex, PartitionView]: ...


class BrokerView(Protocol):
    """A broker, for the rack that it stands in."""

    @property
    def rack(self) -> str | None: ...


class TopicsView(Protocol):
    """The topics of the cluster at one moment. Immutable."""

    @property
    def offset(self) -> Offset:
        """Up to where in the metadata log this is the cluster."""
        ...

    @property
    def topics(self) -> Mapping[TopicId, TopicView]: ...

    @property
    def topic_ids(self) -> Mapping[TopicName, TopicId]: ...

    @property
    def brokers(self) -> Mapping[NodeId, BrokerView]: ...


class NoTopics:
    """Before the first image."""

    offset = NO_OFFSET
    topics: Mapping[TopicId, TopicView] = {}
    topic_ids: Mapping[TopicName, TopicId] = {}
    brokers: Mapping[NodeId, BrokerView] = {}
