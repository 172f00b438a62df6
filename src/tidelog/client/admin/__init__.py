"""Administration of a Kafka cluster: `AsyncAdmin`, `Admin`, and the values that they take and give."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.client.admin.acls import EVERY_ACL, AclBinding, AclBindingFilter
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
    from tidelog.client.admin.delegation_tokens import DelegationToken
    from tidelog.client.admin.group_offsets import PartitionLag
    from tidelog.client.admin.groups import GroupDescription, GroupListing, GroupMember, GroupState, GroupType
    from tidelog.client.admin.log_dirs import LogDirDescription, ReplicaOnDisk
    from tidelog.client.admin.options import AdminOptions
    from tidelog.client.admin.outcomes import value_of
    from tidelog.client.admin.quotas import QUOTA_DEFAULT, QuotaEntity
    from tidelog.client.admin.raft_voters import RaftVoterEndpoint
    from tidelog.client.admin.reassignments import PartitionReassignment
    from tidelog.client.admin.records import HIGH_WATERMARK, ListedOffset, OffsetSpec
    from tidelog.client.admin.scram import (
        ScramCredentialInfo,
        UserScramDeletion,
        UserScramUpsertion,
    )
    from tidelog.client.admin.share_groups import SharePosition
    from tidelog.client.admin.streams_groups import (
        StreamsGroupDescription,
        StreamsInternalTopic,
        StreamsMember,
        StreamsSubtopology,
        StreamsTasks,
    )
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
        PinnedTransaction,
        ProducerState,
        TransactionDescription,
        TransactionListing,
        TransactionState,
    )
    from tidelog.model.acl import AclOperation, PatternType, PermissionType, ResourceType
    from tidelog.security.sasl.scram_credential import ScramMechanism

__all__ = [
    "BROKER_DEFAULT",
    "EVERY_ACL",
    "HIGH_WATERMARK",
    "QUOTA_DEFAULT",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
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
    "DelegationToken",
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
    "PatternType",
    "PermissionType",
    "PinnedTransaction",
    "ProducerState",
    "QuorumDescription",
    "QuorumReplica",
    "QuotaEntity",
    "RaftVoterEndpoint",
    "ReplicaOnDisk",
    "ResourceKind",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramMechanism",
    "SharePosition",
    "StreamsGroupDescription",
    "StreamsInternalTopic",
    "StreamsMember",
    "StreamsSubtopology",
    "StreamsTasks",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "UpgradeType",
    "UserScramDeletion",
    "UserScramUpsertion",
    "value_of",
]

# Who has one family of calls to make must not pay for all: each module is imported when it is first asked for.
_MODULES = {
    "AclBinding": "acls",
    "AclBindingFilter": "acls",
    "AclOperation": "acls",
    "EVERY_ACL": "acls",
    "PatternType": "acls",
    "PermissionType": "acls",
    "ResourceType": "acls",
    "Admin": "admin",
    "AdminOptions": "options",
    "AsyncAdmin": "async_admin",
    "BROKER_DEFAULT": "topics",
    "BrokerDescription": "cluster",
    "ClusterDescription": "cluster",
    "ConfigChange": "configs",
    "ConfigEntry": "configs",
    "ConfigOperation": "configs",
    "ConfigResource": "configs",
    "ConfigSource": "configs",
    "ConfigSynonym": "configs",
    "ConfigType": "configs",
    "CreatedTopic": "topics",
    "DelegationToken": "delegation_tokens",
    "ElectionType": "cluster",
    "Feature": "cluster",
    "FencedProducer": "transactions",
    "GroupDescription": "groups",
    "GroupListing": "groups",
    "GroupMember": "groups",
    "GroupState": "groups",
    "GroupType": "groups",
    "HIGH_WATERMARK": "records",
    "ListedOffset": "records",
    "LogDirDescription": "log_dirs",
    "NewTopic": "topics",
    "OffsetSpec": "records",
    "OpenTransaction": "transactions",
    "PinnedTransaction": "transactions",
    "PartitionDescription": "topics",
    "PartitionLag": "group_offsets",
    "PartitionReassignment": "reassignments",
    "ProducerState": "transactions",
    "QUOTA_DEFAULT": "quotas",
    "QuorumDescription": "cluster",
    "QuorumReplica": "cluster",
    "QuotaEntity": "quotas",
    "RaftVoterEndpoint": "raft_voters",
    "ReplicaOnDisk": "log_dirs",
    "ResourceKind": "configs",
    "ScramCredentialInfo": "scram",
    "ScramMechanism": "scram",
    "SharePosition": "share_groups",
    "StreamsGroupDescription": "streams_groups",
    "StreamsInternalTopic": "streams_groups",
    "StreamsMember": "streams_groups",
    "StreamsSubtopology": "streams_groups",
    "StreamsTasks": "streams_groups",
    "TopicDescription": "topics",
    "TopicListing": "topics",
    "TransactionDescription": "transactions",
    "TransactionListing": "transactions",
    "TransactionState": "transactions",
    "UpgradeType": "cluster",
    "UserScramDeletion": "scram",
    "UserScramUpsertion": "scram",
    "value_of": "outcomes",
}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
