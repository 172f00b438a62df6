"""The records that a snapshot of an image consists of: replayed on an empty image they give the same one again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidelog.controller.cluster_view import has_eligible_leader_replicas
from tidelog.controller.features import METADATA_VERSION
from tidelog.controller.image import BrokerRegistration, ClusterImage, Endpoint, SupportedFeature, Topic
from tidelog.controller.metadata_version import MetadataVersion
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal import cluster_metadata as records, cluster_security as security
from tidelog.wire.schema import MetadataRecord


def image_records(image: ClusterImage) -> Iterator[FramedRecord]:
    """Every record of a snapshot, in the version that the image's metadata.version asks for.

    The order is Kafka's: features first, since they decide how all else is read, metadata.version before the others. What that
    level has no record or field for is left out; a log that was written by the rules has nothing of it, since no level that adds
    metadata can be left again.
    """
    version = image.metadata_version
    for record in _records(image, version):
        yield FramedRecord(record, version.record_version(type(record)))


def _records(image: ClusterImage, version: MetadataVersion) -> Iterator[MetadataRecord]:
    for name, level in sorted(image.features.items(), key=lambda item: (item[0] != METADATA_VERSION, item[0])):
        yield records.FeatureLevelRecord(name=name, feature_level=level)
    for broker in image.brokers.values():
        yield _broker(broker, version)
    for controller in image.controllers.values() if version.has_controller_registration else ():
        yield records.RegisterControllerRecord(
            controller_id=controller.node_id,
            incarnation_id=controller.incarnation_id,
            zk_migration_ready=controller.zk_migration_ready,
            end_points=[records.ControllerEndpoint(**_endpoint(point)) for point in controller.endpoints],
            features=[records.ControllerFeature(**_feature(feature)) for feature in controller.features],
        )
    for topic in image.topics.values():
        yield from _topic(topic, version, has_elr=has_eligible_leader_replicas(image))
    for resource, values in image.configs.items():
        for name, value in values.items():
            yield records.ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    yield from _quotas(image)
    if image.next_producer_id > 0:
        yield records.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from _security(image, version)
    if image.zk_migration_state and version.has_zk_migration:
        yield records.ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state)


def _broker(broker: BrokerRegistration, version: MetadataVersion) -> records.RegisterBrokerRecord:
    cordoned = broker.cordoned_directories if version.has_cordoned_directories else None
    return records.RegisterBrokerRecord(
        broker_id=broker.node_id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker and version.has_zk_migration,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[records.BrokerEndpoint(**_endpoint(point)) for point in broker.endpoints],
        features=[records.BrokerFeature(**_feature(feature)) for feature in broker.features],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_directories) if version.has_directories else [],
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def _topic(topic: Topic, version: MetadataVersion, *, has_elr: bool) -> Iterator[MetadataRecord]:
    yield records.TopicRecord(name=topic.name, topic_id=topic.topic_id)
    is_elr_kept = has_elr and version.has_eligible_leader_replicas
    for index, partition in topic.partitions.items():
        yield records.PartitionRecord(
            partition_id=index,
            topic_id=topic.topic_id,
            replicas=list(partition.replicas),
            isr=list(partition.isr),
            removing_replicas=list(partition.removing_replicas),
            adding_replicas=list(partition.adding_replicas),
            leader=partition.leader,
            leader_recovery_state=partition.leader_recovery,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            directories=list(partition.directories) if version.has_directories else [],
            eligible_leader_replicas=(list(partition.eligible_leader_replicas) or None) if is_elr_kept else None,
            last_known_elr=(list(partition.last_known_elr) or None) if is_elr_kept else None,
        )


def _quotas(image: ClusterImage) -> Iterator[MetadataRecord]:
    for entity, values in image.quotas.items():
        for key, value in values.items():
            parts = [security.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts]
            yield security.ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)


def _security(image: ClusterImage, version: MetadataVersion) -> Iterator[MetadataRecord]:
    for entry_id, entry in image.access_control.items():
        yield security.AccessControlEntryRecord(
            id=entry_id,
            resource_type=entry.resource_type,
            resource_name=entry.resource_name,
            pattern_type=entry.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission_type,
        )
    for (user, mechanism), credential in image.scram_credentials.items() if version.has_scram else ():
        yield security.UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
    for token_id, token in image.delegation_tokens.items() if version.has_delegation_tokens else ():
        yield security.DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issue_timestamp=token.issue_timestamp_ms,
            max_timestamp=token.max_timestamp_ms,
            expiration_timestamp=token.expiration_timestamp_ms,
            token_id=token_id,
        )


def _endpoint(point: Endpoint) -> dict[str, Any]:
    return {"name": point.name, "host": point.host, "port": point.port, "security_protocol": point.security_protocol}


def _feature(feature: SupportedFeature) -> dict[str, Any]:
    return {
        "name": feature.name,
        "min_supported_version": feature.lowest,
        "max_supported_version": feature.highest,
    }
