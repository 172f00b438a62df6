"""How a coordinator of groups works, as the broker's configuration says."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct


class MigrationPolicy(StrEnum):
    """Which way a group may change its protocol while it has members (`group.consumer.migration.policy`)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in {MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL}

    @property
    def allows_downgrade(self) -> bool:
        return self in {MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL}


class ConsumerGroupLimits(Struct, frozen=True):
    """What one group of the new protocol goes by: its own configuration over the broker's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class ShareGroupLimits(Struct, frozen=True):
    """What the members of one share group go by: its own configuration over the broker's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class StreamsGroupLimits(Struct, frozen=True):
    """What the members of one streams group go by: its own configuration over the broker's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    num_standby_replicas: int = 0


def is_assignment_due(last_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the last target assignment is old enough: changes that come in a burst share one. 0: there was none."""
    return not last_ms or not interval_ms or now_ms >= last_ms + interval_ms


class GroupSettings(Struct, frozen=True):
    """The keys of the broker that concern groups, in their order in Kafka's documentation."""

    # group.*
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    # group.consumer.*
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_max_size: int = 2_147_483_647
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    consumer_regex_refresh_interval_ms: int = 600_000
    consumer_limits_of: Callable[[str], ConsumerGroupLimits] = lambda _group_id: ConsumerGroupLimits()
    # group.share.*
    share_max_size: int = 200
    share_initialise_retry_interval_ms: int = 30_000
    share_limits_of: Callable[[str], ShareGroupLimits] = lambda _group_id: ShareGroupLimits()
    # group.streams.*
    streams_max_size: int = 2_147_483_647
    streams_limits_of: Callable[[str], StreamsGroupLimits] = lambda _group_id: StreamsGroupLimits()
    # offset*.*
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
