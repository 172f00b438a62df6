"""What a pipeline's file makes of a range of time, in a new Delta table beside the pipeline's own: for whatever is not replaced.

    rows = write_beside(spark, file, pipeline, bounds, "tables/orders-again")

All records of the range are one batch, and no more than that: windows and joins are computed of them, rows that change others by
key are there as changes, and nothing of a live run is looked at. The table has to be new. One that was made and not filled, by a
backfill that has died, will do.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.spark.outputs.delta_log import DeltaLog
from tidelog.spark.outputs.kind import kind_of
from tidelog.spark.outputs.staged import app_id
from tidelog.spark.pipelines.backfill import stage, staged_plan
from tidelog.spark.pipelines.batch_records import BatchRecords, ranges_between
from tidelog.spark.pipelines.batch_rows import rows_of
from tidelog.spark.pipelines.batch_tables import rows_of_sink
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.errors import BackfillError, sentence_of
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.plan_state import unlike_a_stream
from tidelog.spark.pipelines.query_sinks import arrow_schema
from tidelog.spark.pipelines.session import own_session
from tidelog.spark.pipelines.sink_targets import StagedSink, chosen_sink, target_of
from tidelog.spark.pipelines.sink_writing import BatchPlan
from tidelog.spark.pipelines.sinks import ToTable
from tidelog.spark.sink.sink_participant import SinkIdentity
from tidelog.spark.source.offset_bounds import OffsetBound
from tidelog.spark.source.offset_ranges import OffsetRange

_BATCH = 0
_INTO = "into"


class BesidePlan(msgspec.Struct, frozen=True):
    place: str
    ranges: dict[int, list[OffsetRange]]
    """By the number of the source."""

    @property
    def records(self) -> int:
        return sum(each.size for found in self.ranges.values() for each in found)


def plan_beside(
    file: PipelineFile, pipeline: Pipeline, bounds: tuple[OffsetBound, OffsetBound], into: str
) -> BesidePlan:
    """Changes nothing. BackfillError where there is something at that place already."""
    staged = _sink(file, pipeline, into)
    # Also told where Delta's library is missing.
    kind_of(staged.target, staged.staging, staged.staging_storage)
    table = DeltaLog(staged.target).load()
    if table is not None and table.version() > 0:
        raise BackfillError(f"the table {staged.target.place} is there already: name a place where nothing is")
    ranges = {index: ranges_between(pipeline, each, *bounds) for index, each in enumerate(pipeline.sources)}
    return BesidePlan(staged.target.place, ranges)


def write_beside(
    spark: SparkSession, file: PipelineFile, pipeline: Pipeline, plan: BesidePlan, into: str, sink: str | None = None
) -> int:
    """How many rows there are now: those of the sink of this name. Without it all that sinks take. DefinitionError where these do
    not take the same."""
    session = own_session(spark, pipeline)
    staged = _sink(file, pipeline, into)
    chosen = chosen_sink(pipeline, sink)
    where = chosen.where if sink is not None or len(pipeline.sinks) == 1 else None
    try:
        result = rows_of_sink(session, pipeline, BatchRecords(session, pipeline, plan.ranges), chosen)
        if strange := unlike_a_stream(result):
            raise BackfillError(
                f"{pipeline.name} has {strange[0]}: what comes out of it depends on batches, time and order; run it with a new "
                "checkpoint instead, and with another sink"
            )
        rows = rows_of(result, replace(_declared(into), where=where))
    except PySparkException as error:
        raise BackfillError(f"{pipeline.name}: {sentence_of(error)}") from error
    schema = arrow_schema(rows.schema)
    kind = kind_of(staged.target, staged.staging, staged.staging_storage)
    kind.prepare(schema)
    staged = staged._replace(target=msgspec.structs.replace(staged.target, table_id=kind.table_id()))
    job = BatchPlan(SinkIdentity(_INTO), f"backfill-{uuid4()}", _BATCH, (staged_plan(staged, schema),))
    batch = stage(pipeline.name, result, rows, staged, job, _app_id(pipeline))
    kind.end(batch)
    return batch.manifest.rows


def _sink(file: PipelineFile, pipeline: Pipeline, into: str) -> StagedSink:
    target = target_of(pipeline, _declared(into), file.beside)
    staging = f"{file.checkpoint_of(pipeline)}/staging/{_INTO}.backfill"
    return StagedSink(_INTO, target, staging, dict(pipeline.storage))


def _declared(into: str) -> ToTable:
    return ToTable(into, name=_INTO, format="delta")


def _app_id(pipeline: Pipeline) -> str:
    return app_id(pipeline.name, _INTO, "backfill")
