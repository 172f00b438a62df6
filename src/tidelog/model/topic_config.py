"""The configuration keys of a topic: what a partition on disk goes by, and what a broker asks of records before they get there.

Names, defaults and ranges are those of Apache Kafka 4.3. Every key here changes at run time, for one topic or, under its synonym
if it has one, for the whole cluster. Only keys that some code acts on are declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from tidelog.model.config import (
    LONG_MAX,
    ConfigKey,
    ConfigKeys,
    ConfigType,
    UpdateMode,
    bool_key,
    double_key,
    int_key,
    list_key,
    long_key,
    string_key,
)

_CHANGES = UpdateMode.CLUSTER_WIDE
DAY_MS = 24 * 60 * 60 * 1000
_REPLICA = re.compile("([0-9]{1,10}:[0-9]{1,10})?")


def _throttled_problem(name: str, listed: tuple[str, ...]) -> str | None:
    if "".join(listed) == "*" or all(_REPLICA.fullmatch(each) for each in listed):
        return None
    return (
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


CLEANUP_POLICY = list_key(
    "cleanup.policy",
    ("delete",),
    choices=("compact", "delete"),
    synonym="log.cleanup.policy",
    update_mode=_CHANGES,
    doc="What happens to old records: `delete` drops segments by age and size, `compact` keeps the last record of every key.",
)
COMPRESSION_GZIP_LEVEL = ConfigKey(
    "compression.gzip.level",
    ConfigType.INT,
    -1,
    "How hard the broker tries where it compresses with gzip itself; -1 for the codec's default.",
    _CHANGES,
    "compression.gzip.level",
    valid=lambda level: None if level == -1 or 1 <= level <= 9 else "Value must be between 1 and 9 or equal to -1",
)
COMPRESSION_LZ4_LEVEL = int_key(
    "compression.lz4.level",
    9,
    at_least=1,
    at_most=17,
    synonym="compression.lz4.level",
    update_mode=_CHANGES,
    doc="How hard the broker tries where it compresses with lz4 itself.",
)
COMPRESSION_TYPE = string_key(
    "compression.type",
    "producer",
    choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    synonym="compression.type",
    update_mode=_CHANGES,
    doc="How records are compressed on disk; `producer` keeps the producer's choice, anything else makes the broker recompress.",
)
COMPRESSION_ZSTD_LEVEL = int_key(
    "compression.zstd.level",
    3,
    at_least=-131072,
    at_most=22,
    synonym="compression.zstd.level",
    update_mode=_CHANGES,
    doc="How hard the broker tries where it compresses with zstd itself.",
)
DELETE_RETENTION_MS = long_key(
    "delete.retention.ms",
    DAY_MS,
    at_least=0,
    synonym="log.cleaner.delete.retention.ms",
    update_mode=_CHANGES,
    doc="How long a tombstone, or the marker of a transaction, stays after compaction has come across it: as long as a reader "
    "may take from the beginning of the log to its end without missing that a key was deleted.",
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = list_key(
    "follower.replication.throttled.replicas",
    (),
    update_mode=_CHANGES,
    valid=partial(_throttled_problem, "follower.replication.throttled.replicas"),
    doc="The replicas that catch up no faster than their broker's `follower.replication.throttled.rate`, each as "
    "partition:broker; or * for all of the topic.",
)
FILE_DELETE_DELAY_MS = long_key(
    "file.delete.delay.ms",
    60_000,
    at_least=0,
    synonym="log.segment.delete.delay.ms",
    update_mode=_CHANGES,
    doc="How long a file that is no longer part of the log stays on disk, for readers that still hold it.",
)
FLUSH_MESSAGES = long_key(
    "flush.messages",
    LONG_MAX,
    at_least=1,
    synonym="log.flush.interval.messages",
    update_mode=_CHANGES,
    doc="After how many records the log is forced to disk. By default that is left to the operating system and to replication.",
)
FLUSH_MS = long_key(
    "flush.ms",
    LONG_MAX,
    at_least=0,
    synonym="log.flush.interval.ms",
    update_mode=_CHANGES,
    doc="After how long the log is forced to disk. By default that is left to the operating system and to replication.",
)
INDEX_INTERVAL_BYTES = int_key(
    "index.interval.bytes",
    4096,
    at_least=0,
    synonym="log.index.interval.bytes",
    update_mode=_CHANGES,
    doc="How many bytes of log lie between two entries of the offset index.",
)
INTERNAL_SEGMENT_BYTES = int_key(
    "internal.segment.bytes",
    0,
    at_least=1,
    update_mode=_CHANGES,
    is_internal=True,
    doc="`segment.bytes` for tests: where it is set it goes before that one, and it may be smaller.",
)
LEADER_REPLICATION_THROTTLED_REPLICAS = list_key(
    "leader.replication.throttled.replicas",
    (),
    update_mode=_CHANGES,
    valid=partial(_throttled_problem, "leader.replication.throttled.replicas"),
    doc="The replicas of which, as long as they lead, others get no more than their broker's "
    "`leader.replication.throttled.rate`, each as partition:broker; or * for all of the topic.",
)
MAX_COMPACTION_LAG_MS = long_key(
    "max.compaction.lag.ms",
    LONG_MAX,
    at_least=1,
    synonym="log.cleaner.max.compaction.lag.ms",
    update_mode=_CHANGES,
    doc="How long a record may wait for compaction, whatever the dirty ratio is. An active segment that is older rolls.",
)
MAX_MESSAGE_BYTES = int_key(
    "max.message.bytes",
    1024 * 1024 + 12,
    at_least=0,
    synonym="message.max.bytes",
    update_mode=_CHANGES,
    doc="How large a record batch may be, as it is written to disk.",
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = long_key(
    "message.timestamp.after.max.ms",
    60 * 60 * 1000,
    at_least=0,
    synonym="log.message.timestamp.after.max.ms",
    update_mode=_CHANGES,
    doc="How far a record's own timestamp may lie ahead of the broker's clock. Without effect for LogAppendTime.",
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = long_key(
    "message.timestamp.before.max.ms",
    LONG_MAX,
    at_least=0,
    synonym="log.message.timestamp.before.max.ms",
    update_mode=_CHANGES,
    doc="How far a record's own timestamp may lie behind the broker's clock. Without effect for LogAppendTime.",
)
MESSAGE_TIMESTAMP_TYPE = string_key(
    "message.timestamp.type",
    "CreateTime",
    choices=("CreateTime", "LogAppendTime"),
    synonym="log.message.timestamp.type",
    update_mode=_CHANGES,
    doc="Whether a record keeps the time that its producer gave it, or gets the time at which it was appended.",
)
MIN_CLEANABLE_DIRTY_RATIO = double_key(
    "min.cleanable.dirty.ratio",
    0.5,
    at_least=0,
    at_most=1,
    synonym="log.cleaner.min.cleanable.ratio",
    update_mode=_CHANGES,
    doc="How much of a log, of what could be compacted, must be new before it is compacted again.",
)
MIN_COMPACTION_LAG_MS = long_key(
    "min.compaction.lag.ms",
    0,
    at_least=0,
    synonym="log.cleaner.min.compaction.lag.ms",
    update_mode=_CHANGES,
    doc="How long a record stays before compaction may touch it.",
)
MIN_INSYNC_REPLICAS = int_key(
    "min.insync.replicas",
    1,
    at_least=1,
    synonym="min.insync.replicas",
    update_mode=_CHANGES,
    doc="How many replicas must be in sync for a write with acks=all to be taken, and for written records to become readable.",
)
PREALLOCATE = bool_key(
    "preallocate",
    False,
    synonym="log.preallocate",
    update_mode=_CHANGES,
    doc="Whether a new segment gets all its bytes on disk at once.",
)
RETENTION_BYTES = long_key(
    "retention.bytes",
    -1,
    synonym="log.retention.bytes",
    update_mode=_CHANGES,
    doc="How large a partition may grow before old segments are deleted; -1 for no limit.",
)
RETENTION_MS = long_key(
    "retention.ms",
    7 * DAY_MS,
    at_least=-1,
    synonym="log.retention.ms",
    update_mode=_CHANGES,
    doc="How old a record may become before its segment is deleted; -1 for no limit.",
)
SEGMENT_BYTES = int_key(
    "segment.bytes",
    1024 * 1024 * 1024,
    at_least=1024 * 1024,
    synonym="log.segment.bytes",
    update_mode=_CHANGES,
    doc="How large one file of the log may grow.",
)
SEGMENT_INDEX_BYTES = int_key(
    "segment.index.bytes",
    10 * 1024 * 1024,
    at_least=4,
    synonym="log.index.size.max.bytes",
    update_mode=_CHANGES,
    doc="How large the index of one file may grow. The active one is preallocated to this size and trimmed when it is full.",
)
SEGMENT_JITTER_MS = long_key(
    "segment.jitter.ms",
    0,
    at_least=0,
    synonym="log.roll.jitter.ms",
    update_mode=_CHANGES,
    doc="By how much at most a roll by time is brought forward at random, so that partitions do not all roll at once.",
)
SEGMENT_MS = long_key(
    "segment.ms",
    7 * DAY_MS,
    at_least=1,
    synonym="log.roll.ms",
    update_mode=_CHANGES,
    doc="After how long the log rolls to a new file even if the present one is not full.",
)
UNCLEAN_LEADER_ELECTION_ENABLE = bool_key(
    "unclean.leader.election.enable",
    False,
    synonym="unclean.leader.election.enable",
    update_mode=_CHANGES,
    doc="Whether a replica that is not in sync may lead where no other can, at the price of the records that it lacks.",
)


def compaction_lag_problem(own: Mapping[str, str]) -> str | None:
    """What is wrong with the two limits on the wait for compaction together, in Kafka's words."""
    least, most = (
        key.parse(own[key.name]) if key.name in own else key.default
        for key in (MIN_COMPACTION_LAG_MS, MAX_COMPACTION_LAG_MS)
    )
    if least <= most:
        return None
    return (
        f"conflict topic config setting {MIN_COMPACTION_LAG_MS.name} ({least}) > {MAX_COMPACTION_LAG_MS.name} ({most})"
    )


TOPIC_KEYS = ConfigKeys(
    [
        CLEANUP_POLICY,
        COMPRESSION_GZIP_LEVEL,
        COMPRESSION_LZ4_LEVEL,
        COMPRESSION_TYPE,
        COMPRESSION_ZSTD_LEVEL,
        DELETE_RETENTION_MS,
        FILE_DELETE_DELAY_MS,
        FLUSH_MESSAGES,
        FLUSH_MS,
        FOLLOWER_REPLICATION_THROTTLED_REPLICAS,
        INDEX_INTERVAL_BYTES,
        LEADER_REPLICATION_THROTTLED_REPLICAS,
        MAX_COMPACTION_LAG_MS,
        MAX_MESSAGE_BYTES,
        MESSAGE_TIMESTAMP_AFTER_MAX_MS,
        MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
        MESSAGE_TIMESTAMP_TYPE,
        MIN_CLEANABLE_DIRTY_RATIO,
        MIN_COMPACTION_LAG_MS,
        MIN_INSYNC_REPLICAS,
        PREALLOCATE,
        RETENTION_BYTES,
        RETENTION_MS,
        INTERNAL_SEGMENT_BYTES,
        SEGMENT_BYTES,
        SEGMENT_INDEX_BYTES,
        SEGMENT_JITTER_MS,
        SEGMENT_MS,
        UNCLEAN_LEADER_ELECTION_ENABLE,
    ]
)
