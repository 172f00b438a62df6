"""Whether Spark has started a stage of a job again, because rows that it had made were lost with a worker.

    watch = StageWatch(spark, group)            before the job
    watch.has_repeated(stages)                  once it has ended

All stages count that the group's jobs have run meanwhile, and not the last one alone: what a stage in the middle has read may be
of two computations too. Spark keeps an account of so many jobs and stages (`spark.ui.retainedJobs`, `spark.ui.retainedStages`); a
stage that it does not have any more is taken for one that was run once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long Spark's own account of its stages may take to come up to date.
_EVENTS_TIMEOUT_MS = 10_000


class StageWatch:
    """Of the jobs of one group that begin from now on."""

    def __init__(self, spark: SparkSession, group: str) -> None:
        self._context = spark.sparkContext
        self._group = group
        self._before = self._jobs()

    def has_repeated(self, stages: Iterable[int]) -> bool:
        """Whether a stage has had more than one attempt: one of these, which are known to have run, or any other."""
        # Spark's account follows what happens by some milliseconds.
        self._context._jsc.sc().listenerBus().waitUntilEmpty(_EVENTS_TIMEOUT_MS)  # noqa: SLF001 - there is no other way to wait
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in sorted(self._jobs() - self._before)]
        ran = {*stages, *(stage for job in jobs if job is not None for stage in job.stageIds)}
        infos = [tracker.getStageInfo(each) for each in sorted(ran)]
        return any(each is not None and each.currentAttemptId > 0 for each in infos)

    def _jobs(self) -> set[int]:
        return set(self._context.statusTracker().getJobIdsForGroup(self._group))
