"""The configuration keys of a broker for streams groups (KIP-1071): what a group goes by that says nothing, bounds for others.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKeys, UpdateMode, int_key

GROUP_STREAMS_SESSION_TIMEOUT_MS = int_key(
    "group.streams.session.timeout.ms",
    45_000,
    at_least=1,
    doc="How long a member of a streams group may be silent before it is removed, where the group does not say.",
)
GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS = int_key(
    "group.streams.min.session.timeout.ms",
    45_000,
    at_least=1,
    doc="The shortest session that a streams group may be configured to have.",
)
GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS = int_key(
    "group.streams.max.session.timeout.ms",
    60_000,
    at_least=1,
    doc="The longest session that a streams group may be configured to have.",
)
GROUP_STREAMS_HEARTBEAT_INTERVAL_MS = int_key(
    "group.streams.heartbeat.interval.ms",
    5_000,
    at_least=1,
    doc="How often a member of a streams group sends a heartbeat, where the group does not say.",
)
GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS = int_key(
    "group.streams.min.heartbeat.interval.ms",
    5_000,
    at_least=1,
    doc="The shortest interval of heartbeats that a streams group may be configured to have.",
)
GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS = int_key(
    "group.streams.max.heartbeat.interval.ms",
    15_000,
    at_least=1,
    doc="The longest interval of heartbeats that a streams group may be configured to have.",
)
GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS = int_key(
    "group.streams.assignment.interval.ms",
    1_000,
    at_least=0,
    update_mode=UpdateMode.CLUSTER_WIDE,
    doc="How much time lies at least between two assignments of a streams group, where the group does not say.",
)
GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS = int_key(
    "group.streams.min.assignment.interval.ms",
    0,
    at_least=0,
    doc="The shortest interval of assignments that a streams group may be configured to have.",
)
GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS = int_key(
    "group.streams.max.assignment.interval.ms",
    15_000,
    at_least=0,
    doc="The longest interval of assignments that a streams group may be configured to have.",
)
GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS = int_key(
    "group.streams.initial.rebalance.delay.ms",
    3_000,
    at_least=0,
    doc="How long a new streams group waits for more members before its first assignment, where the group does not say.",
)
GROUP_STREAMS_MAX_SIZE = int_key(
    "group.streams.max.size",
    2_147_483_647,
    at_least=1,
    doc="How many members a streams group has at most.",
)
GROUP_STREAMS_NUM_STANDBY_REPLICAS = int_key(
    "group.streams.num.standby.replicas",
    0,
    at_least=0,
    doc="How many copies of a task's state a streams group keeps ready elsewhere, where the group does not say.",
)
GROUP_STREAMS_MAX_STANDBY_REPLICAS = int_key(
    "group.streams.max.standby.replicas",
    2,
    at_least=0,
    doc="The highest number of copies that a streams group may be configured to keep.",
)

STREAMS_GROUP_KEYS = ConfigKeys(
    [
        GROUP_STREAMS_SESSION_TIMEOUT_MS,
        GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS,
        GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS,
        GROUP_STREAMS_HEARTBEAT_INTERVAL_MS,
        GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS,
        GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS,
        GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS,
        GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS,
        GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS,
        GROUP_STREAMS_INITIAL_REBALANCE_DELAY_MS,
        GROUP_STREAMS_MAX_SIZE,
        GROUP_STREAMS_NUM_STANDBY_REPLICAS,
        GROUP_STREAMS_MAX_STANDBY_REPLICAS,
    ]
)
