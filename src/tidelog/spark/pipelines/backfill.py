"""Rows of whole batches made anew by what a pipeline's file says now, and put in the place of those that its table has.

    backfill = Backfill(spark, file, pipeline)
    plan = backfill.plan(starting, ending)          nothing is changed
    backfill.execute(plan)

    read      exactly what these batches have read, as a batch, by the steps of the query
    staged    by the tasks of a query, under an owner of its own, so that no sweep of a run takes it
    noted     what is about to be replaced by what, beside what is staged
    replaced  one commit of the table: the old files out, the new ones in, and the number of the replacement
    recorded  an entry of the audit

A backfill that dies is repeated by the same command: what is only staged is litter, which a later one sweeps; a commit that was
made is known by its number, and is recorded by its note. The pipeline may run meanwhile. Its group, its checkpoint and the
number of its last batch in the table stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidelog.client.producer.producer import Producer
from tidelog.model.clock import Clock, SystemClock
from tidelog.spark.client_settings import common_settings
from tidelog.spark.outputs.kind import OutputKind, kind_of
from tidelog.spark.outputs.manifest_store import encode_schema, manifest_of, read_manifest, write_manifest
from tidelog.spark.outputs.staged import StagedBatch
from tidelog.spark.outputs.storage import Storage
from tidelog.spark.pipelines.audit_log import read_audit
from tidelog.spark.pipelines.backfill_plan import BackfillFacts, BackfillPlan, Refusal, plan_backfill
from tidelog.spark.pipelines.batch_records import BatchRecords, compacted_topics, log_starts, ranges_between
from tidelog.spark.pipelines.batch_rows import SinkRows, rows_of, rows_to_write
from tidelog.spark.pipelines.batch_tables import rows_of_sink
from tidelog.spark.pipelines.definition import FromTopic, Pipeline
from tidelog.spark.pipelines.errors import BackfillError, sentence_of
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.plan_state import stateful_parts
from tidelog.spark.pipelines.query_options import as_text
from tidelog.spark.pipelines.query_sinks import arrow_schema, code_version, decider_options
from tidelog.spark.pipelines.session import own_session
from tidelog.spark.pipelines.sink_targets import StagedSink, staged_sinks
from tidelog.spark.pipelines.sink_writing import MESSAGE, BatchPlan, StagedPlan, read_messages
from tidelog.spark.pipelines.sinks import Sink, ToTable
from tidelog.spark.sink.audit_entry import (
    Replacement,
    backfill_app_id,
    encode_replacement,
    encode_replacement_key,
)
from tidelog.spark.sink.sink_decisions import AUDIT_TOPIC
from tidelog.spark.sink.sink_participant import SinkIdentity
from tidelog.spark.source.offset_bounds import OffsetBound
from tidelog.spark.source.offset_ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

BESIDE = "write beside it with --into"
_NOTE = "replacement-"
_NOTE_BYTES_MAX = 16 * 1024 * 1024
# What was staged by one that has died, and by none that may still be at work.
_SWEPT_AFTER_S = 24 * 3600.0
_TIMEOUT_S = 60.0


def step_of(name: str) -> None:
    """Told of each step that is done: for tests, which die there."""


def table_of(pipeline: Pipeline) -> ToTable:
    """The one sink whose rows can be replaced. BackfillError for any other, and for several."""
    if len(pipeline.sinks) > 1:
        raise BackfillError(
            f"{pipeline.name} has {len(pipeline.sinks)} sinks, and one commit is in one table: they would disagree; {BESIDE}"
        )
    sink = pipeline.sinks[0]
    why = _why_not(sink)
    if why:
        raise BackfillError(f"{pipeline.name} {why}; {BESIDE}")
    assert isinstance(sink, ToTable)
    return sink


def _why_not(sink: Sink) -> str:
    match sink:
        case ToTable() if not sink.is_ours:
            return f"writes {sink.format} by Spark's own sink, which has no account of batches"
        case ToTable() if sink.merge_on:
            return "merges rows by key: what a batch has changed cannot be taken back"
        case ToTable():
            return ""
    what = {"ToTopic": "a topic", "ToDatabase": "a database", "ToFiles": "files"}[type(sink).__name__]
    return f"writes to {what}, of which no rows are taken back"


@dataclass(frozen=True, slots=True)
class PreparedBackfill:
    """What would be done, with all that was looked at."""

    plan: BackfillPlan
    result: DataFrame
    rows: SinkRows
    files: tuple[str, ...]
    """Of the table, which would go."""


class Backfill:
    """Of one pipeline with one table. SinkError, ClientError, SourceError where what it needs is not reached."""

    def __init__(
        self,
        spark: SparkSession,
        file: PipelineFile,
        pipeline: Pipeline,
        *,
        clock: Clock | None = None,
        on_step: Callable[[str], None] = step_of,
    ) -> None:
        self._session = own_session(spark, pipeline)
        self._file = file
        self._pipeline = pipeline
        self._sink = table_of(pipeline)
        self._clock = clock or SystemClock()
        self._on_step = on_step
        # The names of files tell the live query's from these.
        (found,) = staged_sinks(pipeline, file.checkpoint_of(pipeline), file.beside)
        self._staged: StagedSink = found._replace(staging=f"{found.staging}.backfill")

    # Looking.

    def plan(self, starting: OffsetBound, ending: OffsetBound) -> PreparedBackfill:
        """BackfillError with every reason why it cannot be. Changes nothing."""
        topics = [topic for each in self._pipeline.sources for topic in _topics(each)]
        if not all(topics) or len(set(topics)) < len(topics):
            raise BackfillError(
                f"{self._pipeline.name} reads a pattern, or a topic twice: the audit does not say which source a batch has read "
                f"of; {BESIDE}"
            )
        for source in self._pipeline.sources:
            if compacted := compacted_topics(self._pipeline, source):
                raise BackfillError(
                    f"the topic {compacted[0]} is compacted: it need not have all records that batches have read; {BESIDE}"
                )
        log = read_audit(self._settings, self._pipeline.name)
        query = log.queries[-1] if log.entries else ""
        own = [each for each in log.replacements if (each.query, each.sink) == (query, self._sink.label)]
        sources = self._pipeline.sources
        facts = BackfillFacts(
            sink=self._sink.label,
            entries=log.of_query(),
            replacements=own,
            wanted=[each for source in sources for each in ranges_between(self._pipeline, source, starting, ending)],
            starts={place: at for source in sources for place, at in log_starts(self._pipeline, source).items()},
            begins_at_earliest=all(_begins_at_earliest(each) for each in sources),
        )
        if log.entries and self._left(query, own) is not None:
            raise BackfillError(
                f"a backfill of {self._pipeline.name} has replaced rows, and died before it was recorded: --execute does so"
            )
        plan = plan_backfill(facts)
        if isinstance(plan, Refusal):
            raise BackfillError(f"{self._pipeline.name}: {'; '.join(plan.reasons)}; {BESIDE}")
        return self._prepared(plan)

    def _prepared(self, plan: BackfillPlan) -> PreparedBackfill:
        ranges: dict[int, list[OffsetRange]] = {}
        for index, source in enumerate(self._pipeline.sources):
            ranges[index] = [each for each in plan.ranges if each.partition.topic in _topics(source)]
        try:
            records = BatchRecords(self._session, self._pipeline, ranges)
            result = rows_of_sink(self._session, self._pipeline, records, self._sink)
            if parts := stateful_parts(result):
                raise BackfillError(
                    f"{self._pipeline.name} has {parts[0]}: rows of a batch come of records of other batches as well; {BESIDE}"
                )
            rows = rows_of(result, self._sink)
        except PySparkException as error:
            raise BackfillError(f"{self._pipeline.name}: {sentence_of(error)}") from error
        kind = self._kind
        if gone := kind.gone():
            raise BackfillError(gone)
        if plan.table_ids - {"", kind.table_id()}:
            raise BackfillError(f"{self._staged.target.place} was removed and made again since these batches; {BESIDE}")
        if problems := kind.validate(arrow_schema(rows.schema)):
            raise BackfillError(f"sink {self._sink.label}: {problems[0]}")
        files = tuple(kind.replaceable(plan.replaced))
        return PreparedBackfill(plan, result, rows, files)

    # Doing.

    def finish_left(self) -> Replacement | None:
        """Record what one that has died has replaced; None where there is nothing of that kind."""
        log = read_audit(self._settings, self._pipeline.name)
        if not log.entries:
            return None
        query = log.queries[-1]
        own = [each for each in log.replacements if (each.query, each.sink) == (query, self._sink.label)]
        left = self._left(query, own)
        return None if left is None else self._record(left)

    def execute(self, prepared: PreparedBackfill) -> Replacement:
        """On return the rows are replaced, and the audit says so. BackfillError where another backfill was faster."""
        started_ms = self._clock.now_ms()
        plan, schema = prepared.plan, arrow_schema(prepared.rows.schema)
        self._kind.prepare(schema)
        target = msgspec.structs.replace(self._staged.target, table_id=self._kind.table_id())
        staged = self._staged._replace(target=target)
        run = f"backfill-{uuid4()}"
        job = BatchPlan(SinkIdentity(plan.query), run, plan.number, (staged_plan(staged, schema),))
        name = backfill_app_id(self._pipeline.name, staged.label, plan.query)
        batch = stage(self._pipeline.name, prepared.result, prepared.rows, staged, job, name)
        made = Replacement(
            pipeline=self._pipeline.name,
            query=plan.query,
            sink=staged.label,
            number=plan.number,
            run=run,
            batches=tuple(each.batch_id for each in plan.batches),
            input=plan.input,
            code_version=code_version(self._file.path),
            staged=batch.output,
            files=len(batch.manifest.files),
            started_ms=started_ms,
        )
        self._on_step("staged")
        self._storage.write(f"{_NOTE}{plan.number:010d}-{run}.json", msgspec.json.encode(made))
        self._on_step("noted")
        kind = kind_of(target, staged.staging, staged.staging_storage)
        kind.replace(batch, plan.replaced)
        self._on_step("replaced")
        if not kind.has_files(batch):
            raise BackfillError(
                f"another backfill of {self._pipeline.name} was faster, and this one has replaced nothing: repeat it"
            )
        made = self._record(made)
        self._on_step("recorded")
        kind.sweep(frozenset(), older_than_s=_SWEPT_AFTER_S)
        return made

    def _record(self, made: Replacement) -> Replacement:
        made = msgspec.structs.replace(made, finished_ms=self._clock.now_ms())
        with Producer(**self._settings) as producer:
            value, key = encode_replacement(made), encode_replacement_key(made)
            producer.send(AUDIT_TOPIC, value, key=key, partition=0).result(_TIMEOUT_S)
        return made

    # After one that has died.

    def _left(self, query: str, known: Sequence[Replacement]) -> Replacement | None:
        """A replacement that the table has and the audit does not."""
        last = self._kind.last_batch(backfill_app_id(self._pipeline.name, self._sink.label, query))
        number = max((each.number for each in known), default=0)
        if last is None or last <= number:
            return None
        for note in sorted(self._storage.files(), key=lambda each: each.path):
            if not note.path.startswith(f"{_NOTE}{last:010d}-"):
                continue
            made = msgspec.json.decode(self._storage.read(note.path, bytes_max=_NOTE_BYTES_MAX), type=Replacement)
            if made.query == query and self._kind.has_files(read_manifest(made.staged)):
                return made
        raise BackfillError(
            f"{self._staged.target.place} has backfill {last} of {self._pipeline.name}, and nothing is known of it: its note in "
            f"{self._staged.staging} is gone"
        )

    @property
    def _settings(self) -> dict[str, Any]:
        return common_settings(decider_options(self._pipeline).client)

    @property
    def _kind(self) -> OutputKind:
        return kind_of(self._staged.target, self._staged.staging, self._staged.staging_storage)

    @cached_property
    def _storage(self) -> Storage:
        return Storage.at(self._staged.staging, self._staged.staging_storage)


def staged_plan(staged: StagedSink, schema: pa.Schema) -> StagedPlan:
    return StagedPlan(staged.label, 0, staged.target, staged.staging, staged.staging_storage, encode_schema(schema))


def stage(
    pipeline: str, result: DataFrame, rows: SinkRows, staged: StagedSink, job: BatchPlan, app_id: str
) -> StagedBatch:
    """Have tasks write the rows of one sink, as those of a query do. BackfillError where they fail."""
    try:
        written = rows_to_write(result, [rows]).mapInArrow(job, f"{MESSAGE} binary")
        messages = read_messages([bytes(each[0]) for each in written.collect()])
    except PySparkException as error:
        raise BackfillError(f"{pipeline}: {sentence_of(error)}") from error
    parts = [each.staged[staged.label] for each in messages if staged.label in each.staged]
    manifest = manifest_of(staged.label, app_id, job.batch_id, arrow_schema(rows.schema), parts)
    return write_manifest(staged.target, staged.staging, staged.staging_storage, manifest, run=job.run)


def _topics(source: FromTopic) -> list[str]:
    """One empty name for a pattern."""
    return [each.strip() for each in (source.topic or "").split(",")]


def _begins_at_earliest(source: FromTopic) -> bool:
    starts = {name: text for name, text in as_text(source.options).items() if name.lower().startswith("starting")}
    return all(name.lower() == "startingoffsets" and text.lower() == "earliest" for name, text in starts.items())
