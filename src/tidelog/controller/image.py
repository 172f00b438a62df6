"""The cluster's metadata at one moment: what the metadata log up to some offset says.

Immutable. `ImageDelta` makes the next image from records; `image_records` gives the records of a snapshot. It holds what all 26
types of record say, also where nothing acts on it yet, so that no snapshot loses anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import msgspec

from tidelog.controller.features import METADATA_VERSION
from tidelog.controller.metadata_version import METADATA_VERSIONS, NEWEST, MetadataVersion
from tidelog.model.acl import AccessControlEntry
from tidelog.model.ids import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    BrokerEpoch,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionIndex,
    ProducerId,
    TopicId,
    TopicName,
)
from tidelog.security.sasl.scram_credential import ScramCredential

NO_LEADER = NodeId(-1)
FIRST_PRODUCER_ID = ProducerId(0)


class LeaderRecovery(IntEnum):
    """Whether a leader came from the in-sync set, or still has to recover from an unclean election."""

    RECOVERED = 0
    RECOVERING = 1


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """Where a node listens."""

    name: str
    host: str
    port: int
    security_protocol: int


class SupportedFeature(msgspec.Struct, frozen=True, gc=False):
    """The levels of a feature that a node says it can work at."""

    name: str
    lowest: int
    highest: int


class BrokerRegistration(msgspec.Struct, frozen=True, gc=False):
    """A broker as the controller knows it. The epoch is the offset of its registration in the metadata log."""

    node_id: NodeId
    epoch: BrokerEpoch
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_directories: tuple[DirectoryId, ...]
    cordoned_directories: tuple[DirectoryId, ...] | None = None
    is_migrating_zk_broker: bool = False


class ControllerRegistration(msgspec.Struct, frozen=True, gc=False):
    """A controller as the active one knows it."""

    node_id: NodeId
    incarnation_id: bytes
    zk_migration_ready: bool
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]


class Partition(msgspec.Struct, frozen=True, gc=False):
    """One partition: who has it, who is in sync, who leads."""

    replicas: tuple[NodeId, ...]
    directories: tuple[DirectoryId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    leader_recovery: LeaderRecovery = LeaderRecovery.RECOVERED
    removing_replicas: tuple[NodeId, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    eligible_leader_replicas: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()

    def directory_of(self, node: NodeId) -> DirectoryId | None:
        """The log directory that holds the node's replica, or None where it has none."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == node:
                return directory
        return None


class Topic(msgspec.Struct, frozen=True, gc=False):
    """A topic and its partitions, which are numbered from 0."""

    name: TopicName
    topic_id: TopicId
    partitions: Mapping[PartitionIndex, Partition]


class ConfigResource(NamedTuple):
    """What a configuration belongs to. The type is Kafka's number: 2 topic, 4 broker, 16 client metrics, 32 group."""

    type: int
    name: str


class QuotaEntity(NamedTuple):
    """Pairs of entity type and name, by type. A name of None is the default of its type."""

    parts: tuple[tuple[str, str | None], ...]


class DelegationToken(msgspec.Struct, frozen=True, gc=False):
    """A token that stands for its owner until it expires."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    max_timestamp_ms: int
    expiration_timestamp_ms: int


@dataclass(frozen=True)
class ClusterImage:
    """Everything that the metadata log says up to and including `offset`."""

    offset: Offset = NO_OFFSET
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    timestamp_ms: int = -1
    """When the record at `offset` was appended: a snapshot's header carries it."""
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)
    topics: Mapping[TopicId, Topic] = field(default_factory=dict)
    topic_ids: Mapping[TopicName, TopicId] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    next_producer_id: ProducerId = FIRST_PRODUCER_ID
    access_control: Mapping[bytes, AccessControlEntry] = field(default_factory=dict)
    scram_credentials: Mapping[tuple[str, int], ScramCredential] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    zk_migration_state: int = 0

    @property
    def metadata_version(self) -> MetadataVersion:
        """The level that the cluster has agreed on; while its log is empty the one that it would begin with."""
        return METADATA_VERSIONS[self.features.get(METADATA_VERSION, NEWEST.level)]

    def topic(self, name: TopicName) -> Topic | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: TopicId, index: PartitionIndex) -> Partition | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(index)

    def config_of(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.configs.get(resource, {})

    def says_the_same(self, other: ClusterImage) -> bool:
        """Whether both describe the same cluster, wherever in the log they were taken."""
        ignored = {"offset", "epoch", "timestamp_ms"}
        return all(
            getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__ if name not in ignored
        )
