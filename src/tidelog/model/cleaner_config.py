"""The configuration keys of the log cleaner, which compacts. Those of a topic are in `topic_config`.

Names, defaults and ranges are those of Apache Kafka 4.3. All but `log.cleaner.enable` change at run time.
"""

from __future__ import annotations

import sys

from tidelog.model.config import ConfigKeys, UpdateMode, bool_key, double_key, int_key, long_key

_CHANGES = UpdateMode.CLUSTER_WIDE

LOG_CLEANER_ENABLE = bool_key(
    "log.cleaner.enable",
    True,
    doc="Whether topics with the policy `compact` are compacted. Without it they, and the internal topics among them, only grow.",
)
LOG_CLEANER_THREADS = int_key(
    "log.cleaner.threads",
    1,
    at_least=0,
    update_mode=_CHANGES,
    doc="How many logs are compacted at the same time. They share the buffers.",
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = long_key(
    "log.cleaner.dedupe.buffer.size",
    128 * 1024 * 1024,
    update_mode=_CHANGES,
    doc="How much memory the maps from keys to offsets may take, together. It is taken only while logs are compacted.",
)
LOG_CLEANER_DEDUPE_BUFFER_LOAD_FACTOR = double_key(
    "log.cleaner.io.buffer.load.factor",
    0.9,
    update_mode=_CHANGES,
    doc="How full such a map may become, from 0 to 1, before a log is compacted in more than one round.",
)
LOG_CLEANER_IO_BUFFER_SIZE = int_key(
    "log.cleaner.io.buffer.size",
    512 * 1024,
    at_least=0,
    update_mode=_CHANGES,
    doc="How much is read and written at a time, by all compactions together.",
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = double_key(
    "log.cleaner.io.max.bytes.per.second",
    sys.float_info.max,
    update_mode=_CHANGES,
    doc="How many bytes a second compactions may read and write on average.",
)
LOG_CLEANER_BACKOFF_MS = long_key(
    "log.cleaner.backoff.ms",
    15_000,
    at_least=0,
    update_mode=_CHANGES,
    doc="How long the cleaner waits before it looks again when no log was due.",
)

CLEANER_KEYS = ConfigKeys(
    [
        LOG_CLEANER_ENABLE,
        LOG_CLEANER_THREADS,
        LOG_CLEANER_DEDUPE_BUFFER_SIZE,
        LOG_CLEANER_DEDUPE_BUFFER_LOAD_FACTOR,
        LOG_CLEANER_IO_BUFFER_SIZE,
        LOG_CLEANER_IO_MAX_BYTES_PER_SECOND,
        LOG_CLEANER_BACKOFF_MS,
    ]
)
