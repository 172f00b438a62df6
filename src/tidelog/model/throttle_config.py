"""The configuration keys that bound what moving replicas may take: between brokers, and between the disks of one.

Names, defaults and ranges are those of Apache Kafka 4.3. The rates are meant to be set at run time, for one broker or for all;
which replicas they hold for is the topic's configuration.
"""

from __future__ import annotations

from tidelog.model.config import LONG_MAX, ConfigKeys, UpdateMode, int_key, long_key

_CHANGES = UpdateMode.CLUSTER_WIDE

LEADER_REPLICATION_THROTTLED_RATE = long_key(
    "leader.replication.throttled.rate",
    LONG_MAX,
    at_least=0,
    update_mode=_CHANGES,
    doc="How many bytes a second a leader sends of the partitions in `leader.replication.throttled.replicas`, to followers "
    "that are not in sync.",
)
FOLLOWER_REPLICATION_THROTTLED_RATE = long_key(
    "follower.replication.throttled.rate",
    LONG_MAX,
    at_least=0,
    update_mode=_CHANGES,
    doc="How many bytes a second a follower asks for of the partitions in `follower.replication.throttled.replicas`, where it "
    "is not in sync.",
)
REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND = long_key(
    "replica.alter.log.dirs.io.max.bytes.per.second",
    LONG_MAX,
    at_least=0,
    update_mode=_CHANGES,
    doc="How many bytes a second are copied where replicas move between the log directories of this broker.",
)
REPLICATION_QUOTA_WINDOW_NUM = int_key(
    "replication.quota.window.num", 11, at_least=1, doc="Over how many windows the rate of replication is averaged."
)
REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = int_key(
    "replication.quota.window.size.seconds", 1, at_least=1, doc="How long each of these windows is."
)
ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM = int_key(
    "alter.log.dirs.replication.quota.window.num",
    11,
    at_least=1,
    doc="Over how many windows the rate between log directories is averaged.",
)
ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS = int_key(
    "alter.log.dirs.replication.quota.window.size.seconds", 1, at_least=1, doc="How long each of these windows is."
)

THROTTLE_KEYS = ConfigKeys(
    [
        LEADER_REPLICATION_THROTTLED_RATE,
        FOLLOWER_REPLICATION_THROTTLED_RATE,
        REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND,
        REPLICATION_QUOTA_WINDOW_NUM,
        REPLICATION_QUOTA_WINDOW_SIZE_SECONDS,
        ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM,
        ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS,
    ]
)

# Kafka tells of these where somebody has set them, and of no default.
SHOWN_WHEN_SET = frozenset(
    key.name
    for key in (
        LEADER_REPLICATION_THROTTLED_RATE,
        FOLLOWER_REPLICATION_THROTTLED_RATE,
        REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND,
    )
)
