"""A pipeline's definition as Spark's own plans: what it reads, makes of it and writes. Thin: each step is one of Spark's.

    source    record and the decoded columns; broken and unexpected records apart, as dead letters
    result    the transformation of all sources
    written   a query of its own, started by a DataStreamWriter

Each pipeline has a session of its own (`spark.newSession()`), because its sources are temporary views there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines.batch_rows import SinkRows, rows_of
from tidelog.spark.pipelines.decoders import CORRUPT
from tidelog.spark.pipelines.definition import RECORD, FromTopic, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError, sentence_of
from tidelog.spark.pipelines.query_options import as_text, dead_letter_options, sink_options, source_options
from tidelog.spark.pipelines.sink_targets import in_order
from tidelog.spark.pipelines.sinks import Sink, ToTable, ToTopic
from tidelog.spark.pipelines.validation import UNKNOWN_MODE, CheckedPipeline
from tidelog.spark.sink.sink_options import parse_sink_options
from tidelog.spark.sink.sink_rows import check_columns

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_Made = TypeVar("_Made")

_DECODED, _BROKEN = "__decoded", "__broken"
_UNDECODABLE = "the value cannot be decoded"
_HEADER = "tidelog.dead-letter."
# What a class has to be, one of them, for Spark to write a stream with it.
_WRITES_STREAMS = (
    "org.apache.spark.sql.connector.catalog.TableProvider",
    "org.apache.spark.sql.execution.datasources.FileFormat",
    "org.apache.spark.sql.sources.StreamSinkProvider",
)


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """One of a pipeline's queries, not started yet."""

    name: str
    """Also that of its consumer group, and of its directory in the checkpoint."""
    rows: DataFrame
    output_mode: str
    sink: ToTopic | ToTable | None
    """Spark's own; None for dead letters, and where `sinks` are written by one decision."""
    options: dict[str, str]
    sinks: tuple[SinkRows, ...] = ()
    """In the order in which a batch ends in them: `sink_targets.in_order`."""

    def writer(self, checkpoint: str, table_path: str | None) -> DataStreamWriter:
        """Ready for a trigger and `start`, and for `foreachBatch` where there are `sinks`. The path is for a sink that is a
        directory."""
        writer = self.rows.writeStream.queryName(self.name).outputMode(self.output_mode)
        writer = writer.option("checkpointLocation", checkpoint)
        if self.sinks:
            return writer
        if isinstance(self.sink, ToTable):
            writer = writer.format(self.sink.format).options(**self.options)
            if self.sink.partition_by:
                writer = writer.partitionBy(*self.sink.partition_by)
            return writer if table_path is None else writer.option("path", table_path)
        return writer.format("tidelog").options(**self.options)


def plan_pipeline(spark: SparkSession, pipeline: Pipeline) -> list[PlannedQuery]:
    """The queries of a pipeline. DefinitionError for all that Spark finds wrong with it; no cluster is asked."""
    queries, problems = plan_checked(spark, CheckedPipeline(pipeline.name, (), pipeline))
    if problems:
        raise DefinitionError(problems)
    return queries


def plan_checked(spark: SparkSession, checked: CheckedPipeline) -> tuple[list[PlannedQuery], list[str]]:
    """The queries of a pipeline as far as they can be planned, and all that Spark finds wrong, each with the pipeline's name.

    What depends on something that is wrong is read by Spark's parser alone.
    """
    planning = _Planning(spark.newSession(), checked)
    queries = planning.run()
    return queries, [f"{checked.name}: {each}" for each in dict.fromkeys(planning.problems)]


class _Planning:
    """One pipeline, part by part: a part that fails leaves a sentence, and the others go on."""

    def __init__(self, session: SparkSession, checked: CheckedPipeline) -> None:
        self.problems: list[str] = []
        self._session = session
        self._checked = checked
        self._pipeline = checked.sound

    def run(self) -> list[PlannedQuery]:
        session, pipeline = self._session, self._pipeline
        frames = [self._source(index, source) for index, source in enumerate(pipeline.sources)]
        # Dead letters are made of nothing but the sources, and would only tell the same once more.
        has_dead_letters = pipeline.has_dead_letters and None not in frames and not self.problems
        result = self._result(frames)
        main = self._main_query(result)
        dead = None
        if has_dead_letters:
            dead = self._tried("dead letters", lambda: _dead_letters(session, pipeline))
        queries = [each for each in (main, dead) if each is not None]
        rows = [(each.rows, each.output_mode) for each in queries]
        if main is None and result is not None and result.isStreaming:
            rows.append((result, pipeline.output_mode))
        for each, output_mode in rows:
            if output_mode != UNKNOWN_MODE:
                self._tried(None, partial(_check_streaming, session, each, output_mode))
        return queries

    def _source(self, index: int, source: FromTopic) -> DataFrame | None:
        session, pipeline = self._session, self._pipeline
        where = "source" if len(pipeline.sources) == 1 else f"source {index + 1}"
        rows = None
        if index not in self._checked.unknown_sources:
            rows = self._tried(where, lambda: _flat(session, pipeline, source, pipeline.name))
        found = len(self.problems)
        for reason, condition in source.expect.items():
            self._tried(f"{where}: expect {reason!r}", partial(_check_condition, session, rows, condition))
        if rows is not None:
            # A condition that is wrong takes no column away.
            usable = source if len(self.problems) == found else replace(source, expect={})
            return self._tried(where, lambda: _good(session, pipeline, usable))
        if source.watermark is not None and source.watermark.expression is not None:
            self._tried(f"{where}: watermark", partial(_check_expression, session, source.watermark.expression))
        return None

    def _result(self, frames: Sequence[DataFrame | None]) -> DataFrame | None:
        session, pipeline = self._session, self._pipeline
        transform = pipeline.transform
        known = [each for each in frames if each is not None]
        if not self._checked.has_transform:
            return None
        if self._checked.has_all_sources and len(known) == len(frames):
            return self._tried("transform", lambda: _transformed(session, pipeline, known))
        if isinstance(transform, str):
            self._tried("transform", partial(_check_syntax, session, transform))
        return None

    def _main_query(self, result: DataFrame | None) -> PlannedQuery | None:
        pipeline = self._pipeline
        if not self._checked.has_sink:
            return None
        if result is not None and not result.isStreaming:
            self.problems.append("sink: what the transformation gives does not come from the source: it is no stream")
            return None
        if not pipeline.is_decided:
            (sink,) = pipeline.sinks
            if isinstance(sink, ToTable):
                self._tried("sink", partial(_check_format, self._session, sink.format))
            if result is not None:
                return self._tried("sink", lambda: _own_query(pipeline, sink, result))
            self._read_only("sink", sink)
            return None
        rows = []
        for index, each in enumerate(pipeline.sinks):
            where = "sink" if len(pipeline.sinks) == 1 else f"sink {index + 1}"
            if result is None:
                self._read_only(where, each)
            else:
                rows.append(self._tried(where, partial(_sink_rows, pipeline, each, result)))
        if result is None or None in rows:
            return None
        by_label = {each.label: each for each in rows if each is not None}
        sinks = tuple(by_label[each.label] for each in in_order(pipeline))
        return PlannedQuery(pipeline.name, result, pipeline.output_mode, None, {}, sinks)

    def _read_only(self, where: str, sink: Sink) -> None:
        """Expressions of a sink, read by Spark's parser: nobody knows the columns."""
        for name in ("key", "where", "deletes"):
            text = getattr(sink, name, None)
            if text is not None:
                self._tried(where, partial(_check_expression, self._session, text))

    def _tried(self, where: str | None, step: Callable[[], _Made]) -> _Made | None:
        """What a step makes; None where Spark finds something wrong in it, which is kept as a sentence."""
        try:
            return step()
        except PySparkException as error:
            found = [sentence_of(error)]
        except DefinitionError as error:
            found = error.problems
        self.problems += [each if where is None else f"{where}: {each}" for each in found]
        return None


def _check_condition(session: SparkSession, rows: DataFrame | None, condition: str) -> None:
    """Over these rows; where there are none, only as Spark reads it."""
    if rows is not None:
        rows.where(F.expr(condition))
    else:
        _check_expression(session, condition)


def _check_syntax(session: SparkSession, text: str) -> None:
    """Read a query in SQL without asking what its names mean."""
    session._jsparkSession.sessionState().sqlParser().parsePlan(text)  # noqa: SLF001 - Spark has no other way to ask


def _check_expression(session: SparkSession, text: str) -> None:
    """The same for an expression, which Spark reads only when it meets rows."""
    session._jsparkSession.sessionState().sqlParser().parseExpression(text)  # noqa: SLF001


def _transformed(session: SparkSession, pipeline: Pipeline, frames: Sequence[DataFrame]) -> DataFrame:
    transform = pipeline.transform
    if transform is None:
        return frames[0]
    if isinstance(transform, str):
        for source, frame in zip(pipeline.sources, frames, strict=True):
            frame.createOrReplaceTempView(source.view)
        return session.sql(transform)
    try:
        result = transform(*frames)
    except PySparkException:
        raise
    except Exception as error:
        # It is the file's own code, and may do anything wrong.
        raise DefinitionError([f"the function raises {type(error).__name__}: {error}"]) from error
    if not isinstance(result, DataFrame):
        raise DefinitionError([f"transform returns {type(result).__name__}; it has to return a DataFrame"])
    return result


def _own_query(pipeline: Pipeline, sink: Sink, result: DataFrame) -> PlannedQuery:
    """With a sink of Spark's own, or a topic without transactions."""
    assert isinstance(sink, ToTable | ToTopic), "all others are decided"
    if isinstance(sink, ToTable):
        rows = result if sink.where is None else result.where(F.expr(sink.where))
        return PlannedQuery(pipeline.name, rows.drop(RECORD), pipeline.output_mode, sink, as_text(sink.options))
    found = _sink_rows(pipeline, sink, result)
    rows = result if sink.where is None else result.where(F.expr(sink.where))
    rows = rows.select(*[column.alias(name) for name, column in found.fields])
    return PlannedQuery(pipeline.name, rows, pipeline.output_mode, sink, sink_options(pipeline, sink))


def _sink_rows(pipeline: Pipeline, sink: Sink, result: DataFrame) -> SinkRows:
    found = rows_of(result, sink)
    if isinstance(sink, ToTopic):
        try:
            check_columns(parse_sink_options(sink_options(pipeline, sink), is_stream=True), found.schema)
        except OptionError as error:
            raise DefinitionError([str(error)]) from error
    return found


def _flat(session: SparkSession, pipeline: Pipeline, source: FromTopic, group_id: str) -> DataFrame:
    """Rows of record and decoded columns; where there are dead letters, also whether the value is broken."""
    options = source_options(pipeline, source, group_id=group_id)
    raw = session.readStream.format("tidelog").options(**options).load()
    record = F.struct(*[F.col(name) for name in raw.columns]).alias(RECORD)
    if source.decode is None:
        return raw.select(record)
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
    return flat if keeps_broken else flat.drop(_BROKEN)


def _decoded(
    session: SparkSession, pipeline: Pipeline, source: FromTopic, group_id: str
) -> tuple[DataFrame, Column | None]:
    """Rows of record and decoded columns, and why a row is a dead letter: null if it is none."""
    flat = _flat(session, pipeline, source, group_id)
    if source.decode is None or source.dead_letters is None:
        return flat, None
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


def _check_format(session: SparkSession, name: str) -> None:
    """Whether Spark has this format, and can write a stream in it. Without it the query would fail when it starts."""
    jvm = session._jvm  # noqa: SLF001 - Spark has no other way to ask
    if jvm is None:
        return
    try:
        found = jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(
            name,
            session._jsparkSession.sessionState().conf(),  # noqa: SLF001
        )
    except (Py4JJavaError, PySparkException) as error:
        raise DefinitionError(
            [
                f"Spark has no format {name}: the jar that brings it is not there; spark= can name it, as spark.jars.packages"
            ]
        ) from error
    if not any(jvm.java.lang.Class.forName(each).isAssignableFrom(found) for each in _WRITES_STREAMS):
        raise DefinitionError([f"Spark writes no streams in the format {name}"])


def _check_streaming(session: SparkSession, rows: DataFrame, output_mode: str) -> None:
    """What Spark would refuse when the query starts, such as windows without a watermark in append mode."""
    jvm = session._jvm  # noqa: SLF001 - Spark has no other way to ask before a query starts
    if jvm is None:
        return
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
