"""A pipeline's definition as Spark's own plans: what it reads, makes of it and writes. Thin: each step is one of Spark's.

    tables    sources and views (`table_plan`); broken and unexpected records apart, as dead letters
    result    the transformation
    written   a query of its own, started by a DataStreamWriter

Dead letters are written by the same query, beside the rows of its sinks (`branches`), unless its sink is Spark's own.

Each pipeline has a session of its own (`own_session`), because its tables are temporary views there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.connect_session import is_connect
from tidelog.spark.errors import OptionError
from tidelog.spark.pipelines.batch_rows import SinkRows, rows_of
from tidelog.spark.pipelines.branches import Origin, branches_of, forks_of, joined
from tidelog.spark.pipelines.debezium.decoder import Debezium
from tidelog.spark.pipelines.decoders import LEFT_OUT
from tidelog.spark.pipelines.definition import RECORD, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError, sentence_of
from tidelog.spark.pipelines.expectations import ExpectationCount, no_counts
from tidelog.spark.pipelines.plan_checks import check_expression, check_format, check_streaming
from tidelog.spark.pipelines.query_options import as_text, dead_letter_options, letter_sinks, sink_options
from tidelog.spark.pipelines.row_steps import has_chance, has_watermark, is_stateful
from tidelog.spark.pipelines.session import own_session
from tidelog.spark.pipelines.sink_targets import in_order
from tidelog.spark.pipelines.sinks import Sink, ToTable, ToTopic
from tidelog.spark.pipelines.source_rows import streamed
from tidelog.spark.pipelines.table_plan import Table, TablePlan
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
    """Spark's own; None for dead letters that are a query of their own, and where `sinks` are written by one decision."""
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


class PlanForm(NamedTuple):
    """What of a plan is as it was when its checkpoint was begun."""

    letters_apart: bool = False
    """Dead letters stay a query of their own."""
    reads_apart: bool = False
    """Sources of one topic read it each by itself."""


NEW = PlanForm()
"""Of a checkpoint that is to be begun."""


def plan_pipeline(spark: SparkSession, pipeline: Pipeline, form: PlanForm = NEW) -> list[PlannedQuery]:
    """The queries of a pipeline. DefinitionError for all that Spark finds wrong with it; no cluster is asked."""
    checked = CheckedPipeline(pipeline.name, (), pipeline)
    queries, problems = plan_checked(spark, checked, form)
    if problems:
        raise DefinitionError(problems)
    return queries


def plan_checked(
    spark: SparkSession, checked: CheckedPipeline, form: PlanForm = NEW
) -> tuple[list[PlannedQuery], list[str]]:
    """The queries of a pipeline as far as they can be planned, and all that Spark finds wrong, each with the pipeline's name.

    What depends on something that is wrong is read by Spark's parser alone.
    """
    planning = _Planning(spark, checked, form)
    queries = planning.run()
    return queries, [f"{checked.name}: {each}" for each in dict.fromkeys(planning.problems)]


class _Planning:
    """One pipeline, part by part: a part that fails leaves a sentence, and the others go on."""

    def __init__(self, spark: SparkSession, checked: CheckedPipeline, form: PlanForm) -> None:
        self.problems: list[str] = []
        self._spark = spark
        self._checked = checked
        self._pipeline = checked.sound
        self._form = form
        self._has_letters_apart = self._pipeline.has_dead_letters and (
            form.letters_apart or not self._pipeline.is_decided
        )

    def run(self) -> list[PlannedQuery]:
        pipeline = self._pipeline
        tables = self._tables(frozenset())
        result = tables.result()
        for each in self._taken(tables, result).values():
            self._check_left_out(each)
        main, rows = self._main_query(tables, result)
        dead = None
        # Dead letters are made of nothing but tables, and would only tell the same once more.
        if self._has_letters_apart and not self.problems:
            dead = self._tried("dead letters", self._dead_letters)
        queries = [each for each in (main, dead) if each is not None]
        planned = [(each.rows, each.output_mode) for each in queries]
        if main is None:
            planned += [(each, pipeline.output_mode) for each in rows]
        for each, output_mode in planned:
            if output_mode != UNKNOWN_MODE:
                self._tried(None, partial(check_streaming, self._spark, each, output_mode))
        return queries

    def _tables(self, shared: frozenset[str]) -> TablePlan:
        session = own_session(self._spark, self._pipeline)
        records = streamed(session, self._pipeline, self._pipeline.name)
        return TablePlan(
            session, self._checked, self._tried, records, shared=shared, reads_apart=self._form.reads_apart
        )

    def _check_left_out(self, taken: DataFrame | None) -> None:
        """Nulls would be written in place of values that only stay as they are."""
        decoders = [each.decode for each in self._pipeline.sources]
        may_leave_out = any(isinstance(each, Debezium) and each.leaves_out for each in decoders)
        if may_leave_out and taken is not None and LEFT_OUT not in taken.columns:
            self.problems.append(
                f"transform: what comes out has no column {LEFT_OUT}, which names the values that an event leaves out because"
                " they stay as they are: select it as well, or tell Debezium() unchanged='refuse' or unchanged='null'"
            )

    def _main_query(self, tables: TablePlan, result: DataFrame | None) -> tuple[PlannedQuery | None, list[DataFrame]]:
        """And the rows that its sinks take, as far as they can be had."""
        pipeline = self._pipeline
        if not self._checked.has_sink:
            return None, [] if result is None else [result]
        taken = self._taken(tables, result)
        streams = {label: each for label, each in taken.items() if each is None or each.isStreaming}
        if len(streams) < len(taken):
            self.problems.append("sink: what it takes does not come from the source: it is no stream")
            return None, []
        known = [each for each in taken.values() if each is not None]
        if not pipeline.is_decided:
            (sink,) = pipeline.sinks
            return self._own_query(sink, taken[sink.label]), known
        origins = self._origins(tables, taken)
        if origins is None:
            return None, known
        counts = [
            no_counts(each.name, each.expectations) for each in tables.tables.values() if each.expectations is not None
        ]
        query = PlannedQuery(
            pipeline.name,
            known[0],
            pipeline.output_mode,
            None,
            {},
            expectations=tuple(chain.from_iterable(counts)),
        )
        order = [each.label for each in (*in_order(pipeline), *self._letter_sinks)]
        if len(origins) == 1:
            rows = {each.label: each for each in origins[0].sinks}
            return replace(query, sinks=tuple(rows[label] for label in order)), known
        made = self._tried(None, lambda: self._joined(tables, origins, order))
        return (None, known) if made is None else (replace(query, rows=made[0], sinks=tuple(made[1])), known)

    @property
    def _letter_sinks(self) -> list[ToTopic]:
        return [] if self._has_letters_apart else letter_sinks(self._pipeline)

    def _origins(self, tables: TablePlan, taken: dict[str, DataFrame | None]) -> list[Origin] | None:
        """Rows with the sinks that take them, dead letters among them; None where something is wrong with any."""
        pipeline = self._pipeline
        found: dict[int, Origin] = {}
        is_whole = True
        for index, sink in enumerate(pipeline.sinks):
            where = "sink" if len(pipeline.sinks) == 1 else f"sink {index + 1}"
            frame = taken[sink.label]
            if frame is None:
                self._read_only(where, sink)
                is_whole = False
                continue
            rows = self._tried(where, partial(_sink_rows, pipeline, sink, frame))
            if rows is None:
                is_whole = False
            else:
                origin = found.setdefault(id(frame), Origin(frame, (), tables.taken_by_sink(sink)))
                found[id(frame)] = replace(origin, sinks=(*origin.sinks, rows))
        letters = [self._letters(tables, each) for each in self._letter_sinks] if is_whole else []
        return [*found.values(), *chain.from_iterable(letters)] if is_whole else None

    def _letters(self, tables: TablePlan, sink: ToTopic) -> list[Origin]:
        """Dead letters of one topic, which several tables may have."""
        pipeline = self._pipeline
        found = []
        for table in tables.with_dead_letters:
            if table.dead_letters == sink.topic:
                rows = table.dead_rows(pipeline).drop("topic")
                found.append(Origin(rows, (_sink_rows(pipeline, sink, rows),), (table.name,)))
        return found

    def _joined(
        self, tables: TablePlan, origins: Sequence[Origin], order: Sequence[str]
    ) -> tuple[DataFrame, list[SinkRows]]:
        branches = branches_of(origins, tables.bases)
        if len(branches) == 1:
            return joined(branches, order)
        takes = {name: each.takes for name, each in tables.tables.items()}
        forks = forks_of(branches, takes, tables.made_by_row)
        found = [tables.tables[name] for name in sorted(forks)]
        problems = self._unseen_problems(found) if is_connect(self._spark) else _fork_problems(found)
        if problems:
            raise DefinitionError(problems)
        # Once more, with rows that several branches take from shared by them.
        tables = self._tables(forks)
        again = self._origins(tables, self._taken(tables, tables.result()))
        assert again is not None, "it was planned before"
        return joined(branches_of(again, tables.bases), order)

    def _unseen_problems(self, forks: Sequence[Table]) -> list[str]:
        """Of what is known without a look at Spark's plans: a source keeps no state, and its watermark comes behind."""
        views = {each.name.lower() for each in self._pipeline.views}
        return [
            f"view {each.name}: several take from it, and over Spark Connect nobody can see whether Spark would keep its state"
            " for each of them: run it without Spark Connect, or make pipelines of them"
            for each in forks
            if each.name.lower() in views
        ]

    def _taken(self, tables: TablePlan, result: DataFrame | None) -> dict[str, DataFrame | None]:
        """What each sink takes, by its label."""
        return {each.label: result if each.of is None else tables.usable(each.of) for each in self._pipeline.sinks}

    def _own_query(self, sink: Sink, rows: DataFrame | None) -> PlannedQuery | None:
        """One whose sink is Spark's own."""
        if isinstance(sink, ToTable):
            self._tried("sink", partial(check_format, self._spark, sink.format))
        if rows is None:
            self._read_only("sink", sink)
            return None
        return self._tried("sink", lambda: _own_query(self._pipeline, sink, rows))

    def _dead_letters(self) -> PlannedQuery:
        """As a query of their own, which reads what they are made of a second time."""
        pipeline = self._pipeline
        name = pipeline.dead_letters_query
        session = own_session(self._spark, pipeline)
        records = streamed(session, pipeline, name)
        # As in all checkpoints of such a query.
        tables = TablePlan(session, self._checked, self._tried, records, counts=False, reads_apart=True)
        parts = [each.dead_rows(pipeline) for each in tables.with_dead_letters]
        return PlannedQuery(name, reduce(DataFrame.union, parts), "append", None, dead_letter_options(pipeline))

    def _read_only(self, where: str, sink: Sink) -> None:
        """Expressions of a sink, read by Spark's parser: nobody knows the columns."""
        for name in ("key", "where", "deletes"):
            text = getattr(sink, name, None)
            if text is not None:
                self._tried(where, partial(check_expression, self._spark, text))

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


def _fork_problems(tables: Sequence[Table]) -> list[str]:
    """Of tables that several branches take from, and that Spark would compute for each of them."""
    found = []
    for each in tables:
        assert each.checked is not None, "it was planned"
        if has_watermark(each.checked):
            found.append(
                f"view {each.name}: several take from it, and Spark loses the watermark from before it on the way to them:"
                " give the view watermark=, and the source none"
            )
        elif is_stateful(each.checked):
            found.append(
                f"view {each.name}: Spark would keep its state (of an aggregation, a join or the like) once for each of those"
                " that take from it, unless they only choose rows and compute columns: make pipelines of them"
            )
        elif has_chance(each.checked):
            found.append(
                f"view {each.name}: a value in it is by chance (rand, uuid, shuffle), and Spark would draw another one for each"
                " of those that take from it: compute it where one takes it, or write the view to a topic first"
            )
    return found


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
