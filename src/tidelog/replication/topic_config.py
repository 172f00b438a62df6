"""What a partition goes by: what storage reads of a topic's configuration, and what a leader asks of records before that.

Immutable. A change of configuration is another `TopicConfig`, handed to `Partition.reconfigure`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from tidelog.model import topic_config as keys
from tidelog.model.config import LONG_MAX, ConfigValues
from tidelog.replication.throttled_replicas import NONE_THROTTLED, ThrottledReplicas
from tidelog.storage.log_config import LogConfig
from tidelog.wire.compression import Compression
from tidelog.wire.record_batch import TimestampType

# compression.type in the words of the wire. `producer` names no codec: it is whatever the producer chose.
_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_LEVELS = {
    Compression.GZIP: keys.COMPRESSION_GZIP_LEVEL,
    Compression.LZ4: keys.COMPRESSION_LZ4_LEVEL,
    Compression.ZSTD: keys.COMPRESSION_ZSTD_LEVEL,
}


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective values of one topic. Names are Kafka's, with underscores."""

    log: LogConfig = field(default_factory=LogConfig)
    max_message_bytes: int = keys.MAX_MESSAGE_BYTES.default
    min_insync_replicas: int = keys.MIN_INSYNC_REPLICAS.default
    message_timestamp_before_max_ms: int = keys.MESSAGE_TIMESTAMP_BEFORE_MAX_MS.default
    message_timestamp_after_max_ms: int = keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS.default
    leader_throttled_replicas: ThrottledReplicas = NONE_THROTTLED
    follower_throttled_replicas: ThrottledReplicas = NONE_THROTTLED
    codec: Compression | None = None
    """What `compression.type` asks for; None for `producer`."""
    compression_level: int | None = None
    """Of `codec`; None where it has no levels."""
    # Asked of every batch, so decided once.
    needs_keys: bool = field(init=False)
    keeps_create_time: bool = field(init=False)
    """Whether records keep the time that their producer gave them, so that it has to be looked at."""
    bounds_age: bool = field(init=False)
    """Whether a record may be too old. A batch's header knows its newest record only."""
    takes_batches_as_they_are: bool = field(init=False)
    """Whether no setting of this topic requires a valid batch to be decoded or changed."""
    batch_bytes_max: int = field(init=False)
    """The smaller of `max.message.bytes` and `segment.bytes`: a larger batch is refused."""

    def __post_init__(self) -> None:
        decide = object.__setattr__
        decide(self, "needs_keys", self.log.compacts)
        decide(self, "keeps_create_time", self.log.message_timestamp_type is TimestampType.CREATE_TIME)
        decide(self, "bounds_age", self.message_timestamp_before_max_ms != LONG_MAX)
        is_plain = not self.needs_keys and self.codec is None and self.keeps_create_time and not self.bounds_age
        decide(self, "takes_batches_as_they_are", is_plain)
        decide(self, "batch_bytes_max", min(self.max_message_bytes, self.log.segment_bytes))

    @classmethod
    def from_values(cls, values: ConfigValues) -> Self:
        """The configuration that a topic's parsed keys give."""
        codec = _CODECS.get(values[keys.COMPRESSION_TYPE])
        level = None if codec is None else _LEVELS.get(codec)
        return cls(
            log=LogConfig.from_values(values),
            max_message_bytes=values[keys.MAX_MESSAGE_BYTES],
            min_insync_replicas=values[keys.MIN_INSYNC_REPLICAS],
            message_timestamp_before_max_ms=values[keys.MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
            message_timestamp_after_max_ms=values[keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS],
            leader_throttled_replicas=ThrottledReplicas.parse(values[keys.LEADER_REPLICATION_THROTTLED_REPLICAS]),
            follower_throttled_replicas=ThrottledReplicas.parse(values[keys.FOLLOWER_REPLICATION_THROTTLED_REPLICAS]),
            codec=codec,
            compression_level=None if level is None else values[level],
        )
