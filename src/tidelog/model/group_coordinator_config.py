"""The configuration keys of a broker's group coordinator.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKey, ConfigKeys, ConfigType, UpdateMode, int_key, list_key, long_key, string_key

_PROTOCOLS = frozenset({"classic", "consumer", "share", "streams"})
_MIGRATION_POLICIES = ("disabled", "upgrade", "downgrade", "bidirectional")


def _migration_policy_problem(text: str) -> str | None:
    # Kafka does not mind the letter case of this one.
    return None if text.lower() in _MIGRATION_POLICIES else f"value must be one of {', '.join(_MIGRATION_POLICIES)}"


def _protocols_problem(protocols: tuple[str, ...]) -> str | None:
    named = {each.lower() for each in protocols}
    if not named <= _PROTOCOLS:
        return f"each value must be one of {', '.join(sorted(_PROTOCOLS))}"
    return None if "classic" in named else "the classic protocol cannot be disabled"


GROUP_COORDINATOR_REBALANCE_PROTOCOLS = list_key(
    "group.coordinator.rebalance.protocols",
    ("classic", "consumer", "streams"),
    valid=_protocols_problem,
    doc="Which protocols members of groups may use, beside what the cluster's `group.version` allows.",
)
GROUP_MIN_SESSION_TIMEOUT_MS = int_key(
    "group.min.session.timeout.ms",
    6_000,
    doc="The shortest session that a member of a classic group may ask for.",
)
GROUP_MAX_SESSION_TIMEOUT_MS = int_key(
    "group.max.session.timeout.ms",
    1_800_000,
    doc="The longest session that a member of a classic group may ask for.",
)
GROUP_INITIAL_REBALANCE_DELAY_MS = int_key(
    "group.initial.rebalance.delay.ms",
    3_000,
    doc="How long a new classic group waits for more members before it shares out partitions for the first time.",
)
GROUP_MAX_SIZE = int_key(
    "group.max.size",
    2_147_483_647,
    at_least=1,
    doc="How many members a classic group has at most.",
)
GROUP_CONSUMER_ASSIGNORS = list_key(
    "group.consumer.assignors",
    ("uniform", "range"),
    choices=("uniform", "range"),
    doc="The assignors that consumer groups may choose from: uniform and range. The first one is the default.",
)
GROUP_CONSUMER_MAX_SIZE = int_key(
    "group.consumer.max.size",
    2_147_483_647,
    at_least=1,
    doc="How many members a consumer group has at most.",
)
GROUP_CONSUMER_MIGRATION_POLICY = string_key(
    "group.consumer.migration.policy",
    "bidirectional",
    valid=_migration_policy_problem,
    doc="Whether a group with members may change from the classic protocol to the new one, back, both or neither.",
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS = int_key(
    "group.consumer.regex.refresh.interval.ms",
    600_000,
    at_least=10_000,
    is_internal=True,
    doc="How often the regular expressions that consumers subscribe by are looked up anew.",
)
GROUP_CONSUMER_SESSION_TIMEOUT_MS = int_key(
    "group.consumer.session.timeout.ms",
    45_000,
    at_least=1,
    doc="How long a member of a consumer group may be silent before it is removed, where the group does not say.",
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = int_key(
    "group.consumer.min.session.timeout.ms",
    45_000,
    at_least=1,
    doc="The shortest session that a consumer group may be configured to have.",
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = int_key(
    "group.consumer.max.session.timeout.ms",
    60_000,
    at_least=1,
    doc="The longest session that a consumer group may be configured to have.",
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = int_key(
    "group.consumer.heartbeat.interval.ms",
    5_000,
    at_least=1,
    doc="How often a member of a consumer group sends a heartbeat, where the group does not say.",
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = int_key(
    "group.consumer.min.heartbeat.interval.ms",
    5_000,
    at_least=1,
    doc="The shortest interval of heartbeats that a consumer group may be configured to have.",
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = int_key(
    "group.consumer.max.heartbeat.interval.ms",
    15_000,
    at_least=1,
    doc="The longest interval of heartbeats that a consumer group may be configured to have.",
)
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = int_key(
    "group.consumer.assignment.interval.ms",
    1_000,
    at_least=0,
    update_mode=UpdateMode.CLUSTER_WIDE,
    doc="How much time lies at least between two assignments of a consumer group, where the group does not say.",
)
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = int_key(
    "group.consumer.min.assignment.interval.ms",
    0,
    at_least=0,
    doc="The shortest interval of assignments that a consumer group may be configured to have.",
)
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = int_key(
    "group.consumer.max.assignment.interval.ms",
    15_000,
    at_least=0,
    doc="The longest interval of assignments that a consumer group may be configured to have.",
)
OFFSETS_TOPIC_NUM_PARTITIONS = int_key(
    "offsets.topic.num.partitions",
    50,
    at_least=1,
    doc="How many partitions the topic of committed offsets is created with. It should not change after that.",
)
OFFSETS_TOPIC_REPLICATION_FACTOR: ConfigKey[int] = ConfigKey(
    "offsets.topic.replication.factor",
    ConfigType.SHORT,
    3,
    at_least=1,
    doc="How many replicas the topic of committed offsets is created with. It is not created before there are so many brokers.",
)
OFFSETS_TOPIC_SEGMENT_BYTES = int_key(
    "offsets.topic.segment.bytes",
    100 * 1024 * 1024,
    at_least=1,
    doc="The size of a segment of the topic of committed offsets.",
)
OFFSETS_TOPIC_COMPRESSION_CODEC = int_key(
    "offsets.topic.compression.codec",
    0,
    at_least=0,
    at_most=4,
    doc="How the records of committed offsets are compressed: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
)
OFFSETS_COMMIT_TIMEOUT_MS = int_key(
    "offsets.commit.timeout.ms",
    5_000,
    at_least=1,
    doc="How long what a group coordinator writes may take to reach all in-sync replicas.",
)
OFFSETS_LOAD_BUFFER_SIZE = int_key(
    "offsets.load.buffer.size",
    5 * 1024 * 1024,
    at_least=1,
    doc="How much of the committed offsets is read at a time when a partition of them is loaded.",
)
OFFSETS_RETENTION_MINUTES = int_key(
    "offsets.retention.minutes",
    10_080,
    at_least=1,
    doc="How long the offsets of a group without members, or of topics that nobody is subscribed to, are kept.",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = long_key(
    "offsets.retention.check.interval.ms",
    600_000,
    at_least=1,
    doc="How often it is looked for offsets that are kept no longer.",
)
OFFSET_METADATA_MAX_BYTES = int_key(
    "offset.metadata.max.bytes",
    4_096,
    doc="How long the text is at most that a consumer may commit beside an offset.",
)

GROUP_COORDINATOR_KEYS = ConfigKeys(
    [
        GROUP_COORDINATOR_REBALANCE_PROTOCOLS,
        GROUP_MIN_SESSION_TIMEOUT_MS,
        GROUP_MAX_SESSION_TIMEOUT_MS,
        GROUP_INITIAL_REBALANCE_DELAY_MS,
        GROUP_MAX_SIZE,
        GROUP_CONSUMER_ASSIGNORS,
        GROUP_CONSUMER_MAX_SIZE,
        GROUP_CONSUMER_MIGRATION_POLICY,
        GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS,
        GROUP_CONSUMER_SESSION_TIMEOUT_MS,
        GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
        GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
        GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
        GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
        GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
        GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
        OFFSETS_TOPIC_NUM_PARTITIONS,
        OFFSETS_TOPIC_REPLICATION_FACTOR,
        OFFSETS_TOPIC_SEGMENT_BYTES,
        OFFSETS_TOPIC_COMPRESSION_CODEC,
        OFFSETS_COMMIT_TIMEOUT_MS,
        OFFSETS_LOAD_BUFFER_SIZE,
        OFFSETS_RETENTION_MINUTES,
        OFFSETS_RETENTION_CHECK_INTERVAL_MS,
        OFFSET_METADATA_MAX_BYTES,
    ]
)
