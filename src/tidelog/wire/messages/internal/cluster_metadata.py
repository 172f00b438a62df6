"""Records of `__cluster_metadata`: nodes, topics, partitions, configuration, features and the log's own transactions.

RegisterBroker: v1 controlled shutdown · v2 migration from ZooKeeper · v3 log directories · v4 cordoned directories
BrokerRegistrationChange: v1 controlled shutdown · v2 log directories · v3 cordoned directories
Partition, PartitionChange: v1 directories (KIP-858) · v2 eligible leader replicas (KIP-966)
"""

from tidelog.wire.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    MetadataRecord,
    String,
    Struct,
    UInt16,
    Uuid,
    since,
    tagged,
)


class BrokerEndpoint(Struct):
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


class BrokerFeature(Struct):
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class RegisterBrokerRecord(MetadataRecord, api_key=0, versions="0-4", flexible="0+"):
    broker_id: Int32
    is_migrating_zk_broker: Bool = since(2, default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: Array[BrokerEndpoint]
    features: Array[BrokerFeature]
    rack: String | None
    fenced: Bool = True
    in_controlled_shutdown: Bool = since(1, default=False)
    log_dirs: Array[Uuid] = tagged(0, 3, default=[])
    cordoned_log_dirs: Array[Uuid] | None = tagged(1, 4, default=None)


class UnregisterBrokerRecord(MetadataRecord, api_key=1, versions="0", flexible="0+"):
    broker_id: Int32
    broker_epoch: Int64


class FenceBrokerRecord(MetadataRecord, api_key=7, versions="0", flexible="0+"):
    id: Int32
    epoch: Int64


class UnfenceBrokerRecord(MetadataRecord, api_key=8, versions="0", flexible="0+"):
    id: Int32
    epoch: Int64


class BrokerRegistrationChangeRecord(MetadataRecord, api_key=17, versions="0-3", flexible="0+"):
    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = tagged(0, 0, default=0)
    in_controlled_shutdown: Int8 = tagged(1, 1, default=0)
    log_dirs: Array[Uuid] = tagged(2, 2, default=[])
    cordoned_log_dirs: Array[Uuid] | None = tagged(3, 3, default=None)


class ControllerEndpoint(Struct):
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


class ControllerFeature(Struct):
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class RegisterControllerRecord(MetadataRecord, api_key=27, versions="0", flexible="0+"):
    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: Array[ControllerEndpoint]
    features: Array[ControllerFeature]


class TopicRecord(MetadataRecord, api_key=2, versions="0", flexible="0+"):
    name: String
    topic_id: Uuid


class RemoveTopicRecord(MetadataRecord, api_key=9, versions="0", flexible="0+"):
    topic_id: Uuid


class PartitionRecord(MetadataRecord, api_key=3, versions="0-2", flexible="0+"):
    partition_id: Int32 = -1
    topic_id: Uuid
    replicas: Array[Int32]
    isr: Array[Int32]
    removing_replicas: Array[Int32]
    adding_replicas: Array[Int32]
    leader: Int32 = -1
    leader_recovery_state: Int8 = tagged(0, 0, default=0)
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Array[Uuid] = since(1)
    eligible_leader_replicas: Array[Int32] | None = tagged(1, 2, default=None)
    last_known_elr: Array[Int32] | None = tagged(2, 2, default=None)


class PartitionChangeRecord(MetadataRecord, api_key=5, versions="0-2", flexible="0+"):
    partition_id: Int32 = -1
    topic_id: Uuid
    isr: Array[Int32] | None = tagged(0, 0, default=None)
    leader: Int32 = tagged(1, 0, default=-2)
    replicas: Array[Int32] | None = tagged(2, 0, default=None)
    removing_replicas: Array[Int32] | None = tagged(3, 0, default=None)
    adding_replicas: Array[Int32] | None = tagged(4, 0, default=None)
    leader_recovery_state: Int8 = tagged(5, 0, default=-1)
    directories: Array[Uuid] | None = tagged(8, 1, default=None)
    eligible_leader_replicas: Array[Int32] | None = tagged(6, 2, default=None)
    last_known_elr: Array[Int32] | None = tagged(7, 2, default=None)


class ClearElrRecord(MetadataRecord, api_key=28, versions="0", flexible="0+"):
    topic_name: String


class ConfigRecord(MetadataRecord, api_key=4, versions="0", flexible="0+"):
    resource_type: Int8
    resource_name: String
    name: String
    value: String | None


class FeatureLevelRecord(MetadataRecord, api_key=12, versions="0", flexible="0+"):
    name: String
    feature_level: Int16


class ProducerIdsRecord(MetadataRecord, api_key=15, versions="0", flexible="0+"):
    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


class NoOpRecord(MetadataRecord, api_key=20, versions="0", flexible="0+"):
    pass


class BeginTransactionRecord(MetadataRecord, api_key=23, versions="0", flexible="0+"):
    name: String | None = tagged(0, 0, default=None)


class EndTransactionRecord(MetadataRecord, api_key=24, versions="0", flexible="0+"):
    pass


class AbortTransactionRecord(MetadataRecord, api_key=25, versions="0", flexible="0+"):
    reason: String | None = tagged(0, 0, default=None)


class ZkMigrationStateRecord(MetadataRecord, api_key=21, versions="0", flexible="0+"):
    zk_migration_state: Int8
