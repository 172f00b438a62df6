"""Administration of a cluster, as far as the command line and the embedded cluster need it.

Every method asks once and either returns what it found or raises a ClientError, whose text is one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tidelog.client.cluster_link import ClusterLink
from tidelog.client.errors import RefusedError, refusal
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import uuid_to_text
from tidelog.wire.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsAlterableConfig as AlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource as AlterableResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tidelog.wire.messages.quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
    ReplicaState,
)
from tidelog.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

NO_ID = bytes(16)
BROKER_DEFAULT = -1
"""As a number of partitions or replicas: what the cluster is configured to give."""

# How long the cluster may take for a change; an answer that it was too long is an answer too.
CHANGE_TIMEOUT_MS = 20_000

_METADATA_TOPIC = "__cluster_metadata"


class ResourceKind(IntEnum):
    """What has a configuration. The numbers are Kafka's."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where a value comes from. The numbers are Kafka's."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    CLUSTER_DEFAULT = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    index: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    id: str | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    node_id: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class AdminCore:
    """Asks a cluster through a link that the caller opens and closes."""

    def __init__(self, link: ClusterLink) -> None:
        self._link = link

    # --- topics ------------------------------------------------------------------------------------------------------------

    async def topics(self, names: Iterable[str] | None = None) -> list[TopicDescription]:
        """The topics of these names, or all, by name. RefusedError for one that does not exist."""
        wanted = None if names is None else [MetadataRequestTopic(topic_id=NO_ID, name=name) for name in names]
        request = MetadataRequest(
            topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        answer = await self._link.ask(request, MetadataResponse)
        for topic in answer.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic.name}")
            if topic.error_code:
                raise refusal(topic.error_code, None, about=f"topic {topic.name}")
        return sorted((_topic(topic) for topic in answer.topics), key=lambda topic: topic.name)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=CHANGE_TIMEOUT_MS, validate_only=validate_only)
        answer = await self._link.ask(request, CreateTopicsResponse)
        for result in answer.topics:
            _check(result.error_code, result.error_message)

    async def delete_topic(self, name: str) -> None:
        def request(version: int) -> DeleteTopicsRequest:
            by_id = [DeleteTopicState(name=name, topic_id=NO_ID)] if version >= 6 else []
            return DeleteTopicsRequest(topics=by_id, topic_names=[name], timeout_ms=CHANGE_TIMEOUT_MS)

        answer = await self._link.ask(request, DeleteTopicsResponse)
        for result in answer.responses:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            _check(result.error_code, result.error_message)

    async def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions, up to `total`."""
        topic = CreatePartitionsTopic(name=name, count=total, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=CHANGE_TIMEOUT_MS, validate_only=False)
        answer = await self._link.ask(request, CreatePartitionsResponse)
        for result in answer.results:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            _check(result.error_code, result.error_message)

    # --- configuration -----------------------------------------------------------------------------------------------------

    async def configs(
        self, kind: ResourceKind, name: str, *, keys: Sequence[str] | None = None, documented: bool = False
    ) -> list[ConfigEntry]:
        """What a topic or broker is configured to do, by key. The broker of the empty name is the default of all."""
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys)
        )

        def request(version: int) -> DescribeConfigsRequest:
            asked = DescribeConfigsRequest(resources=[resource])
            if version >= 3:
                asked.include_documentation = documented
            return asked

        answer = await self._link.ask(request, DescribeConfigsResponse, node_id=_asked_node(kind, name))
        entries: list[ConfigEntry] = []
        for result in answer.results:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            _check(result.error_code, result.error_message)
            entries += [
                ConfigEntry(
                    each.name,
                    each.value,
                    _source(each.config_source),
                    each.read_only,
                    each.is_sensitive,
                    each.documentation,
                )
                for each in result.configs
            ]
        return sorted(entries, key=lambda entry: entry.name)

    async def change_configs(
        self, kind: ResourceKind, name: str, *, settings: Mapping[str, str], removed: Iterable[str] = ()
    ) -> None:
        """Set some keys and give others back to their defaults, all or none."""
        set_, delete = 0, 1
        changes = [AlterableConfig(name=key, config_operation=set_, value=value) for key, value in settings.items()]
        changes += [AlterableConfig(name=key, config_operation=delete, value=None) for key in removed]
        request = IncrementalAlterConfigsRequest(
            resources=[AlterableResource(resource_type=kind, resource_name=name, configs=changes)], validate_only=False
        )
        answer = await self._link.ask(request, IncrementalAlterConfigsResponse, node_id=_asked_node(kind, name))
        for result in answer.responses:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            _check(result.error_code, result.error_message)

    # --- the cluster -------------------------------------------------------------------------------------------------------

    async def cluster(self) -> ClusterDescription:
        def request(version: int) -> DescribeClusterRequest:
            return DescribeClusterRequest(
                include_cluster_authorized_operations=False, include_fenced_brokers=version >= 2
            )

        answer = await self._link.ask(request, DescribeClusterResponse)
        _check(answer.error_code, answer.error_message)
        brokers = tuple(
            BrokerDescription(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in sorted(answer.brokers, key=lambda broker: broker.broker_id)
        )
        return ClusterDescription(answer.cluster_id, answer.controller_id, brokers)

    async def quorum(self) -> QuorumDescription:
        """Who leads the metadata, and how far each node has it."""
        topic = DescribeQuorumTopicData(
            topic_name=_METADATA_TOPIC, partitions=[DescribeQuorumPartitionData(partition_index=0)]
        )
        answer = await self._link.ask(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
        _check(answer.error_code, answer.error_message)
        partitions = [partition for topic_ in answer.topics for partition in topic_.partitions]
        if not partitions:
            raise refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "the cluster tells nothing of its quorum")
        partition = partitions[0]
        _check(partition.error_code, partition.error_message)
        return QuorumDescription(
            partition.leader_id,
            partition.leader_epoch,
            partition.high_watermark,
            _replicas(partition.current_voters),
            _replicas(partition.observers),
        )


def _check(code: int, message: str | None) -> None:
    if code:
        raise refusal(code, message)


def _asked_node(kind: ResourceKind, name: str) -> int | None:
    """Only a broker itself knows its configuration."""
    return int(name) if kind is ResourceKind.BROKER and name.isascii() and name.isdigit() else None


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN


def _replicas(states: Iterable[ReplicaState]) -> tuple[QuorumReplica, ...]:
    return tuple(QuorumReplica(each.replica_id, each.log_end_offset) for each in states)


def _topic(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicDescription(
        topic.name or "",
        uuid_to_text(topic.topic_id) if topic.topic_id != NO_ID else None,
        topic.is_internal,
        tuple(
            PartitionDescription(
                each.partition_index,
                each.leader_id if each.leader_id >= 0 else None,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
                tuple(each.offline_replicas),
            )
            for each in partitions
        ),
    )
