"""The configuration keys of a broker's share coordinator, which keeps the state of share partitions.

Names, defaults and ranges are those of Apache Kafka 4.3. Only keys that some code acts on are declared.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKey, ConfigKeys, ConfigType, int_key

STATE_TOPIC_NUM_PARTITIONS = int_key(
    "share.coordinator.state.topic.num.partitions",
    50,
    at_least=1,
    doc="How many partitions __share_group_state gets. They cannot be changed once it is there.",
)
STATE_TOPIC_REPLICATION_FACTOR: ConfigKey[int] = ConfigKey(
    "share.coordinator.state.topic.replication.factor",
    ConfigType.SHORT,
    3,
    at_least=1,
    doc="How many replicas __share_group_state gets. It is not created before there are as many brokers.",
)
STATE_TOPIC_MIN_ISR: ConfigKey[int] = ConfigKey(
    "share.coordinator.state.topic.min.isr",
    ConfigType.SHORT,
    2,
    at_least=1,
    doc="How many replicas of __share_group_state must have a record before it counts: its min.insync.replicas.",
)
STATE_TOPIC_SEGMENT_BYTES = int_key(
    "share.coordinator.state.topic.segment.bytes",
    104_857_600,
    at_least=1,
    doc="The size of the segments of __share_group_state.",
)
STATE_TOPIC_COMPRESSION_CODEC = int_key(
    "share.coordinator.state.topic.compression.codec",
    0,
    at_least=0,
    at_most=4,
    doc="How the records of share partitions' state are compressed: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
)
SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT = int_key(
    "share.coordinator.snapshot.update.records.per.snapshot",
    500,
    at_least=0,
    at_most=500,
    doc="After how many updates the state of a share partition is written as a whole.",
)
WRITE_TIMEOUT_MS = int_key(
    "share.coordinator.write.timeout.ms",
    5_000,
    at_least=1,
    doc="How long what a share coordinator writes may take to reach all in-sync replicas.",
)
LOAD_BUFFER_SIZE = int_key(
    "share.coordinator.load.buffer.size",
    5_242_880,
    at_least=1,
    doc="How many bytes of __share_group_state are read at a time by a broker that becomes a coordinator.",
)
STATE_TOPIC_PRUNE_INTERVAL_MS = int_key(
    "share.coordinator.state.topic.prune.interval.ms",
    300_000,
    at_least=1,
    is_internal=True,
    doc="How often what no state needs any more is deleted from the start of __share_group_state.",
)
COLD_PARTITION_SNAPSHOT_INTERVAL_MS = int_key(
    "share.coordinator.cold.partition.snapshot.interval.ms",
    300_000,
    at_least=1,
    is_internal=True,
    doc="How old the last snapshot of a share partition may be before another is written.",
)

SHARE_COORDINATOR_KEYS = ConfigKeys(
    [
        STATE_TOPIC_NUM_PARTITIONS,
        STATE_TOPIC_REPLICATION_FACTOR,
        STATE_TOPIC_MIN_ISR,
        STATE_TOPIC_SEGMENT_BYTES,
        STATE_TOPIC_COMPRESSION_CODEC,
        SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT,
        WRITE_TIMEOUT_MS,
        LOAD_BUFFER_SIZE,
        STATE_TOPIC_PRUNE_INTERVAL_MS,
        COLD_PARTITION_SNAPSHOT_INTERVAL_MS,
    ]
)
