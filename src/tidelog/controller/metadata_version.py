"""The levels of `metadata.version`: in which version each record is written, and what a cluster at a level can do.

Facts of Apache Kafka 4.3, whose MetadataVersion they follow: 7 (3.3-IV3) to 30 (4.3-IV0). A controller writes each record in the
version that the agreed level gives, never in the newest that it knows, so that every node of the cluster can read it. What a
level has no field for is neither written nor decided on.
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

FEATURE_NAME = "metadata.version"


class MetadataVersion(Struct, frozen=True):
    """One level. Whoever asks what it can do asks by name; no other module compares numbers."""

    level: int
    name: str
    """As Kafka's tools show and take it."""
    adds_metadata: bool
    """Whether the level brought records or fields: below it the log could not say all that it says."""
    register_broker: int
    registration_change: int
    """The newest version of BrokerRegistrationChange. Each is written in the first that can say it."""
    partition: int
    """Of Partition and of PartitionChange, which grew together."""
    fetch: int
    """The version in which followers fetch."""
    list_offsets: int
    """The version in which followers ask where their leader's log begins and ends."""

    def record_version(self, record: type[MetadataRecord]) -> int:
        """The version in which a record is written; that of a change of registration is its newest."""
        if record is RegisterBrokerRecord:
            return self.register_broker
        if record is BrokerRegistrationChangeRecord:
            return self.registration_change
        if record is PartitionRecord or record is PartitionChangeRecord:
            return self.partition
        return 0

    @property
    def has_zk_migration(self) -> bool:
        """KIP-866."""
        return self.level >= 8

    @property
    def has_scram(self) -> bool:
        """SCRAM credentials in the metadata (KIP-900)."""
        return self.level >= 11

    @property
    def bumps_leader_epoch_on_shrink(self) -> bool:
        """Whether a smaller in-sync set begins a leader epoch: brokers of older releases need it."""
        return self.level < 12

    @property
    def has_transactions(self) -> bool:
        """Transactions in the metadata log (KIP-868)."""
        return self.level >= 13

    @property
    def has_delegation_tokens(self) -> bool:
        """Delegation tokens in the metadata (KIP-900)."""
        return self.level >= 14

    @property
    def has_controller_registration(self) -> bool:
        """KIP-919."""
        return self.level >= 15

    @property
    def has_directories(self) -> bool:
        """Log directories in registrations and partitions (KIP-858): several for a broker, and one of them may fail."""
        return self.level >= 17

    @property
    def has_eligible_leader_replicas(self) -> bool:
        """Fields for KIP-966. Whether they are used is another feature's to say."""
        return self.level >= 23

    @property
    def has_cordoned_directories(self) -> bool:
        """Log directories that are closed to new replicas (KIP-1066)."""
        return self.level >= 30

    def loses_metadata(self, target: MetadataVersion) -> bool:
        """Whether the way down to a lower level could drop what the log says."""
        return any(METADATA_VERSIONS[each].adds_metadata for each in range(target.level + 1, self.level + 1))


# level, name, adds metadata | RegisterBroker, BrokerRegistrationChange, Partition and PartitionChange | Fetch, ListOffsets
_TABLE = (
    (7, "3.3-IV3", True, 1, 1, 0, 13, 7),
    (8, "3.4-IV0", True, 2, 1, 0, 13, 7),
    (9, "3.5-IV0", False, 2, 1, 0, 14, 8),
    (10, "3.5-IV1", False, 2, 1, 0, 15, 8),
    (11, "3.5-IV2", True, 2, 1, 0, 15, 8),
    (12, "3.6-IV0", False, 2, 1, 0, 15, 8),
    (13, "3.6-IV1", True, 2, 1, 0, 15, 8),
    (14, "3.6-IV2", True, 2, 1, 0, 15, 8),
    (15, "3.7-IV0", True, 2, 1, 0, 15, 8),
    (16, "3.7-IV1", False, 2, 1, 0, 15, 8),
    (17, "3.7-IV2", True, 3, 2, 1, 15, 8),
    (18, "3.7-IV3", False, 3, 2, 1, 15, 8),
    (19, "3.7-IV4", False, 3, 2, 1, 16, 8),
    (20, "3.8-IV0", False, 3, 2, 1, 16, 8),
    (21, "3.9-IV0", False, 3, 2, 1, 17, 9),
    (22, "4.0-IV0", False, 3, 2, 1, 17, 9),
    (23, "4.0-IV1", True, 3, 2, 2, 17, 9),
    (24, "4.0-IV2", False, 3, 2, 2, 17, 9),
    (25, "4.0-IV3", False, 3, 2, 2, 17, 10),
    (26, "4.1-IV0", False, 3, 2, 2, 17, 10),
    (27, "4.1-IV1", False, 3, 2, 2, 18, 10),
    (28, "4.2-IV0", False, 3, 2, 2, 18, 10),
    (29, "4.2-IV1", False, 3, 2, 2, 18, 11),
    (30, "4.3-IV0", True, 4, 3, 2, 18, 11),
)

METADATA_VERSIONS: Mapping[int, MetadataVersion] = {row[0]: MetadataVersion(*row) for row in _TABLE}
OLDEST = METADATA_VERSIONS[min(METADATA_VERSIONS)]
NEWEST = METADATA_VERSIONS[max(METADATA_VERSIONS)]


def of_release(text: str) -> MetadataVersion | None:
    """The level that a release is named for: "3.7-IV2", or "3.7", "3.7.x" and "3.7.1" for the last one of that release."""
    parts = text.split(".")
    wanted = text if len(parts) <= 2 else ".".join(parts[:2])
    found = None
    for each in METADATA_VERSIONS.values():
        if wanted in {each.name, each.name.partition("-")[0]}:
            found = each
    return found
