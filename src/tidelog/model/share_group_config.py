"""The configuration keys of a broker for share groups (KIP-932): what a group goes by that says nothing, bounds for the others.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKeys, UpdateMode, int_key

GROUP_SHARE_SESSION_TIMEOUT_MS = int_key(
    "group.share.session.timeout.ms",
    45_000,
    at_least=1,
    doc="How long a member of a share group may be silent before it is removed, where the group does not say.",
)
GROUP_SHARE_MIN_SESSION_TIMEOUT_MS = int_key(
    "group.share.min.session.timeout.ms",
    45_000,
    at_least=1,
    doc="The shortest session that a share group may be configured to have.",
)
GROUP_SHARE_MAX_SESSION_TIMEOUT_MS = int_key(
    "group.share.max.session.timeout.ms",
    60_000,
    at_least=1,
    doc="The longest session that a share group may be configured to have.",
)
GROUP_SHARE_HEARTBEAT_INTERVAL_MS = int_key(
    "group.share.heartbeat.interval.ms",
    5_000,
    at_least=1,
    doc="How often a member of a share group sends a heartbeat, where the group does not say.",
)
GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS = int_key(
    "group.share.min.heartbeat.interval.ms",
    5_000,
    at_least=1,
    doc="The shortest interval of heartbeats that a share group may be configured to have.",
)
GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS = int_key(
    "group.share.max.heartbeat.interval.ms",
    15_000,
    at_least=1,
    doc="The longest interval of heartbeats that a share group may be configured to have.",
)
GROUP_SHARE_ASSIGNMENT_INTERVAL_MS = int_key(
    "group.share.assignment.interval.ms",
    1_000,
    at_least=0,
    update_mode=UpdateMode.CLUSTER_WIDE,
    doc="How much time lies at least between two assignments of a share group, where the group does not say.",
)
GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS = int_key(
    "group.share.min.assignment.interval.ms",
    0,
    at_least=0,
    doc="The shortest interval of assignments that a share group may be configured to have.",
)
GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS = int_key(
    "group.share.max.assignment.interval.ms",
    15_000,
    at_least=0,
    doc="The longest interval of assignments that a share group may be configured to have.",
)
GROUP_SHARE_MAX_SIZE = int_key(
    "group.share.max.size",
    200,
    at_least=1,
    at_most=1_000,
    doc="How many members a share group has at most.",
)
GROUP_SHARE_INITIALIZE_RETRY_INTERVAL_MS = int_key(
    "group.share.initialize.retry.interval.ms",
    30_000,
    at_least=1,
    is_internal=True,
    doc="After how long without an answer the share coordinator is asked again to begin the state of a partition.",
)
GROUP_SHARE_MAX_SHARE_SESSIONS = int_key(
    "group.share.max.share.sessions",
    2000,
    at_least=1,
    doc="How many sessions of members of share groups a broker keeps.",
)
GROUP_SHARE_RECORD_LOCK_DURATION_MS = int_key(
    "group.share.record.lock.duration.ms",
    30_000,
    at_least=1_000,
    at_most=3_600_000,
    doc="How long a member of a share group may keep a record, where the group does not say.",
)
GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS = int_key(
    "group.share.min.record.lock.duration.ms",
    15_000,
    at_least=1_000,
    at_most=30_000,
    doc="The shortest time for a record that a share group may be configured to have.",
)
GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS = int_key(
    "group.share.max.record.lock.duration.ms",
    60_000,
    at_least=30_000,
    at_most=3_600_000,
    doc="The longest time for a record that a share group may be configured to have.",
)
GROUP_SHARE_DELIVERY_COUNT_LIMIT = int_key(
    "group.share.delivery.count.limit",
    5,
    at_least=2,
    at_most=10,
    doc="How often a share group is given the same record, where the group does not say.",
)
GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT = int_key(
    "group.share.min.delivery.count.limit",
    2,
    at_least=2,
    at_most=5,
    doc="The lowest limit of deliveries that a share group may be configured to have.",
)
GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT = int_key(
    "group.share.max.delivery.count.limit",
    10,
    at_least=5,
    at_most=25,
    doc="The highest limit of deliveries that a share group may be configured to have.",
)
GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS = int_key(
    "group.share.partition.max.record.locks",
    2_000,
    at_least=100,
    at_most=10_000,
    doc="How many records of one partition a share group may have in hand, where the group does not say.",
)
GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS = int_key(
    "group.share.min.partition.max.record.locks",
    100,
    at_least=100,
    at_most=2_000,
    doc="The lowest limit of records in hand that a share group may be configured to have.",
)
GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS = int_key(
    "group.share.max.partition.max.record.locks",
    4_000,
    at_least=2_000,
    at_most=10_000,
    doc="The highest limit of records in hand that a share group may be configured to have.",
)

SHARE_GROUP_KEYS = ConfigKeys(
    [
        GROUP_SHARE_SESSION_TIMEOUT_MS,
        GROUP_SHARE_MIN_SESSION_TIMEOUT_MS,
        GROUP_SHARE_MAX_SESSION_TIMEOUT_MS,
        GROUP_SHARE_HEARTBEAT_INTERVAL_MS,
        GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS,
        GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS,
        GROUP_SHARE_ASSIGNMENT_INTERVAL_MS,
        GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS,
        GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS,
        GROUP_SHARE_MAX_SIZE,
        GROUP_SHARE_INITIALIZE_RETRY_INTERVAL_MS,
        GROUP_SHARE_MAX_SHARE_SESSIONS,
        GROUP_SHARE_RECORD_LOCK_DURATION_MS,
        GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS,
        GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS,
        GROUP_SHARE_DELIVERY_COUNT_LIMIT,
        GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT,
        GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT,
        GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS,
        GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS,
        GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS,
    ]
)
