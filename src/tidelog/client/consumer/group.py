"""What a consumer and its group know of each other, whichever protocol the group speaks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from tidelog.client.cluster_metadata import ClusterMetadata
from tidelog.client.connections import Connections
from tidelog.client.consumer.assignors.assignor import PartitionRacks
from tidelog.client.consumer.committed_offsets import Committer
from tidelog.client.consumer.heartbeats import HeartbeatParts
from tidelog.client.consumer.options import ConsumerOptions
from tidelog.client.consumer.subscription import Subscription
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.coordinators import CoordinatorKind, Coordinators
from tidelog.client.errors import ClientError
from tidelog.client.retries import RetryBackoff
from tidelog.client.seams import ClientSeams


class Owner(Protocol):
    """The consumer, as its group sees it. The coroutines run the application's own callbacks."""

    async def before_revoke(self) -> None:
        """Partitions will go: commit what was read, where that is done automatically."""

    async def tell_assigned(self, partitions: list[TopicPartition]) -> None: ...
    async def tell_revoked(self, partitions: list[TopicPartition]) -> None: ...
    async def tell_lost(self, partitions: list[TopicPartition]) -> None: ...


class GroupParts:
    """What both kinds of membership work with."""

    def __init__(
        self,
        seams: ClientSeams,
        connections: Connections,
        coordinators: Coordinators,
        metadata: ClusterMetadata,
        subscription: Subscription,
        options: ConsumerOptions,
        owner: Owner,
        on_news: Callable[[], None],
    ) -> None:
        assert options.group_id is not None
        self.loop = seams.loop
        self.random = seams.random
        self.connections = connections
        self.coordinators = coordinators
        self.metadata = metadata
        self.subscription = subscription
        self.options = options
        self.owner = owner
        self.on_news = on_news
        self.group_id = options.group_id
        self.backoff = RetryBackoff(seams.random, options.retry_backoff_ms, options.retry_backoff_max_ms)

    def for_heartbeats(self) -> HeartbeatParts:
        return HeartbeatParts(
            self.loop,
            self.random,
            self.connections,
            self.coordinators,
            self.options,
            self.group_id,
            self.options.default_api_timeout_ms,
            self.options.max_poll_interval_ms,
        )

    def coordinator_lost(self) -> None:
        self.coordinators.lost(CoordinatorKind.GROUP, self.group_id)

    def racks_of(self, topics: set[str]) -> PartitionRacks:
        """The topics that exist, for an assignor."""
        racks: dict[str, list[frozenset[str]]] = {}
        for name in sorted(topics):
            topic = self.metadata.topics.get(name)
            if topic is None or not topic.partitions:
                continue
            racks[name] = [
                frozenset(
                    broker.rack
                    for replica in each.replicas
                    if (broker := self.metadata.brokers.get(replica)) is not None and broker.rack
                )
                for each in topic.partitions
            ]
        return racks


class Group(ABC):
    """A consumer's membership, hosted. Partitions come and go only within `advance` and `leave`, so only while the application
    is in a call of its own; heartbeats go on by themselves."""

    error: ClientError | None = None
    """What the application has to hear about."""

    @property
    @abstractmethod
    def needs_attention(self) -> bool:
        """Whether `advance` has something to do."""

    @abstractmethod
    def polled(self) -> None:
        """The application is alive."""

    @abstractmethod
    async def advance(self) -> None:
        """Do what can be done without waiting for the coordinator: run callbacks, send what is due."""

    @abstractmethod
    def subscription_changed(self) -> None: ...

    @abstractmethod
    def committer(self) -> Committer:
        """In whose name to commit at the moment."""

    @abstractmethod
    async def leave(self, timeout_ms: float) -> None:
        """Give up the partitions and tell the coordinator, as far as it is reached in time."""

    @abstractmethod
    def stop(self) -> None:
        """No more timers and tasks."""

    @property
    @abstractmethod
    def state(self) -> str:
        """For people."""
