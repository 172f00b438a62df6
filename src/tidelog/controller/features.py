"""Feature levels: what a cluster has agreed to use, and what that means for the records it writes.

`metadata.version` is the level of the metadata log itself. A controller writes each record in the version that the agreed level
gives, never in the newest that it knows, so that every node of the cluster, Apache Kafka's included, can read it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from tidelog.wire.messages.internal.cluster_metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from tidelog.wire.schema import MetadataRecord

METADATA_VERSION = "metadata.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"


class FeatureRange(Struct, frozen=True):
    """The levels of one feature that this release can work at."""

    lowest: int
    highest: int


# 3.7-IV2 is the first level with directory ids in partitions; below it the log would have to be written without them.
SUPPORTED: Mapping[str, FeatureRange] = {
    METADATA_VERSION: FeatureRange(17, 30),
    "kraft.version": FeatureRange(0, 1),
    "transaction.version": FeatureRange(0, 2),
    "group.version": FeatureRange(0, 1),
    ELIGIBLE_LEADER_REPLICAS_VERSION: FeatureRange(0, 1),
    "share.version": FeatureRange(0, 1),
    "streams.version": FeatureRange(0, 1),
}

# What a newly formatted cluster starts with: the levels of Apache Kafka 4.3.
BOOTSTRAP_LEVELS: Mapping[str, int] = {
    METADATA_VERSION: 30,
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}

# The names of metadata.version's levels, as Kafka's tools show and take them.
METADATA_VERSION_NAMES: Mapping[int, str] = {
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}

_ELIGIBLE_LEADER_REPLICAS = 23
_CORDONED_DIRECTORIES = 30


def record_version(record: type[MetadataRecord], metadata_version: int) -> int:
    """The version in which a cluster at this metadata.version writes a record."""
    if record is RegisterBrokerRecord:
        return 4 if metadata_version >= _CORDONED_DIRECTORIES else 3
    if record is BrokerRegistrationChangeRecord:
        return 3 if metadata_version >= _CORDONED_DIRECTORIES else 2
    if record is PartitionRecord or record is PartitionChangeRecord:
        return 2 if metadata_version >= _ELIGIBLE_LEADER_REPLICAS else 1
    return 0


def unsupported_reason(name: str, level: int) -> str | None:
    """Why this release cannot be part of a cluster with this feature level, or None if it can."""
    if level == 0 and name != METADATA_VERSION:
        # Level 0 is how a feature is switched off, also one that this release has never heard of.
        return None
    supported = SUPPORTED.get(name)
    if supported is None:
        return f"the cluster uses feature {name} at level {level}, which this release does not know"
    if not supported.lowest <= level <= supported.highest:
        return f"the cluster uses {name} at level {level}; this release works with {supported.lowest} to {supported.highest}"
    return None
