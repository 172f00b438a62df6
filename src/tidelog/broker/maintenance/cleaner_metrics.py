"""The log cleaner as it is watched: Kafka's LogCleaner and LogCleanerManager, and what compaction has done so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.broker.maintenance.log_cleaner import LogCleaner
from tidelog.model.metrics import Kind, Reading, Registry
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory


def register_log_cleaner(registry: Registry, cleaner: LogCleaner, directories: LogDirectories) -> None:
    """What is read of the cleaner when somebody asks."""
    gauge, counted = registry.gauge, registry.counted
    prefix = "kafka_log_log_cleaner_"
    gauge(
        prefix + "max_buffer_utilization_percent",
        "How full the map of the last cleaning was.",
        lambda: int(100 * cleaner.last_stats.map_utilization),
    )
    gauge(
        prefix + "cleaner_recopy_percent",
        "How much of what the last cleaning read was written again.",
        lambda: int(100 * cleaner.last_stats.bytes_written / max(cleaner.last_stats.bytes_read, 1)),
    )
    gauge(
        prefix + "max_clean_time_secs",
        "How long the last cleaning took.",
        lambda: cleaner.last_stats.elapsed_ms // 1000,
    )
    gauge(
        prefix + "max_compaction_delay_secs",
        "By how much max.compaction.lag.ms was exceeded in the worst case.",
        lambda: cleaner.max_delay_ms // 1000,
    )
    gauge(
        prefix + "last_clean_timestamp",
        "When a log was last cleaned, in milliseconds since 1970; 0 for never.",
        lambda: cleaner.last_clean_ms,
    )
    counted(prefix + "bytes_read_total", "Bytes of logs that cleanings have read.", lambda: cleaner.bytes_read)
    counted(prefix + "bytes_written_total", "Bytes of logs that they have written.", lambda: cleaner.bytes_written)
    registry.family(
        Kind.COUNTER,
        prefix + "cleanings_total",
        "Cleanings of logs, by how they ended.",
        ("outcome",),
        lambda: [((end.name.lower(),), count) for end, count in cleaner.cleanings.items()],
    )
    prefix = "kafka_log_log_cleaner_manager_"
    gauge(
        prefix + "max_dirty_percent",
        "The share of dirty bytes in the dirtiest log.",
        lambda: int(100 * cleaner.max_dirty_ratio),
    )
    gauge(
        prefix + "time_since_last_run_ms",
        "How long ago the cleaner last looked for work.",
        lambda: cleaner.ms_since_last_look,
    )
    for name, help_text, read in (
        (
            "uncleanable_partitions_count",
            "Logs that cannot be cleaned, and why is in the node's log.",
            lambda directory: len(cleaner.uncleanable_of(directory)),
        ),
        ("uncleanable_bytes", "What would have been cleaned in them.", cleaner.uncleanable_bytes_of),
    ):
        registry.family(Kind.GAUGE, prefix + name, help_text, ("log_directory",), _by_directory(directories, read))


def _by_directory(directories: LogDirectories, read: Callable[[LogDirectory], int]) -> Callable[[], Iterable[Reading]]:
    return lambda: [((directory.path,), read(directory)) for directory in directories]
