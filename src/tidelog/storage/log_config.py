"""What a partition on disk goes by: the effective values of a topic's configuration, as storage reads them.

Immutable. A change of configuration is another `LogConfig`, handed to `PartitionLog.reconfigure`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from random import Random
from typing import Self

from tidelog.model import topic_config as keys
from tidelog.model.config import ConfigValues
from tidelog.wire.record_batch import TimestampType

# Positions in a segment are int32 in the offset index, so no byte of a segment may lie beyond.
SEGMENT_BYTES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Names are Kafka's, with underscores. -1 for `retention_bytes` and `retention_ms` means without limit."""

    segment_bytes: int = keys.SEGMENT_BYTES.default
    segment_ms: int = keys.SEGMENT_MS.default
    segment_jitter_ms: int = keys.SEGMENT_JITTER_MS.default
    segment_index_bytes: int = keys.SEGMENT_INDEX_BYTES.default
    index_interval_bytes: int = keys.INDEX_INTERVAL_BYTES.default
    flush_messages: int = keys.FLUSH_MESSAGES.default
    flush_ms: int = keys.FLUSH_MS.default
    retention_bytes: int = keys.RETENTION_BYTES.default
    retention_ms: int = keys.RETENTION_MS.default
    file_delete_delay_ms: int = keys.FILE_DELETE_DELAY_MS.default
    preallocate: bool = keys.PREALLOCATE.default
    cleanup_policy: tuple[str, ...] = keys.CLEANUP_POLICY.default
    min_cleanable_dirty_ratio: float = keys.MIN_CLEANABLE_DIRTY_RATIO.default
    min_compaction_lag_ms: int = keys.MIN_COMPACTION_LAG_MS.default
    max_compaction_lag_ms: int = keys.MAX_COMPACTION_LAG_MS.default
    delete_retention_ms: int = keys.DELETE_RETENTION_MS.default
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    roll_ms: int = field(init=False)
    """After how long the active segment rolls: it is never compacted, so that a limit on the wait for that is one on this."""

    def __post_init__(self) -> None:
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)
        if not 0 < self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise ValueError(f"segment_bytes is {self.segment_bytes}; it must be from 1 to {SEGMENT_BYTES_MAX}")

    @classmethod
    def from_values(cls, values: ConfigValues) -> Self:
        """The configuration that a topic's parsed keys give."""
        append_time = values[keys.MESSAGE_TIMESTAMP_TYPE] == "LogAppendTime"
        return cls(
            segment_bytes=values[keys.INTERNAL_SEGMENT_BYTES] or values[keys.SEGMENT_BYTES],
            segment_ms=values[keys.SEGMENT_MS],
            segment_jitter_ms=values[keys.SEGMENT_JITTER_MS],
            segment_index_bytes=values[keys.SEGMENT_INDEX_BYTES],
            index_interval_bytes=values[keys.INDEX_INTERVAL_BYTES],
            flush_messages=values[keys.FLUSH_MESSAGES],
            flush_ms=values[keys.FLUSH_MS],
            retention_bytes=values[keys.RETENTION_BYTES],
            retention_ms=values[keys.RETENTION_MS],
            file_delete_delay_ms=values[keys.FILE_DELETE_DELAY_MS],
            preallocate=values[keys.PREALLOCATE],
            cleanup_policy=values[keys.CLEANUP_POLICY],
            min_cleanable_dirty_ratio=values[keys.MIN_CLEANABLE_DIRTY_RATIO],
            min_compaction_lag_ms=values[keys.MIN_COMPACTION_LAG_MS],
            max_compaction_lag_ms=values[keys.MAX_COMPACTION_LAG_MS],
            delete_retention_ms=values[keys.DELETE_RETENTION_MS],
            message_timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
        )

    @property
    def deletes(self) -> bool:
        """Whether records are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether the last record of every key is kept; gaps between offsets are then normal."""
        return "compact" in self.cleanup_policy

    def roll_jitter_ms(self, random: Random) -> int:
        """By how much one segment's roll by time is brought forward."""
        most = min(self.segment_jitter_ms, self.roll_ms)
        return random.randrange(most) if most > 0 else 0

    def changed(self, **values: object) -> Self:
        """The same configuration with other values for some keys."""
        return dataclasses.replace(self, **values)  # type: ignore[arg-type]  # the keyword names are checked at run time
