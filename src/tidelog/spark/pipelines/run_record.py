"""What a run of a pipeline leaves in its checkpoint: how far its queries are, after each batch, and over time, now and then."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tidelog.model.clock import Clock
from tidelog.spark.pipelines.checkpoint_files import CheckpointFiles
from tidelog.spark.pipelines.progress import (
    PipelineProgress,
    read_history,
    write_history,
    write_progress,
)
from tidelog.spark.watching.lag_history import PipelineHistory, QueryHistory

log = logging.getLogger(__name__)

# It is for pictures: nobody misses the last seconds of a run that was killed.
_HISTORY_INTERVAL_MS = 10_000


class RunRecord:
    """Of one pipeline. Close it when its queries have ended."""

    def __init__(self, files: CheckpointFiles | None, clock: Clock) -> None:
        """Without files nothing is left, and nothing known of earlier runs."""
        self._files = files
        self._clock = clock
        self._history_kept_ms = clock.monotonic_ms()
        self._known = {} if files is None else _known(files)

    def history_of(self, query: str) -> QueryHistory:
        """As earlier runs have left it."""
        return self._known.get(query) or QueryHistory(query=query)

    def keep(self, progress: PipelineProgress, histories: Iterable[QueryHistory]) -> None:
        if self._files is None:
            return
        write_progress(self._files, progress)
        now_ms = self._clock.monotonic_ms()
        is_running = any(each.state == "running" for each in progress.queries)
        if not is_running or now_ms - self._history_kept_ms >= _HISTORY_INTERVAL_MS:
            self._history_kept_ms = now_ms
            write_history(self._files, PipelineHistory(tuple(histories)))

    def close(self) -> None:
        if self._files is not None:
            self._files.close()


def _known(files: CheckpointFiles) -> dict[str, QueryHistory]:
    try:
        left = read_history(files)
    except OSError as error:
        log.warning("what earlier runs have left cannot be read: %s", error)
        left = None
    return {} if left is None else dict(left.by_query)
