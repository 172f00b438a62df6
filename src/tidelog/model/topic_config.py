"""The configuration keys of a topic: what a partition on disk goes by.

Names, defaults and ranges are those of Apache Kafka 4.3. Every key here changes at run time, for one topic or, under its synonym,
for the whole cluster. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import LONG_MAX, ConfigKeys, UpdateMode, bool_key, int_key, list_key, long_key, string_key

_CHANGES = UpdateMode.CLUSTER_WIDE
DAY_MS = 24 * 60 * 60 * 1000

CLEANUP_POLICY = list_key(
    "cleanup.policy",
    ("delete",),
    choices=("compact", "delete"),
    synonym="log.cleanup.policy",
    update_mode=_CHANGES,
    doc="What happens to old records: `delete` drops segments by age and size, `compact` keeps the last record of every key.",
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
MESSAGE_TIMESTAMP_TYPE = string_key(
    "message.timestamp.type",
    "CreateTime",
    choices=("CreateTime", "LogAppendTime"),
    synonym="log.message.timestamp.type",
    update_mode=_CHANGES,
    doc="Whether a record keeps the time that its producer gave it, or gets the time at which it was appended.",
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

TOPIC_KEYS = ConfigKeys(
    [
        CLEANUP_POLICY,
        FILE_DELETE_DELAY_MS,
        FLUSH_MESSAGES,
        FLUSH_MS,
        INDEX_INTERVAL_BYTES,
        MESSAGE_TIMESTAMP_TYPE,
        PREALLOCATE,
        RETENTION_BYTES,
        RETENTION_MS,
        SEGMENT_BYTES,
        SEGMENT_INDEX_BYTES,
        SEGMENT_JITTER_MS,
        SEGMENT_MS,
    ]
)
