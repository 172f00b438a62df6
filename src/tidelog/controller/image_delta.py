"""From one image and some records to the next.

    delta = ImageDelta(image)
    for record in records: delta.apply(record)
    following = delta.image(offset, epoch, timestamp_ms)

The image that a delta starts from never changes; a part is copied when the first record touches it. `topics_changed`,
`topics_removed` and `configs_changed` say what a broker has to look at.

A record that does not fit the image (a change to a partition that does not exist) means that the log or this code is broken:
it raises `InconsistentMetadataError`, which stops the node rather than let it act on a wrong picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from tidelog.controller.errors import InconsistentMetadataError, UnsupportedFeatureError
from tidelog.controller.features import KRAFT_VERSION, unsupported_reason
from tidelog.controller.image import (
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ControllerRegistration,
    DelegationToken,
    Endpoint,
    LeaderRecovery,
    Partition,
    QuotaEntity,
    SupportedFeature,
    Topic,
)
from tidelog.model.acl import AccessControlEntry
from tidelog.model.ids import (
    MIGRATING_DIRECTORY,
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
from tidelog.wire.messages.internal import cluster_metadata as records, cluster_security as security
from tidelog.wire.schema import MetadataRecord

TOPIC_RESOURCE = 2

_NO_LEADER_CHANGE = -2
_NO_RECOVERY_CHANGE = -1


class ImageDelta:
    """Collects the effect of records on an image."""

    def __init__(self, start: ClusterImage) -> None:
        self._start = start
        self._parts: dict[str, Any] = {}
        self._copied_topics: set[TopicId] = set()
        self.topics_changed: dict[TopicId, None] = {}
        """In the order of their first change; a dict because a set has no order to rely on."""
        self.topics_removed: dict[TopicId, TopicName] = {}
        self.configs_changed: dict[ConfigResource, None] = {}

    def image(self, offset: Offset, epoch: LeaderEpoch, timestamp_ms: int) -> ClusterImage:
        """The image after all records applied so far. The delta is spent."""
        start = {name: getattr(self._start, name) for name in self._start.__dataclass_fields__}
        return ClusterImage(**{**start, **self._parts, "offset": offset, "epoch": epoch, "timestamp_ms": timestamp_ms})

    def replaces(self, former: ClusterImage) -> None:
        """The next image takes the place of `former`, whatever this delta started from: what only that had is removed."""
        topics = self._seen("topics")
        for topic in former.topics.values():
            if topic.topic_id not in topics:
                self.topics_removed[topic.topic_id] = topic.name
        for resource in former.configs:
            self.configs_changed[resource] = None

    def apply(self, record: MetadataRecord, offset: Offset) -> None:
        """Takes one record in. `offset` is where it stands in the log: a broker's epoch is the offset of its registration."""
        if isinstance(record, records.RegisterBrokerRecord):
            # Kafka writes the epoch into the record too; an old log may leave it to the offset.
            self._register_broker(record, record.broker_epoch if record.broker_epoch >= 0 else offset)
            return
        self._HANDLERS[type(record)](self, record)

    # Parts of the image

    def _part(self, name: str) -> dict[Any, Any]:
        """A part of the image, copied when it is first written to."""
        part: dict[Any, Any] | None = self._parts.get(name)
        if part is None:
            part = self._parts[name] = dict(getattr(self._start, name))
        return part

    def _seen(self, name: str) -> Any:
        return self._parts[name] if name in self._parts else getattr(self._start, name)

    # Nodes

    def _register_broker(self, record: records.RegisterBrokerRecord, epoch: int) -> None:
        node = NodeId(record.broker_id)
        self._part("brokers")[node] = BrokerRegistration(
            node_id=node,
            epoch=BrokerEpoch(epoch),
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_directories=tuple(map(DirectoryId, record.log_dirs)),
            cordoned_directories=_optional_directories(record.cordoned_log_dirs),
            is_migrating_zk_broker=record.is_migrating_zk_broker,
        )

    def _unregister_broker(self, record: records.UnregisterBrokerRecord) -> None:
        self._registered(record.broker_id, record.broker_epoch)
        del self._part("brokers")[NodeId(record.broker_id)]

    def _fence_broker(self, record: records.FenceBrokerRecord) -> None:
        self._change_broker(record.id, record.epoch, fenced=True)

    def _unfence_broker(self, record: records.UnfenceBrokerRecord) -> None:
        self._change_broker(record.id, record.epoch, fenced=False)

    def _change_registration(self, record: records.BrokerRegistrationChangeRecord) -> None:
        changes: dict[str, object] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["log_directories"] = tuple(map(DirectoryId, record.log_dirs))
        if record.cordoned_log_dirs is not None:
            changes["cordoned_directories"] = _optional_directories(record.cordoned_log_dirs)
        self._change_broker(record.broker_id, record.broker_epoch, **changes)

    def _change_broker(self, broker_id: int, epoch: int, **changes: object) -> None:
        broker = self._registered(broker_id, epoch)
        self._part("brokers")[broker.node_id] = msgspec.structs.replace(broker, **changes)

    def _registered(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker: BrokerRegistration | None = self._seen("brokers").get(broker_id)
        if broker is None or broker.epoch != epoch:
            known = "is not registered" if broker is None else f"is registered with epoch {broker.epoch}"
            raise InconsistentMetadataError(f"a record changes broker {broker_id} of epoch {epoch}, which {known}")
        return broker

    def _register_controller(self, record: records.RegisterControllerRecord) -> None:
        node = NodeId(record.controller_id)
        self._part("controllers")[node] = ControllerRegistration(
            node_id=node,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
        )

    # Topics

    def _add_topic(self, record: records.TopicRecord) -> None:
        topic_id, name = TopicId(record.topic_id), TopicName(record.name)
        if name in self._seen("topic_ids"):
            raise InconsistentMetadataError(f"topic {name} is created although it exists")
        self._part("topics")[topic_id] = Topic(name, topic_id, {})
        self._part("topic_ids")[name] = topic_id
        self._copied_topics.add(topic_id)
        self.topics_changed[topic_id] = None

    def _remove_topic(self, record: records.RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        del self._part("topics")[topic.topic_id]
        del self._part("topic_ids")[topic.name]
        self._part("configs").pop(ConfigResource(TOPIC_RESOURCE, topic.name), None)
        self.topics_changed.pop(topic.topic_id, None)
        self.topics_removed[topic.topic_id] = topic.name

    def _add_partition(self, record: records.PartitionRecord) -> None:
        partitions = self._partitions(record.topic_id)
        partitions[PartitionIndex(record.partition_id)] = Partition(
            replicas=_nodes(record.replicas),
            directories=_directories(record.directories, len(record.replicas)),
            isr=_nodes(record.isr),
            leader=NodeId(record.leader),
            leader_epoch=LeaderEpoch(record.leader_epoch),
            partition_epoch=record.partition_epoch,
            leader_recovery=LeaderRecovery(record.leader_recovery_state),
            removing_replicas=_nodes(record.removing_replicas),
            adding_replicas=_nodes(record.adding_replicas),
            eligible_leader_replicas=_nodes(record.eligible_leader_replicas or ()),
            last_known_elr=_nodes(record.last_known_elr or ()),
        )

    def _change_partition(self, record: records.PartitionChangeRecord) -> None:
        partitions = self._partitions(record.topic_id)
        index = PartitionIndex(record.partition_id)
        before = partitions.get(index)
        if before is None:
            raise InconsistentMetadataError(f"a record changes partition {index} of a topic that has no such partition")
        changes: dict[str, object] = {"partition_epoch": before.partition_epoch + 1}
        for name in (
            "replicas",
            "isr",
            "removing_replicas",
            "adding_replicas",
            "eligible_leader_replicas",
            "last_known_elr",
        ):
            value = getattr(record, name)
            if value is not None:
                changes[name] = _nodes(value)
        directories = before.directories if record.directories is None else record.directories
        changes["directories"] = _directories(
            directories, len(before.replicas if record.replicas is None else record.replicas)
        )
        if record.leader != _NO_LEADER_CHANGE:
            # A record that names a leader starts an epoch, also when it names the same one again.
            changes |= {"leader": NodeId(record.leader), "leader_epoch": LeaderEpoch(before.leader_epoch + 1)}
        if record.leader_recovery_state != _NO_RECOVERY_CHANGE:
            changes["leader_recovery"] = LeaderRecovery(record.leader_recovery_state)
        partitions[index] = msgspec.structs.replace(before, **changes)

    def _clear_eligible_leaders(self, record: records.ClearElrRecord) -> None:
        if record.topic_name and TopicName(record.topic_name) not in self._seen("topic_ids"):
            raise InconsistentMetadataError(f"a record changes topic {record.topic_name}, which does not exist")
        for topic in list(self._seen("topics").values()):
            if record.topic_name not in {"", topic.name}:
                continue
            for index, partition in topic.partitions.items():
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    cleared = msgspec.structs.replace(partition, eligible_leader_replicas=(), last_known_elr=())
                    self._partitions(topic.topic_id)[index] = cleared

    def _topic(self, topic_id: bytes) -> Topic:
        topic: Topic | None = self._seen("topics").get(topic_id)
        if topic is None:
            raise InconsistentMetadataError("a record changes a topic that does not exist")
        return topic

    def _partitions(self, topic_id: bytes) -> dict[PartitionIndex, Partition]:
        """The partitions of a topic, to write to."""
        topic = self._topic(topic_id)
        if topic.topic_id not in self._copied_topics:
            topic = self._part("topics")[topic.topic_id] = Topic(topic.name, topic.topic_id, dict(topic.partitions))
            self._copied_topics.add(topic.topic_id)
        self.topics_changed[topic.topic_id] = None
        partitions = topic.partitions
        if not isinstance(partitions, dict):
            raise TypeError("a copied topic's partitions are a dict")
        return partitions

    # Configuration, features, ids

    def _set_config(self, record: records.ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        configs = self._part("configs")
        values = dict(configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            configs[resource] = values
        else:
            configs.pop(resource, None)
        self.configs_changed[resource] = None

    def _set_feature(self, record: records.FeatureLevelRecord) -> None:
        reason = unsupported_reason(record.name, record.feature_level)
        if reason is not None:
            raise UnsupportedFeatureError(reason)
        if record.name == KRAFT_VERSION:
            # Releases before 4.0 wrote it here too. What counts is the quorum's own record.
            return
        features = self._part("features")
        if record.feature_level == 0:
            features.pop(record.name, None)
        else:
            features[record.name] = record.feature_level

    def _set_producer_ids(self, record: records.ProducerIdsRecord) -> None:
        self._parts["next_producer_id"] = ProducerId(record.next_producer_id)

    def _set_quota(self, record: security.ClientQuotaRecord) -> None:
        # Sorted: the order of a record is that of Kafka's hash map, which is not always ours.
        parts = sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda part: part[0])
        entity = QuotaEntity(tuple(parts))
        quotas = self._part("quotas")
        values = dict(quotas.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            quotas[entity] = values
        else:
            quotas.pop(entity, None)

    def _set_zk_migration(self, record: records.ZkMigrationStateRecord) -> None:
        self._parts["zk_migration_state"] = record.zk_migration_state

    def _nothing(self, record: MetadataRecord) -> None:
        """NoOp says nothing; the records that frame a metadata transaction are for whoever reads the log."""

    # Security

    def _add_access_control(self, record: security.AccessControlEntryRecord) -> None:
        self._part("access_control")[record.id] = AccessControlEntry(
            resource_type=record.resource_type,
            resource_name=record.resource_name,
            pattern_type=record.pattern_type,
            principal=record.principal,
            host=record.host,
            operation=record.operation,
            permission_type=record.permission_type,
        )

    def _remove_access_control(self, record: security.RemoveAccessControlEntryRecord) -> None:
        self._remove("access_control", record.id, "access control entry")

    def _set_scram(self, record: security.UserScramCredentialRecord) -> None:
        self._part("scram_credentials")[record.name, record.mechanism] = ScramCredential(
            salt=record.salt, stored_key=record.stored_key, server_key=record.server_key, iterations=record.iterations
        )

    def _remove_scram(self, record: security.RemoveUserScramCredentialRecord) -> None:
        self._remove("scram_credentials", (record.name, record.mechanism), "credential")

    def _set_token(self, record: security.DelegationTokenRecord) -> None:
        self._part("delegation_tokens")[record.token_id] = DelegationToken(
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issue_timestamp_ms=record.issue_timestamp,
            max_timestamp_ms=record.max_timestamp,
            expiration_timestamp_ms=record.expiration_timestamp,
        )

    def _remove_token(self, record: security.RemoveDelegationTokenRecord) -> None:
        self._remove("delegation_tokens", record.token_id, "delegation token")

    def _remove(self, part: str, key: object, noun: str) -> None:
        if key not in self._seen(part):
            raise InconsistentMetadataError(f"a record removes a {noun} that does not exist")
        del self._part(part)[key]

    _HANDLERS: ClassVar[dict[type[MetadataRecord], Callable[[ImageDelta, Any], None]]] = {
        records.UnregisterBrokerRecord: _unregister_broker,
        records.FenceBrokerRecord: _fence_broker,
        records.UnfenceBrokerRecord: _unfence_broker,
        records.BrokerRegistrationChangeRecord: _change_registration,
        records.RegisterControllerRecord: _register_controller,
        records.TopicRecord: _add_topic,
        records.RemoveTopicRecord: _remove_topic,
        records.PartitionRecord: _add_partition,
        records.PartitionChangeRecord: _change_partition,
        records.ClearElrRecord: _clear_eligible_leaders,
        records.ConfigRecord: _set_config,
        records.FeatureLevelRecord: _set_feature,
        records.ProducerIdsRecord: _set_producer_ids,
        records.NoOpRecord: _nothing,
        records.BeginTransactionRecord: _nothing,
        records.EndTransactionRecord: _nothing,
        records.AbortTransactionRecord: _nothing,
        records.ZkMigrationStateRecord: _set_zk_migration,
        security.AccessControlEntryRecord: _add_access_control,
        security.RemoveAccessControlEntryRecord: _remove_access_control,
        security.UserScramCredentialRecord: _set_scram,
        security.RemoveUserScramCredentialRecord: _remove_scram,
        security.DelegationTokenRecord: _set_token,
        security.RemoveDelegationTokenRecord: _remove_token,
        security.ClientQuotaRecord: _set_quota,
    }


def _nodes(ids: list[int] | tuple[int, ...]) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))


def _directories(given: Sequence[bytes], replicas: int) -> tuple[DirectoryId, ...]:
    """One for each replica, also where the level of the log has none: they are yet to be told."""
    if all(directory == MIGRATING_DIRECTORY for directory in given):
        return (MIGRATING_DIRECTORY,) * replicas
    return tuple(map(DirectoryId, given))


def _optional_directories(directories: list[bytes] | None) -> tuple[DirectoryId, ...] | None:
    return None if directories is None else tuple(map(DirectoryId, directories))


def _endpoints(points: list[records.BrokerEndpoint] | list[records.ControllerEndpoint]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(point.name, point.host, point.port, point.security_protocol) for point in points)


def _features(
    features: list[records.BrokerFeature] | list[records.ControllerFeature],
) -> tuple[SupportedFeature, ...]:
    """By name: they are a set, which Kafka writes in another order each time."""
    supported = (
        SupportedFeature(each.name, each.min_supported_version, each.max_supported_version) for each in features
    )
    return tuple(sorted(supported, key=lambda feature: feature.name))
