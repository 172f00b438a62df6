"""A pipeline's definition as Spark's own plans: what it reads, makes of it and writes. Thin: each step is one of Spark's.

    source    record and the decoded columns; broken and unexpected records apart, as dead letters
    result    the transformation of all sources
    written   a query of its own, started by a DataStreamWriter

Each pipeline has a session of its own (`spark.newSession()`), because its sources are temporary views there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.pipelines.decoders import CORRUPT
from tidelog.spark.pipelines.definition import RECORD, FromTopic, Pipeline, ToTable, ToTopic
from tidelog.spark.pipelines.errors import DefinitionError, sentence_of
from tidelog.spark.pipelines.query_options import as_text, dead_letter_options, sink_options, source_options

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_DECODED, _BROKEN = "__decoded", "__broken"
_UNDECODABLE = "the value cannot be decoded"
_HEADER = "tidelog.dead-letter."


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """One of a pipeline's queries, not started yet."""

    name: str
    """Also that of its consumer group, and of its directory in the checkpoint."""
    rows: DataFrame
    output_mode: str
    sink: ToTopic | ToTable | None
    """None for dead letters."""
    options: dict[str, str]

    def writer(self, checkpoint: str, table_path: str | None) -> DataStreamWriter:
        """Ready for a trigger and `start`. The path is for a sink that is a directory."""
        writer = self.rows.writeStream.queryName(self.name).outputMode(self.output_mode)
        writer = writer.option("checkpointLocation", checkpoint)
        if isinstance(self.sink, ToTable):
            writer = writer.format(self.sink.format).options(**self.options)
            if self.sink.partition_by:
                writer = writer.partitionBy(*self.sink.partition_by)
            return writer if table_path is None else writer.option("path", table_path)
        return writer.format("tidelog").options(**self.options)


def plan_pipeline(spark: SparkSession, pipeline: Pipeline) -> list[PlannedQuery]:
    """The queries of a pipeline. DefinitionError for what Spark finds wrong with it; no cluster is asked."""
    session = spark.newSession()
    try:
        result = _result(session, pipeline)
        queries = [_main_query(pipeline, result)]
        if pipeline.has_dead_letters:
            queries.append(_dead_letters(session, pipeline))
        for each in queries:
            _check_streaming(session, each)
    except PySparkException as error:
        raise DefinitionError([f"{pipeline.name}: {sentence_of(error)}"]) from error
    except DefinitionError as error:
        raise DefinitionError([f"{pipeline.name}: {each}" for each in error.problems]) from None
    return queries


def _result(session: SparkSession, pipeline: Pipeline) -> DataFrame:
    frames = [_good(session, pipeline, source) for source in pipeline.sources]
    transform = pipeline.transform
    if transform is None:
        return frames[0]
    if isinstance(transform, str):
        for source, frame in zip(pipeline.sources, frames, strict=True):
            frame.createOrReplaceTempView(source.view)
        return session.sql(transform)
    result = transform(*frames)
    if not isinstance(result, DataFrame):
        raise DefinitionError([f"transform returns {type(result).__name__}; it has to return a DataFrame"])
    return result


def _main_query(pipeline: Pipeline, result: DataFrame) -> PlannedQuery:
    if not result.isStreaming:
        raise DefinitionError(["what the transformation gives does not come from the source: it is no stream"])
    sink = pipeline.sink
    if isinstance(sink, ToTable):
        return PlannedQuery(pipeline.name, result.drop(RECORD), pipeline.output_mode, sink, as_text(sink.options))
    rows = result if sink.encode == "columns" else _encoded(result, sink)
    if "value" not in rows.columns:
        raise DefinitionError(["encode is columns, and what comes out has no column value"])
    return PlannedQuery(pipeline.name, rows, pipeline.output_mode, sink, sink_options(pipeline, sink))


def _encoded(result: DataFrame, sink: ToTopic) -> DataFrame:
    """Each row as one JSON value, nulls as well: a reader should see that a column is there."""
    columns = [F.col(f"`{name}`") for name in result.columns if name != RECORD]
    if not columns:
        raise DefinitionError(["nothing but record comes out: decode= makes columns of it, or encode='columns'"])
    value = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).alias("value")
    if sink.key is None:
        return result.select(value)
    key = F.expr(sink.key)
    kind = result.select(key).schema[0].dataType.typeName()
    return result.select((key if kind == "binary" else key.cast("string")).alias("key"), value)


def _decoded(
    session: SparkSession, pipeline: Pipeline, source: FromTopic, group_id: str
) -> tuple[DataFrame, Column | None]:
    """Rows of record and decoded columns, and why a row is a dead letter: null if it is none."""
    options = source_options(pipeline, source, group_id=group_id)
    raw = session.readStream.format("tidelog").options(**options).load()
    record = F.struct(*[F.col(name) for name in raw.columns]).alias(RECORD)
    if source.decode is None:
        return raw.select(record), None
    keeps_broken = source.dead_letters is not None
    decoded = source.decode.decoded(F.col("value"), keeps_broken=keeps_broken)
    broken = F.lit(False) if decoded.is_broken is None else decoded.is_broken
    if keeps_broken:
        # Spark would move the choice of rows before their decoding, and decode each value once more for each mention there.
        # It moves nothing past what it takes for chance, such as this, which is never true.
        broken = broken | (F.rand() + F.col("offset") < 0)
    rows = raw.select(record, decoded.columns.alias(_DECODED), broken.alias(_BROKEN))
    names = [name for name in rows.select(f"{_DECODED}.*").columns if name != CORRUPT]
    for taken in (RECORD, _BROKEN):
        if taken in names:
            raise DefinitionError([f"the values have a column {taken}, which is what a pipeline calls its own"])
    flat = rows.select(RECORD, *[F.col(f"{_DECODED}.`{name}`").alias(name) for name in names], _BROKEN)
    if not keeps_broken:
        return flat.drop(_BROKEN), None
    reason = F.when(F.col(_BROKEN), F.lit(_UNDECODABLE))
    for text, condition in source.expect.items():
        # What is null is not as expected either. A tombstone has no columns, so nothing is expected of it.
        unexpected = ~F.coalesce(F.expr(condition), F.lit(False)) & F.col("record.value").isNotNull()
        reason = reason.when(unexpected, F.lit(text))
    return flat, reason


def _good(session: SparkSession, pipeline: Pipeline, source: FromTopic) -> DataFrame:
    rows, reason = _decoded(session, pipeline, source, pipeline.name)
    if reason is not None:
        rows = rows.where(reason.isNull()).drop(_BROKEN)
    if source.watermark is not None:
        if source.watermark.expression is not None:
            rows = rows.withColumn(source.watermark.column, F.expr(source.watermark.expression))
        rows = rows.withWatermark(source.watermark.column, source.watermark.delay)
    return rows


def _dead_letters(session: SparkSession, pipeline: Pipeline) -> PlannedQuery:
    """The records themselves, with headers that say where each was and why it is here."""
    name = pipeline.dead_letters_query
    parts = []
    for source in pipeline.sources:
        if source.dead_letters is None:
            continue
        rows, reason = _decoded(session, pipeline, source, name)
        if reason is None:
            continue
        dead = rows.where(reason.isNotNull())
        said: Sequence[tuple[str, Column]] = (
            ("pipeline", F.lit(pipeline.name)),
            ("reason", reason),
            ("topic", F.col("record.topic")),
            ("partition", F.col("record.partition")),
            ("offset", F.col("record.offset")),
            ("timestamp", F.date_format(F.to_utc_timestamp("record.timestamp", F.current_timezone()), _ISO)),
        )
        added = F.array(
            *[
                F.struct(F.lit(_HEADER + what).alias("key"), value.cast("string").cast("binary").alias("value"))
                for what, value in said
            ]
        )
        own = F.coalesce(F.col("record.headers"), F.array().cast("array<struct<key: string, value: binary>>"))
        parts.append(
            dead.select(
                F.lit(source.dead_letters).alias("topic"),
                F.col("record.key").alias("key"),
                F.col("record.value").alias("value"),
                F.concat(own, added).alias("headers"),
            )
        )
    return PlannedQuery(name, reduce(DataFrame.union, parts), "append", None, dead_letter_options(pipeline))


_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


def _check_streaming(session: SparkSession, query: PlannedQuery) -> None:
    """What Spark would refuse when the query starts, such as windows without a watermark in append mode."""
    jvm = session._jvm  # noqa: SLF001 - Spark has no other way to ask before a query starts
    if jvm is None:
        return
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, query.output_mode.capitalize())()
    plan = query.rows._jdf.queryExecution().analyzed()  # noqa: SLF001
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
