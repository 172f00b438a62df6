"""What a node does by the clock: retention, files to remove, flushes that are due, checkpoints, producers to forget."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model import broker_config as keys
from tidelog.model.bugs import Housekeeping
from tidelog.model.config import LONG_MAX, ConfigValues
from tidelog.model.timers import Timer, Timers
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directories import LogDirectories
from tidelog.storage.log_directory import LogDirectory

_LATEST_MS = 24 * 60 * 60 * 1000

# How much longer than `file.delete.delay.ms` the files of a deleted segment or topic may stay.
REMOVAL_INTERVAL_MS = 1_000


class Upkeep:
    """Runs until `stop`. A directory that fails under it is told so by storage, and left out from then on."""

    def __init__(
        self,
        directories: LogDirectories,
        timers: Timers,
        config: ConfigValues,
        housekeeping: Housekeeping | None = None,
    ) -> None:
        self._directories = directories
        self._housekeeping = housekeeping or Housekeeping()
        self._timers = timers
        self._running: dict[str, Timer] = {}
        self._is_stopped = False
        self._every("retention", config[keys.LOG_RETENTION_CHECK_INTERVAL_MS], LogDirectory.apply_retention)
        self._every("removals", REMOVAL_INTERVAL_MS, lambda directory: directory.removals.run_due())
        self._every("flush", config[keys.LOG_FLUSH_SCHEDULER_INTERVAL_MS], LogDirectory.flush_due)
        self._every(
            "recovery points", config[keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS], LogDirectory.save_recovery_points
        )
        self._every(
            "log starts",
            config[keys.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS],
            LogDirectory.save_log_start_offsets,
        )
        self._every(
            "high watermarks",
            config[keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS],
            LogDirectory.save_high_watermarks,
        )
        self._every("producers", config[keys.PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS], LogDirectory.expire_producers)

    def stop(self) -> None:
        self._is_stopped = True
        for timer in self._running.values():
            timer.cancel()

    def _every(self, name: str, interval_ms: int, work: Callable[[LogDirectory], object]) -> None:
        if interval_ms == LONG_MAX or interval_ms <= 0:
            return

        def due() -> None:
            if self._is_stopped:
                return
            for directory in self._directories.online:
                try:
                    work(directory)
                except StorageError:
                    # Reported by the directory itself, which is offline now; the others go on.
                    continue
                except Exception as error:  # noqa: BLE001 - counted and logged
                    self._housekeeping.failed(name, error)
            self._running[name] = self._timers.after(min(interval_ms, _LATEST_MS), due)

        self._running[name] = self._timers.after(min(interval_ms, _LATEST_MS), due)
