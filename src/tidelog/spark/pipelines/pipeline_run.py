"""Pipelines while they run: started together, followed, and stopped when one fails, all have caught up or a person says so.

A stop lets a batch that is under way come to its end, for a while: what it has written then counts at once, and no transaction
is left for the next run to clean up.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from pyspark.errors import PySparkException

from tidelog.model.clock import Clock, SystemClock
from tidelog.spark.connect_session import is_connect
from tidelog.spark.errors import LostTransactionError, OutputStoppedError
from tidelog.spark.pipelines.batch_accounts import QuerySinks
from tidelog.spark.pipelines.batch_writing import BatchWriting
from tidelog.spark.pipelines.checkpoint_files import checkpoint_settings, files_at
from tidelog.spark.pipelines.checkpoint_offsets import goes_on, is_in_step, topics_read
from tidelog.spark.pipelines.dead_letters_place import DeadLettersPlace
from tidelog.spark.pipelines.definition import AVAILABLE_NOW, Pipeline
from tidelog.spark.pipelines.errors import QueryFailedError, sentence_of
from tidelog.spark.pipelines.lineage.run_lineage import Lineage, RunLineage
from tidelog.spark.pipelines.output_upkeep import UpkeepTotals
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.progress import PipelineProgress, QueryProgress
from tidelog.spark.pipelines.query_plan import PlanForm, PlannedQuery, plan_pipeline
from tidelog.spark.pipelines.query_sinks import code_version, query_sinks
from tidelog.spark.pipelines.query_start import start_query
from tidelog.spark.pipelines.query_watch import QueryWatch
from tidelog.spark.pipelines.query_writing import ConnectWriting, begin_writing
from tidelog.spark.pipelines.row_steps import topics_in
from tidelog.spark.pipelines.run_record import RunRecord
from tidelog.spark.pipelines.sinks import ToTable
from tidelog.spark.pipelines.table_plan import one_reads
from tidelog.spark.watching.batch_report import whole_report
from tidelog.spark.watching.query_figures import State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

_POLL_S = 0.25
# A batch that takes longer than this is interrupted; the next run does it again.
_STOP_PATIENCE_MS = 30_000


@dataclass(slots=True)
class _Running:
    """One query that was started."""

    query: StreamingQuery
    watch: QueryWatch
    writing: BatchWriting | None = None
    """None where Spark's own sink writes."""
    lineage: RunLineage | None = None
    """None where nobody collects it."""
    seen: tuple[int, str] = (-1, "")
    """The last report that was counted."""

    @property
    def progress(self) -> QueryProgress:
        return self.watch.progress


@dataclass(slots=True)
class _RunningPipeline:
    pipeline: Pipeline
    checkpoint: str
    record: RunRecord
    queries: list[_Running] = field(default_factory=list)

    @property
    def progress(self) -> PipelineProgress:
        return PipelineProgress(
            pipeline=self.pipeline.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            queries=tuple(each.progress for each in self.queries),
        )


class PipelineRun:
    """The pipelines of one file in one session. `start`, then `follow` to the end."""

    def __init__(
        self,
        spark: SparkSession,
        file: PipelineFile,
        *,
        until_caught_up: bool = False,
        clock: Clock | None = None,
        lineage: Lineage | None = None,
    ) -> None:
        self._spark = spark
        self._file = file
        self._until_caught_up = until_caught_up
        self._clock = clock or SystemClock()
        self._lineage = lineage
        self._pipelines: list[_RunningPipeline] = []
        self._is_stopping = False

    @property
    def progress(self) -> list[PipelineProgress]:
        return [each.progress for each in self._pipelines]

    @property
    def queries(self) -> list[StreamingQuery]:
        """All that were started. Each pipeline has a session of its own, so that no `spark.streams` has all of them."""
        return [each.query for each in self._queries]

    def start(self) -> None:
        """Start every query. DefinitionError before any has started; QueryFailedError, and none runs, if one cannot start."""
        planned = [(each, self._planned(each)) for each in self._file.pipelines]
        try:
            for pipeline, queries in planned:
                checkpoint = self._file.checkpoint_of(pipeline)
                files = files_at(checkpoint, checkpoint_settings(pipeline.storage, pipeline.spark))
                running = _RunningPipeline(pipeline, checkpoint, RunRecord(files, self._clock))
                self._pipelines.append(running)
                for each in queries:
                    running.queries.append(self._started(running, each))
                self._keep(running)
        except BaseException:
            self._interrupt()
            with suppress(PySparkException, OSError):  # there is an error to tell already
                self._look()
            self._close()
            raise

    def follow(
        self,
        on_progress: Callable[[Sequence[PipelineProgress]], None],
        on_stopping: Callable[[], None] = lambda: None,
    ) -> None:
        """Until all queries have ended; told after each look that found news. QueryFailedError, and all stop, if one fails."""
        try:
            self._follow(on_progress, on_stopping)
        finally:
            self._close()

    def _follow(
        self, on_progress: Callable[[Sequence[PipelineProgress]], None], on_stopping: Callable[[], None]
    ) -> None:
        stop_by_ms: int | None = None
        waited_for: dict[int, tuple[int, str]] = {}
        while True:
            changed = self._look()
            if changed:
                on_progress(self.progress)
            failed = [each for each in self._queries if each.progress.state == "failed"]
            if failed:
                self._interrupt()
                self._look()
                on_progress(self.progress)
                raise QueryFailedError("; ".join(f"{each.progress.query}: {each.progress.error}" for each in failed))
            # By what was looked at and kept: a query that ends after the look is looked at once more.
            active = [each for each in self._queries if each.progress.state == "running"]
            if not active:
                return
            if self._is_stopping:
                now_ms = self._clock.monotonic_ms()
                if stop_by_ms is None:
                    on_stopping()
                    stop_by_ms = now_ms + _STOP_PATIENCE_MS
                    waited_for = {id(each): each.seen for each in active}
                for each in active:
                    if now_ms >= stop_by_ms or each.seen != waited_for[id(each)] or not _is_busy(each.query):
                        each.query.stop()
            with suppress(PySparkException):  # how it has failed is looked at above, with the others
                active[0].query.awaitTermination(_POLL_S)  # type: ignore[arg-type]  # seconds, also parts of one

    def stop(self) -> None:
        """Have `follow` end soon: safe in the handler of a signal."""
        self._is_stopping = True

    @property
    def _queries(self) -> list[_Running]:
        return [each for pipeline in self._pipelines for each in pipeline.queries]

    def _planned(self, pipeline: Pipeline) -> list[PlannedQuery]:
        """In the form in which the checkpoint was begun: Spark knows a source there by where the plan names it, and dead letters
        that were a query of their own stay one, since it and the pipeline's are not equally far. QueryFailedError where it cannot
        go on, or letters would be written twice."""
        if is_connect(self._spark):
            # Where the checkpoint is in another form Spark says so by itself: it counts its sources.
            return plan_pipeline(self._spark, pipeline)
        checkpoint = self._file.checkpoint_of(pipeline)
        letters = DeadLettersPlace(self._spark, f"{checkpoint}/{pipeline.dead_letters_query}")
        can_be_within = pipeline.has_dead_letters and pipeline.is_decided
        is_apart = can_be_within and letters.are_apart
        forms = [PlanForm(letters_apart=is_apart)]
        if can_be_within and not is_apart and not letters.are_within:
            # Dead letters that come to a pipeline which had none.
            forms.append(PlanForm(letters_apart=True))
        planned, form = self._fitting(pipeline, f"{checkpoint}/{pipeline.name}", forms)
        is_apart = form.letters_apart
        if len(planned) > 1 and letters.are_within:
            raise QueryFailedError(
                f"{pipeline.name}: its dead letters were written with its rows so far, and would now be a query of their own,"
                " which begins with the first record and writes all of them again: give it another checkpoint="
            )
        if is_apart:
            log.warning(
                "%s: dead letters are a query of their own in this checkpoint, with a second read, and stay one; from a new"
                " checkpoint on they are written with its rows",
                pipeline.name,
            )
        elif can_be_within:
            letters.keep_within()
        return planned

    def _fitting(
        self, pipeline: Pipeline, checkpoint: str, forms: Sequence[PlanForm]
    ) -> tuple[list[PlannedQuery], PlanForm]:
        """The plan of the first form by which the checkpoint of a query goes on. QueryFailedError where none does."""
        read = topics_read(self._spark, checkpoint)
        if read is not None and one_reads(pipeline.sources):
            alike = [PlanForm(each.letters_apart, reads_apart=True) for each in forms]
            forms = [*forms, *alike] if is_in_step(self._spark, checkpoint) else alike
        for form in forms:
            planned = plan_pipeline(self._spark, pipeline, form)
            if read is None or goes_on(read, topics_in(planned[0].rows)):
                break
        else:
            raise QueryFailedError(
                f"{pipeline.name}: sinks, views or dead letters take from its sources in other places than when its checkpoint"
                " was begun, by which Spark knows how far each of them is: give it another checkpoint="
            )
        if form.reads_apart:
            log.warning(
                "%s: its tables of one topic read it each by itself in this checkpoint, and go on so; from a new checkpoint on"
                " one read is for all of them",
                pipeline.name,
            )
        return planned, form

    def _started(self, running: _RunningPipeline, planned: PlannedQuery) -> _Running:
        pipeline = running.pipeline
        sink = planned.sink
        path = self._file.beside(sink.path) if isinstance(sink, ToTable) and sink.path is not None else None
        writer = planned.writer(f"{running.checkpoint}/{planned.name}", path)
        writing = None
        if planned.sinks:
            sinks = self._sinks(running, planned)
            if is_connect(self._spark):
                writer = writer.foreachBatch(ConnectWriting(pipeline, sinks))
            else:
                writing = begin_writing(pipeline, sinks, self._clock)
                writer = writer.foreachBatch(writing)
        if self._until_caught_up or pipeline.trigger == AVAILABLE_NOW:
            writer = writer.trigger(availableNow=True)
        elif pipeline.trigger is not None:
            writer = writer.trigger(processingTime=pipeline.trigger)
        try:
            name = sink.name if isinstance(sink, ToTable) else None
            query = start_query(lambda: writer.start() if name is None else writer.toTable(name))
        except PySparkException as error:
            raise QueryFailedError(f"{planned.name}: {sentence_of(error)}") from error
        if writing is not None:
            writing.started(str(query.id), str(query.runId))
        progress = QueryProgress(
            query=planned.name,
            query_id=str(query.id),
            run_id=str(query.runId),
            expectations=planned.expectations,
        )
        lineage = None if self._lineage is None else self._lineage.of(pipeline, planned.name, self._file.beside)
        if lineage is not None:
            lineage.started(progress)
        return _Running(query, QueryWatch(progress, running.record.history_of(planned.name)), writing, lineage)

    def _sinks(self, running: _RunningPipeline, planned: PlannedQuery) -> QuerySinks:
        return query_sinks(
            running.pipeline,
            planned.sinks,
            checkpoint=running.checkpoint,
            query=planned.name,
            beside=self._file.beside,
            code_version=code_version(self._file.path),
        )

    def _look(self) -> bool:
        """Take in what Spark reports. Whether there was news."""
        changed = False
        for pipeline in self._pipelines:
            news = [self._look_at(each) for each in pipeline.queries]
            if any(news):
                changed = True
                self._keep(pipeline)
        return changed

    def _look_at(self, running: _Running) -> bool:
        before = running.progress
        # First whether it is active: what it reported before its end is not missed then.
        is_active = running.query.isActive
        last = running.query.lastProgress
        if last is not None and _mark(last) > running.seen:
            for each in running.query.recentProgress:
                if _mark(each) > running.seen:
                    running.seen = _mark(each)
                    report = whole_report(json.loads(each.json))
                    running.watch.take(report)
                    if running.lineage is not None:
                        running.lineage.took(report)
        if running.writing is not None and running.progress != before:
            running.watch.progress = _with_upkeep(running.progress, running.writing.upkeep.totals)
        if not is_active and running.progress.state == "running":
            running.watch.progress = self._ended(running)
            if running.writing is not None:
                running.writing.close()
        if running.lineage is not None and running.progress != before:
            running.lineage.looked(running.progress, {} if running.writing is None else running.writing.rows_written)
        return running.progress != before

    def _ended(self, running: _Running) -> QueryProgress:
        error = running.query.exception()
        state: State
        if error is not None:
            state = "failed"
        elif self._is_stopping:
            state = "stopped"
        else:
            state = "caught up"
        cause = None if running.writing is None else running.writing.error
        said = None if error is None else sentence_of(cause or error)
        is_stuck = isinstance(cause, OutputStoppedError | LostTransactionError)
        if running.writing is None and error is not None:
            # What a server of Spark Connect tells is only text.
            is_stuck = any(each.__name__ in str(error) for each in (OutputStoppedError, LostTransactionError))
        return msgspec.structs.replace(running.progress, state=state, error=said, is_stuck=is_stuck)

    def _keep(self, pipeline: _RunningPipeline) -> None:
        pipeline.record.keep(pipeline.progress, [each.watch.history for each in pipeline.queries])

    def _close(self) -> None:
        for each in self._pipelines:
            each.record.close()

    def _interrupt(self) -> None:
        self._is_stopping = True
        for each in self._queries:
            if each.query.isActive:
                each.query.stop()


def _with_upkeep(progress: QueryProgress, totals: UpkeepTotals) -> QueryProgress:
    return msgspec.structs.replace(
        progress,
        swept_files=totals.swept_files,
        swept_bytes=totals.swept_bytes,
        swept_rows=totals.swept_rows,
        compacted_files=totals.compacted_files,
        expired_snapshots=totals.expired_snapshots,
        upkeep_failures=totals.failures,
    )


def _mark(report: StreamingQueryProgress) -> tuple[int, str]:
    """Reports come in this order. While there is nothing to read they are of the same batch, at another time."""
    return report.batchId, report.timestamp


def _is_busy(query: StreamingQuery) -> bool:
    """Whether a batch is under way, and not only the next one waited for."""
    status = query.status
    return bool(status["isTriggerActive"] and status["isDataAvailable"])
