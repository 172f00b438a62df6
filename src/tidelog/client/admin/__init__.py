"""Administration of a Kafka cluster: `AsyncAdmin`, `Admin`, and the values that they take and give."""

from tidelog.client.admin.admin import Admin
from tidelog.client.admin.async_admin import AsyncAdmin
from tidelog.client.admin.cluster import (
    BrokerDescription,
    ClusterDescription,
    ElectionType,
    Feature,
    QuorumDescription,
    QuorumReplica,
    UpgradeType,
)
from tidelog.client.admin.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    ResourceKind,
)
from tidelog.client.admin.group_offsets import PartitionLag
from tidelog.client.admin.groups import GroupDescription, GroupListing, GroupMember, GroupState, GroupType
from tidelog.client.admin.log_dirs import LogDirDescription, ReplicaOnDisk
from tidelog.client.admin.options import AdminOptions
from tidelog.client.admin.outcomes import value_of
from tidelog.client.admin.raft_voters import RaftVoterEndpoint
from tidelog.client.admin.reassignments import PartitionReassignment
from tidelog.client.admin.records import HIGH_WATERMARK, ListedOffset, OffsetSpec
from tidelog.client.admin.topics import (
    BROKER_DEFAULT,
    CreatedTopic,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from tidelog.client.admin.transactions import (
    FencedProducer,
    OpenTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)

__all__ = [
    "BROKER_DEFAULT",
    "HIGH_WATERMARK",
    "Admin",
    "AdminOptions",
    "AsyncAdmin",
    "BrokerDescription",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "CreatedTopic",
    "ElectionType",
    "Feature",
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupState",
    "GroupType",
    "ListedOffset",
    "LogDirDescription",
    "NewTopic",
    "OffsetSpec",
    "OpenTransaction",
    "PartitionDescription",
    "PartitionLag",
    "PartitionReassignment",
    "ProducerState",
    "QuorumDescription",
    "QuorumReplica",
    "RaftVoterEndpoint",
    "ReplicaOnDisk",
    "ResourceKind",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpgradeType",
    "value_of",
]
