"""The batches of one query, written to all of its sinks by one decision each: what Spark's `foreachBatch` calls, in the driver.

    one job      tasks write, and hand over what they have written (`sink_writing`); only attempts that win are heard of
    manifests    what each table has of the batch, as a file
    decision     `SinkCommitter`: the batch counts in all sinks, or in none

Spark starts the next batch once this returns. Where it raises, the query stops, and the next run does the batch again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from tidelog.model.clock import Clock, SystemClock
from tidelog.spark import batch_steps
from tidelog.spark.batch_steps import BEGIN, RETURN, WRITE, BatchStep
from tidelog.spark.errors import SinkError
from tidelog.spark.outputs.manifest_store import encode_schema, manifest_of, write_manifest
from tidelog.spark.outputs.staged import StagedOutput, app_id, sum_checksums
from tidelog.spark.pipelines.batch_accounts import QuerySinks, accounts_of
from tidelog.spark.pipelines.batch_context import BatchContext, DriverContext
from tidelog.spark.pipelines.batch_rows import is_tagged, rows_to_write
from tidelog.spark.pipelines.checkpoint_offsets import entry_hash, input_ranges, read_entry
from tidelog.spark.pipelines.output_upkeep import OutputUpkeep
from tidelog.spark.pipelines.sink_targets import StagedSink
from tidelog.spark.pipelines.sink_writing import (
    MESSAGE,
    BatchPlan,
    StagedPlan,
    TaskMessage,
    read_messages,
)
from tidelog.spark.sink.audit_entry import AuditEntry, PartitionRange
from tidelog.spark.sink.sink_batch import BatchInput, BatchWork, TopicOutput
from tidelog.spark.sink.sink_participant import SinkIdentity
from tidelog.spark.sink.sink_warnings import warn_of_markers, warn_of_open_transactions, warn_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

# A batch that is computed anew so often has lost as many workers while it ran.
JOBS_MAX = 4
# Spark's words for rows that were lost, and did not come out again as they were.
_IS_INDETERMINATE = "shuffle map stage with indeterminate output was failed and retried"


class Committer(Protocol):
    """`SinkCommitter`, as far as it is needed here."""

    def commit(self, work: BatchWork) -> None: ...

    def abort(self, work: BatchWork) -> None: ...

    def protected_manifests(self) -> frozenset[str] | None: ...

    def close(self) -> None: ...


class WrittenRanges(Protocol):
    """How far topics are, for the account of a batch."""

    def since_last(self) -> dict[str, tuple[PartitionRange, ...]]:
        """By sink, what has come to its topic since it was asked last, whoever has written it; what is not known is left out."""

    def close(self) -> None: ...


class BatchWriting:
    """One run of a query. Give it to `foreachBatch`, and close it when the query has ended."""

    def __init__(
        self,
        sinks: QuerySinks,
        committer: Callable[[SinkIdentity, str], Committer],
        ranges: WrittenRanges | None = None,
        clock: Clock | None = None,
        context: BatchContext | None = None,
    ) -> None:
        self._sinks = sinks
        self._context = context or DriverContext()
        self._make_committer = committer
        self._committer: Committer | None = None
        self._ranges = ranges
        self._clock = clock or SystemClock()
        self.upkeep = OutputUpkeep(sinks.staged, self._clock)
        self.rows_written: dict[str, int] = {}
        """Of batches of this run that count, by sink."""
        self.error: BaseException | None = None
        """Why the query has stopped. Spark tells it too, wrapped into what it calls and is called by."""

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write a batch, to the end. SinkError where it does not count, or nobody knows yet."""
        try:
            self._write(rows, batch_id)
        except BaseException as error:
            self.error = error
            raise

    def _write(self, rows: DataFrame, batch_id: int) -> None:
        started_ms = self._clock.now_ms()
        spark = rows.sparkSession
        identity, run = self._who(spark)
        if batch_steps.listener is not None:
            query = self._sinks.checkpoint.rpartition("/")[2]
            batch_steps.tell(BatchStep(BEGIN, identity.query, query, batch_id))
        committer = self._committer = self._committer or self._make_committer(identity, run)
        # All that is known of it until more is: on which clusters tasks may have left something open.
        work = BatchWork(batch_id, topics=tuple(TopicOutput(each.label, each.target) for each in self._sinks.topics))
        try:
            messages = self._run_job(
                rows,
                BatchPlan(
                    identity,
                    run,
                    batch_id,
                    self._staged_plans(),
                    tuple(each.cluster for each in self._sinks.topics),
                    is_tagged(self._sinks.rows),
                ),
            )
            if batch_steps.listener is not None:
                batch_steps.tell(BatchStep(WRITE, identity.query, rows=_rows_in(messages)))
            work = self._work(spark, identity, run, batch_id, messages, started_ms)
            committer.commit(work)
            self._count(work)
        except BaseException:
            # As Spark does with its own sinks: what is decided stays so, everything else is taken back.
            self._give_up(committer, work)
            raise
        if batch_steps.listener is not None:
            batch_steps.tell(BatchStep(RETURN, identity.query))
        self.upkeep.after(batch_id, committer.protected_manifests)

    def started(self, query: str, run: str) -> None:
        """Tell what others have left open on the query's topics, also where there is nothing to write yet."""
        for index, each in enumerate(self._sinks.topics):
            topics = [topic.topic for topic in each.cluster.sinks]
            identity = SinkIdentity(query, prefix=self._sinks.prefix)
            # Told once for each cluster.
            warn_of_open_transactions(each.cluster.options, identity, f"{run}.{index}", topics)

    def _count(self, work: BatchWork) -> None:
        for each in work.audit.sinks if work.audit is not None else ():
            self.rows_written[each.sink] = self.rows_written.get(each.sink, 0) + each.rows

    def close(self) -> None:
        for each in (self._committer, self._ranges):
            if each is not None:
                each.close()
        self._committer = None

    # The job.

    def _run_job(self, rows: DataFrame, plan: BatchPlan) -> list[TaskMessage]:
        """What the tasks have written, all of it of one computation.

        A worker that is lost takes rows with it that wait there to be sorted. Spark computes them again for those who have not
        read them yet; where that does not come out the same, one sink would have the old rows, and another one the new. Spark
        gives such a job up where it notices. Where it does not, some stage was started again; either way the whole job is, too.
        """
        written = rows_to_write(rows, self._sinks.rows).mapInArrow(plan, f"{MESSAGE} binary")
        for _ in range(JOBS_MAX):
            watch = self._context.watch(rows.sparkSession, plan.run)
            try:
                messages = read_messages([bytes(each[0]) for each in written.collect()])
            except Exception as error:
                # Of no class that could be named: an error of Java's.
                if _IS_INDETERMINATE not in str(error):
                    raise
            else:
                if not watch.has_repeated(messages):
                    return messages
            log.warning(
                "rows of batch %d were lost with a worker while it was written: it is computed anew", plan.batch_id
            )
        raise SinkError(
            f"batch {plan.batch_id} of {self._sinks.pipeline} was computed {JOBS_MAX} times, and each time a worker was lost "
            "while it was written: nothing of it counts"
        )

    def _staged_plans(self) -> tuple[StagedPlan, ...]:
        columns = {each.label: index for index, each in enumerate(self._sinks.rows)}
        return tuple(
            StagedPlan(
                each.label,
                columns[each.label],
                each.target,
                each.staging,
                each.staging_storage,
                encode_schema(self._sinks.schemas[each.label]),
            )
            for each in self._sinks.staged
        )

    # What is decided.

    def _work(
        self,
        spark: SparkSession,
        identity: SinkIdentity,
        run: str,
        batch_id: int,
        messages: Sequence[TaskMessage],
        started_ms: int,
    ) -> BatchWork:
        sinks = self._sinks
        entry = read_entry(spark, sinks.checkpoint, batch_id)
        if entry is None:
            sentence = (
                f"Spark's entries of batches cannot be read in {sinks.checkpoint}: they are known by rows and checksum"
            )
            warn_once(run, "input", sentence)
        staged = [
            output
            for each in sinks.staged
            if (output := self._staged_output(each, identity, run, batch_id, messages)) is not None
        ]
        found = (self._topic_output(index, messages) for index in range(len(sinks.topics)))
        topics = [each for each in found if each is not None]
        written = [each for output in topics for each in output.participants]
        warn_of_markers(identity, run, written, "ToTopic(by_partition=True)")
        accounts = accounts_of(sinks, staged, messages, {} if self._ranges is None else self._ranges.since_last())
        totals = BatchInput(
            None if entry is None else entry_hash(entry),
            sum(each.rows for each in accounts),
            sum_checksums(each.checksum for each in accounts),
        )
        before = read_entry(spark, sinks.checkpoint, batch_id - 1)
        audit = AuditEntry(
            pipeline=sinks.pipeline,
            query=identity.query,
            run=run,
            batch_id=batch_id,
            input=() if entry is None else input_ranges(entry, before),
            input_hash=totals.hash,
            sinks=tuple(accounts),
            code_version=sinks.code_version,
            started_ms=started_ms,
        )
        return BatchWork(batch_id, totals, tuple(topics), tuple(staged), audit=audit)

    def _staged_output(
        self, sink: StagedSink, identity: SinkIdentity, run: str, batch_id: int, messages: Sequence[TaskMessage]
    ) -> StagedOutput | None:
        parts = [each.staged[sink.label] for each in messages if sink.label in each.staged]
        if not parts:
            return None
        name = app_id(self._sinks.pipeline, sink.label, identity.query)
        manifest = manifest_of(sink.label, name, batch_id, self._sinks.schemas[sink.label], parts)
        output = write_manifest(sink.target, sink.staging, sink.staging_storage, manifest, run=run).output
        if batch_steps.listener is not None:
            batch_steps.tell(BatchStep(f"manifest of {sink.label}", identity.query))
        return output

    def _topic_output(self, index: int, messages: Sequence[TaskMessage]) -> TopicOutput | None:
        group = self._sinks.topics[index]
        found = tuple(each.participants[index] for each in messages if index in each.participants)
        return TopicOutput(group.label, group.target, found) if found else None

    # Around it.

    def _who(self, spark: SparkSession) -> tuple[SinkIdentity, str]:
        query, run = self._context.who(spark)
        return SinkIdentity(query, prefix=self._sinks.prefix), run

    def _give_up(self, committer: Committer, work: BatchWork) -> None:
        try:
            committer.abort(work)
        except SinkError as error:
            # There is an error to report already; the next run cleans up.
            log.warning("batch %d is not cleaned up, which the next run does: %s", work.batch_id, error)


def _rows_in(messages: Sequence[TaskMessage]) -> int:
    staged = sum(part.rows for each in messages for part in each.staged.values())
    return staged + sum(topic.rows for each in messages for topic in each.topics)
