"""One query while it runs: its progress, one report of Spark's after another, and how far behind it was over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.spark.pipelines.progress import QueryProgress, advance_progress
from tidelog.spark.watching.batch_report import read_report
from tidelog.spark.watching.lag_history import QueryHistory
from tidelog.spark.watching.log_ends import LogEnds


class QueryWatch:
    def __init__(self, progress: QueryProgress, history: QueryHistory) -> None:
        self.progress = progress
        self._history = history
        self._ends = LogEnds()
        seen = history.last_look
        if seen is not None:
            self._ends.look(*seen)

    @property
    def history(self) -> QueryHistory:
        """Of this run and earlier ones, with what the next one has to know."""
        return self._history.with_ends(self._ends.last)

    def take(self, report: Mapping[str, Any]) -> None:
        """One more report, as Spark's JSON has it. Each once, in their order."""
        read = read_report(report)
        self.progress = advance_progress(self.progress, report, read, self._ends)
        self._history = self._history.with_batch(read, self.progress.lag_ms)
