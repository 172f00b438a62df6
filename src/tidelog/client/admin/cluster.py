"""The cluster as a whole: its nodes, its metadata quorum, its features, who leads its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from tidelog import __version__
from tidelog.client.admin.outcomes import error_of, value_of
from tidelog.client.admin.raft_voters import RaftVoterEndpoint
from tidelog.client.admin.requests import ANYONE, CONTROLLER, Requests
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic
from tidelog.client.errors import ClientError, UnsupportedError, refusal
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, uuid_to_text
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse
from tidelog.wire.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tidelog.wire.messages.quorum import (
    DescribeQuorumPartitionData,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicData,
    ReplicaState,
)
from tidelog.wire.messages.reassignments import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

_METADATA_TOPIC = "__cluster_metadata"


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
    controller_id: int | None
    """A broker to which requests for the controller may go; None while there is none."""
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    node_id: int
    log_end_offset: int
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    directory_id: str | None = None
    """Of its metadata log. None where the cluster does not tell, or does not know."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[RaftVoterEndpoint, ...]] = field(default_factory=dict)
    """Where the voters are reached by other controllers, where the cluster tells."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of the cluster, as `metadata.version` is one."""

    name: str
    level: int
    """What the cluster has agreed on; 0 for not yet."""
    supported_min: int | None
    supported_max: int | None
    """The levels that the node knows which was asked; None where it does not know the feature."""


class UpgradeType(IntEnum):
    """How a feature's level may change. The numbers are Kafka's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class ElectionType(IntEnum):
    """Which replica is to lead. The numbers are Kafka's."""

    PREFERRED = 0
    """The first of the replicas."""
    UNCLEAN = 1
    """Any that is alive where none in sync is: records may be lost."""


class ClusterCalls:
    """What an admin does with the cluster as a whole."""

    _requests: Requests

    async def describe_cluster(self, *, include_fenced_brokers: bool = False) -> ClusterDescription:
        """The cluster's id and brokers; fenced ones too where asked for and the cluster tells.

        >>> [broker.node_id for broker in (await admin.describe_cluster()).brokers]
        """

        def request(version: int) -> DescribeClusterRequest:
            return DescribeClusterRequest(
                include_cluster_authorized_operations=False,
                include_fenced_brokers=include_fenced_brokers and version >= 2,
            )

        answer = await self._requests.ask(
            ANYONE, request, DescribeClusterResponse, codes=lambda each: [each.error_code]
        )
        value_of(error_of(answer.error_code, answer.error_message))
        brokers = tuple(
            BrokerDescription(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in sorted(answer.brokers, key=lambda broker: broker.broker_id)
        )
        controller_id = answer.controller_id if answer.controller_id >= 0 else None
        return ClusterDescription(answer.cluster_id, controller_id, brokers)

    async def describe_quorum(self) -> QuorumDescription:
        """Who leads the metadata, and how far each node has it."""
        topic = DescribeQuorumTopicData(
            topic_name=_METADATA_TOPIC, partitions=[DescribeQuorumPartitionData(partition_index=0)]
        )
        answer = await self._requests.ask(
            CONTROLLER,
            DescribeQuorumRequest(topics=[topic]),
            DescribeQuorumResponse,
            codes=lambda each: [each.error_code],
        )
        value_of(error_of(answer.error_code, answer.error_message))
        partition = next((each for told in answer.topics for each in told.partitions), None)
        if partition is None:
            raise refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "the cluster tells nothing of its quorum")
        value_of(error_of(partition.error_code, partition.error_message))
        return QuorumDescription(
            partition.leader_id,
            partition.leader_epoch,
            partition.high_watermark,
            tuple(map(_replica, partition.current_voters)),
            tuple(map(_replica, partition.observers)),
            {
                node.node_id: tuple(RaftVoterEndpoint(each.name, each.host, each.port) for each in node.listeners)
                for node in answer.nodes
            },
        )

    async def describe_features(self) -> dict[str, Feature]:
        """The features that the cluster has agreed on, and the levels that a node knows (KIP-584).

        >>> (await admin.describe_features())["metadata.version"].level
        """
        request = ApiVersionsRequest(client_software_name="tidelog", client_software_version=__version__)
        answer = await self._requests.ask(ANYONE, request, ApiVersionsResponse)
        value_of(error_of(answer.error_code))
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        return {
            name: Feature(name, levels.get(name, 0), *supported.get(name, (None, None)))
            for name in sorted(levels.keys() | supported.keys())
        }

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        upgrade_type: UpgradeType = UpgradeType.UPGRADE,
        validate_only: bool = False,
    ) -> None:
        """Raise or lower the levels of features, all or none. RefusedError where the cluster does not."""

        def request(version: int) -> UpdateFeaturesRequest:
            if version == 0 and validate_only:
                raise UnsupportedError("the cluster is too old to try a change of features without making it")
            is_downgrade = upgrade_type is not UpgradeType.UPGRADE
            return UpdateFeaturesRequest(
                timeout_ms=self._requests.options.change_timeout_ms,
                feature_updates=[
                    FeatureUpdateKey(
                        feature=name,
                        max_version_level=level,
                        allow_downgrade=is_downgrade and version == 0,
                        upgrade_type=upgrade_type if version else 1,
                    )
                    for name, level in levels.items()
                ],
                validate_only=validate_only,
            )

        answer = await self._requests.ask(
            CONTROLLER, request, UpdateFeaturesResponse, codes=lambda each: [each.error_code]
        )
        value_of(error_of(answer.error_code, answer.error_message))
        for each in answer.results:
            value_of(error_of(each.error_code, each.error_message, about=each.feature))

    async def elect_leaders(
        self,
        election_type: ElectionType = ElectionType.PREFERRED,
        partitions: Iterable[tuple[str, int]] | None = None,
    ) -> dict[TopicPartition, ClientError | None]:
        """Have leaders elected for these partitions, or for all that need it. None where one was elected; the code
        ELECTION_NOT_NEEDED where the right one led already.

        >>> await admin.elect_leaders(ElectionType.PREFERRED, [("orders", 0)])
        """
        wanted = None if partitions is None else by_topic(partitions)

        def request(version: int) -> ElectLeadersRequest:
            if version == 0 and election_type is not ElectionType.PREFERRED:
                raise UnsupportedError("the cluster is too old for unclean elections by hand")
            listed = [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in (wanted or {}).items()]
            return ElectLeadersRequest(
                election_type=election_type,
                topic_partitions=None if wanted is None else listed,
                timeout_ms=self._requests.options.change_timeout_ms,
            )

        answer = await self._requests.ask(
            CONTROLLER, request, ElectLeadersResponse, codes=lambda each: [each.error_code]
        )
        value_of(error_of(answer.error_code))
        return {
            TopicPartition(topic.topic, each.partition_id): error_of(
                each.error_code, each.error_message, about=f"{topic.topic}-{each.partition_id}"
            )
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }

    async def unregister_broker(self, node_id: int) -> None:
        """Forget a broker that does not come back. It must not run any more."""
        answer = await self._requests.ask(
            CONTROLLER,
            UnregisterBrokerRequest(broker_id=node_id),
            UnregisterBrokerResponse,
            codes=lambda each: [each.error_code],
            is_repeatable=False,
        )
        value_of(error_of(answer.error_code, answer.error_message, about=f"broker {node_id}"))


def _replica(each: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        each.replica_id,
        each.log_end_offset,
        each.last_fetch_timestamp if each.last_fetch_timestamp >= 0 else None,
        each.last_caught_up_timestamp if each.last_caught_up_timestamp >= 0 else None,
        uuid_to_text(each.replica_directory_id) if each.replica_directory_id != ZERO_UUID else None,
    )
