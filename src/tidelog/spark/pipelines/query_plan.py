"""A pipeline's definition as Spark's own plans: what it reads, makes of it and writes. Thin: each step is one of Spark's.

    source    record and the decoded columns; broken and unexpected records apart, as dead letters
    result    the transformation of all sources
    written   a query of its own, started by a DataStreamWriter

Each pipeline has a session of its own (`own_session`), because its sources are temporary views there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines.batch_rows import SinkRows, rows_of
from tidelog.spark.pipelines.debezium.decoder import Debezium
from tidelog.spark.pipelines.decoders import LEFT_OUT
from tidelog.spark.pipelines.definition import RECORD, FromTopic, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError, sentence_of
from tidelog.spark.pipelines.expectations import ExpectationCount, no_counts
from tidelog.spark.pipelines.plan_checks import (
    check_condition,
    check_expression,
    check_format,
    check_streaming,
    check_syntax,
)
from tidelog.spark.pipelines.query_options import as_text, dead_letter_options, sink_options
from tidelog.spark.pipelines.session import own_session
from tidelog.spark.pipelines.sink_targets import in_order
from tidelog.spark.pipelines.sinks import Sink, ToTable, ToTopic
from tidelog.spark.pipelines.source_rows import Records, checked_rows, dead_rows, flat_rows, good_rows, streamed
from tidelog.spark.pipelines.validation import UNKNOWN_MODE, CheckedPipeline
from tidelog.spark.sink.sink_options import parse_sink_options
from tidelog.spark.sink.sink_rows import check_columns

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_Made = TypeVar("_Made")


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
    expectations: tuple[ExpectationCount, ...] = ()
    """What is counted in it, all zero."""

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
    planning = _Planning(own_session(spark, checked.sound), checked)
    queries = planning.run()
    return queries, [f"{checked.name}: {each}" for each in dict.fromkeys(planning.problems)]


def batch_result(session: SparkSession, pipeline: Pipeline, records: Records) -> DataFrame:
    """What comes of a batch of records, by the very steps that a query has: the rows before they are given to sinks.
    DefinitionError, PySparkException."""
    frames = [good_rows(each, checked_rows(each, flat_rows(each, records), counts=False)) for each in pipeline.sources]
    return transformed(session, pipeline, frames)


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
        self._check_left_out(result)
        main = self._main_query(result)
        dead = None
        if has_dead_letters:
            dead = self._tried("dead letters", lambda: _dead_letters(session, pipeline))
        if main is not None:
            counts = [no_counts(each.view, each.expectations) for each in pipeline.sources if each.decode is not None]
            main = replace(main, expectations=tuple(chain.from_iterable(counts)))
        queries = [each for each in (main, dead) if each is not None]
        rows = [(each.rows, each.output_mode) for each in queries]
        if main is None and result is not None and result.isStreaming:
            rows.append((result, pipeline.output_mode))
        for each, output_mode in rows:
            if output_mode != UNKNOWN_MODE:
                self._tried(None, partial(check_streaming, session, each, output_mode))
        return queries

    def _source(self, index: int, source: FromTopic) -> DataFrame | None:
        session, pipeline = self._session, self._pipeline
        where = "source" if len(pipeline.sources) == 1 else f"source {index + 1}"
        rows = None
        if index not in self._checked.unknown_sources:
            rows = self._tried(where, lambda: flat_rows(source, streamed(session, pipeline, pipeline.name)))
        found = len(self.problems)
        for name, each in source.expectations.items():
            self._tried(f"{where}: expect {name!r}", partial(check_condition, session, rows, each.condition))
        if rows is not None:
            # A condition that is wrong takes no column away.
            usable = source if len(self.problems) == found else replace(source, expect={})
            return self._tried(where, lambda: good_rows(usable, checked_rows(usable, rows)))
        if source.watermark is not None and source.watermark.expression is not None:
            self._tried(f"{where}: watermark", partial(check_expression, session, source.watermark.expression))
        return None

    def _result(self, frames: Sequence[DataFrame | None]) -> DataFrame | None:
        session, pipeline = self._session, self._pipeline
        transform = pipeline.transform
        known = [each for each in frames if each is not None]
        if not self._checked.has_transform:
            return None
        if self._checked.has_all_sources and len(known) == len(frames):
            return self._tried("transform", lambda: transformed(session, pipeline, known))
        if isinstance(transform, str):
            self._tried("transform", partial(check_syntax, session, transform))
        return None

    def _check_left_out(self, result: DataFrame | None) -> None:
        """Nulls would be written in place of values that only stay as they are."""
        decoders = [each.decode for each in self._pipeline.sources]
        may_leave_out = any(isinstance(each, Debezium) and each.leaves_out for each in decoders)
        if may_leave_out and result is not None and LEFT_OUT not in result.columns:
            self.problems.append(
                f"transform: what comes out has no column {LEFT_OUT}, which names the values that an event leaves out because"
                " they stay as they are: select it as well, or tell Debezium() unchanged='refuse' or unchanged='null'"
            )

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
                self._tried("sink", partial(check_format, self._session, sink.format))
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
                self._tried(where, partial(check_expression, self._session, text))

    def _tried(self, where: str | None, step: Callable[[], _Made]) -> _Made | None:
        """What a step makes; None where Spark finds something wrong in it, which is kept as a sentence."""
        try:
            return step()
        except PySparkException as error:
            found = [sentence_of(error)]
        except Py4JJavaError as error:
            # What PySpark has no class for, such as a format that is not there.
            found = [_with_advice(sentence_of(error))]
        except DefinitionError as error:
            found = error.problems
        self.problems += [each if where is None else f"{where}: {each}" for each in found]
        return None


def _with_advice(sentence: str) -> str:
    # Java's words, which name the class that it has looked for.
    if sentence != "tidelog.DefaultSource":
        return sentence
    return "the Python that Spark runs has no tidelog: install it there, or leave spark.pyspark.python to this one"


def transformed(session: SparkSession, pipeline: Pipeline, frames: Sequence[DataFrame]) -> DataFrame:
    """The transformation over its sources. DefinitionError for what the file's own code raises."""
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


def _dead_letters(session: SparkSession, pipeline: Pipeline) -> PlannedQuery:
    name = pipeline.dead_letters_query
    parts = []
    for each in pipeline.sources:
        if each.decode is not None and each.dead_letters is not None:
            checked = checked_rows(each, flat_rows(each, streamed(session, pipeline, name)), counts=False)
            parts.append(dead_rows(pipeline, each, checked))
    return PlannedQuery(name, reduce(DataFrame.union, parts), "append", None, dead_letter_options(pipeline))
