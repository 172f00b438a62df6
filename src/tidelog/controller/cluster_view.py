"""What decisions ask of an image: who is there, who may lead, where a replica lies, what a topic's settings come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from msgspec import Struct, field

from tidelog.controller.decision import RefusedError
from tidelog.controller.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from tidelog.controller.image import BrokerRegistration, ClusterImage, ConfigResource, Partition, Topic
from tidelog.controller.image_delta import TOPIC_RESOURCE
from tidelog.model import topic_config
from tidelog.model.config import ConfigError, ConfigKey
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    DirectoryId,
    NodeId,
    PartitionIndex,
    TopicName,
)

T = TypeVar("T")

BROKER_RESOURCE = 4
CLUSTER_DEFAULT = ConfigResource(BROKER_RESOURCE, "")


class TopicDefaults(Struct, frozen=True):
    """What the controller's own configuration says for topics that say nothing: values of topics' keys, as text."""

    values: Mapping[str, str] = field(default_factory=dict)


def is_active(broker: BrokerRegistration | None) -> bool:
    """Whether a broker may be in sync and lead."""
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def checked_broker(image: ClusterImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """The registration of a broker that names its epoch; refuses the request of one that has been replaced meanwhile."""
    broker = image.brokers.get(NodeId(broker_id))
    if broker is None:
        raise RefusedError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != epoch:
        raise RefusedError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
        )
    return broker


def is_online(broker: BrokerRegistration, directory: DirectoryId | None) -> bool:
    """Whether a directory of a broker can be used, as far as the broker has reported."""
    if directory in {None, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY}:
        return True
    if directory == LOST_DIRECTORY:
        return False
    return not broker.log_directories or directory in broker.log_directories


def default_directory(image: ClusterImage, node: NodeId) -> DirectoryId:
    """Where a new replica goes: to the only directory of its broker, else where the broker will choose."""
    broker = image.brokers.get(node)
    if broker is None or not broker.log_directories or not image.metadata_version.has_directories:
        return MIGRATING_DIRECTORY
    if len(broker.log_directories) == 1:
        return broker.log_directories[0]
    return UNASSIGNED_DIRECTORY


def each_partition(image: ClusterImage) -> Iterator[tuple[Topic, PartitionIndex, Partition]]:
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            yield topic, index, partition


def leads_any(image: ClusterImage, node: NodeId) -> bool:
    """Whether a broker leads a partition."""
    return any(partition.leader == node for _, _, partition in each_partition(image))


def has_eligible_leader_replicas(image: ClusterImage) -> bool:
    """Whether KIP-966 is in force: a partition's in-sync set may become empty, and who was in it last is remembered."""
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


def min_insync_replicas(image: ClusterImage, topic: Topic, defaults: TopicDefaults) -> int:
    """How many replicas must be in sync for a partition to be safe; never more than it has."""
    wanted: int = topic_value(image, topic.name, topic_config.MIN_INSYNC_REPLICAS, defaults)
    partitions = topic.partitions.values()
    # Mostly the first one has enough. To look at all of them for each of them would take minutes where there are thousands.
    if any(len(partition.replicas) >= wanted for partition in partitions):
        return wanted
    return max((len(partition.replicas) for partition in partitions), default=wanted)


def allows_unclean_election(image: ClusterImage, topic: TopicName, defaults: TopicDefaults) -> bool:
    """Whether a replica that may have missed records may lead, where no other can."""
    allowed: bool = topic_value(image, topic, topic_config.UNCLEAN_LEADER_ELECTION_ENABLE, defaults)
    return allowed


def topic_value(image: ClusterImage, topic: TopicName, key: ConfigKey[T], defaults: TopicDefaults) -> T:
    """What a key comes to for a topic: its own value, else the cluster's, else the controller's, else Kafka's."""
    synonym = key.synonym or key.name
    for text in (
        image.config_of(ConfigResource(TOPIC_RESOURCE, topic)).get(key.name),
        image.config_of(CLUSTER_DEFAULT).get(synonym),
        defaults.values.get(key.name),
    ):
        if text is not None:
            try:
                return key.parse(text)
            except ConfigError:
                # Written by another release, which allowed it: the next best value counts.
                continue
    return key.default
