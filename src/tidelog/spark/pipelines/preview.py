"""The first rows of each step of a pipeline, made of a sample of the records that are there: by the same steps, as a batch.

    for step in preview(spark, pipeline, rows=5, sample=1000): ...

    orders                 the records and their columns; then each view, behind all that it takes from
    orders: outcomes       how many rows go on, and what becomes of the others
    result                 what the transformation makes of them
    sink revenue           what the sink would get, by its condition

Nothing is written, no group is asked and no checkpoint made. What only a stream knows does not show: rows that come too late for
a watermark, windows that are not closed yet, and state of earlier records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.pipelines.batch_records import BatchRecords, newest_ranges
from tidelog.spark.pipelines.batch_rows import rows_of
from tidelog.spark.pipelines.batch_tables import batch_tables
from tidelog.spark.pipelines.definition import FromTopic, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError, sentence_of
from tidelog.spark.pipelines.expectations import EXPECTATIONS_MAX
from tidelog.spark.pipelines.expected_rows import FATE
from tidelog.spark.pipelines.session import own_session
from tidelog.spark.pipelines.sinks import Sink
from tidelog.spark.pipelines.source_rows import outcome, tolerant, without_own
from tidelog.spark.pipelines.views import View, in_order

ROWS = 5
SAMPLE = 1000
# Rows of all steps are in the driver's memory, and a person reads them.
ROWS_MAX = 1000
# Spark keeps the sample while it is looked at.
SAMPLE_MAX = 1_000_000
# Good ones, broken ones, and those of each expectation.
_OUTCOMES_MAX = EXPECTATIONS_MAX + 2
_OUTCOME, _COUNT = "outcome", "rows"
_RESULT = "result"

_Made = TypeVar("_Made")


class PreviewedStep(NamedTuple):
    name: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]]
    has_more: bool = False
    problem: str | None = None
    """Why there is nothing to show, in one sentence; later steps have it too."""


def preview(spark: SparkSession, pipeline: Pipeline, *, rows: int, sample: int) -> Iterator[PreviewedStep]:
    """Step by step, as they are made. SourceError and OptionError where records cannot be had."""
    session = own_session(spark, pipeline)
    ranges = {index: newest_ranges(pipeline, each, sample) for index, each in enumerate(pipeline.sources)}
    records = BatchRecords(session, pipeline, ranges, keeps=True)
    try:
        yield from _Preview(session, pipeline, records, rows).steps()
    finally:
        records.close()


class _Preview:
    def __init__(self, session: SparkSession, pipeline: Pipeline, records: BatchRecords, rows: int) -> None:
        self._session = session
        self._pipeline = pipeline
        self._records = records
        self._rows = rows
        self._problems: dict[str, list[str]] = {}
        """By the part of the pipeline that they are in."""
        self._failed: set[str] = set()
        """Steps, in small letters, that could not be shown: who takes from them would fail by the same."""

    def steps(self) -> Iterator[PreviewedStep]:
        pipeline = self._pipeline
        looked_at = replace(
            pipeline,
            source=[tolerant(each) for each in pipeline.sources],
            views=[tolerant(each) for each in pipeline.views],
        )
        tables = batch_tables(self._session, looked_at, self._records, self._tried)
        for where, declared in self._declared():
            name = declared.view if isinstance(declared, FromTopic) else declared.name
            table = tables.tables[name.lower()]
            yield from self._planned(name, where, table.takes, table.checked)
            if table.checked is not None and FATE in table.checked.columns and name.lower() not in self._failed:
                counted = partial(_counted, table.checked.select(outcome(declared)))
                yield self._shown(f"{name}: outcomes", counted, rows_max=_OUTCOMES_MAX)
        result = tables.result()
        of_result = [each for each in pipeline.sinks if each.of is None]
        if of_result:
            yield from self._planned(_RESULT, "transform", tables.taken_by_sink(of_result[0]), result)
        for sink in pipeline.sinks:
            taken = result if sink.of is None else tables.usable(sink.of)
            if taken is not None and (sink.of or _RESULT).lower() not in self._failed:
                yield self._shown(f"sink {sink.label}", partial(_written, taken, sink))

    def _declared(self) -> Iterator[tuple[str, FromTopic | View]]:
        """Sources and views as they can be made, with what their problems are told under."""
        sources = self._pipeline.sources
        for number, source in enumerate(sources, 1):
            yield "source" if len(sources) == 1 else f"source {number}", source
        for view in in_order(self._pipeline.views, self._pipeline.tables)[0]:
            yield f"view {view.name}", view

    def _tried(self, where: str | None, step: Callable[[], _Made]) -> _Made | None:
        try:
            return step()
        except PySparkException as error:
            found = [sentence_of(error)]
        except DefinitionError as error:
            found = error.problems
        self._problems.setdefault(where or "", []).extend(found)
        return None

    def _planned(self, name: str, where: str, takes: Sequence[str], frame: DataFrame | None) -> Iterator[PreviewedStep]:
        """The first rows, and what is wrong with it; nothing of what only depends on something that is wrong."""
        if not self._failed.isdisjoint(each.lower() for each in takes):
            self._failed.add(name.lower())
            return
        if frame is not None:
            shown = self._shown(name, lambda: frame)
            self._failed.update([] if shown.problem is None else [name.lower()])
            yield shown
        for part, problems in self._problems.items():
            if part == where:
                yield from (PreviewedStep(name, (), [], problem=each) for each in problems)
            elif part.startswith(f"{where}: "):
                inner = part.removeprefix(f"{where}: ")
                yield from (PreviewedStep(name, (), [], problem=f"{inner}: {each}") for each in problems)

    def _shown(self, name: str, made: Callable[[], DataFrame], rows_max: int | None = None) -> PreviewedStep:
        """The first rows of what is made."""
        rows_max = rows_max or self._rows
        try:
            shown = without_own(made())
            rows = shown.limit(rows_max + 1).collect()
        except PySparkException as error:
            return PreviewedStep(name, (), [], problem=sentence_of(error))
        except DefinitionError as error:
            return PreviewedStep(name, (), [], problem=str(error))
        found = [each.asDict(recursive=True) for each in rows[:rows_max]]
        return PreviewedStep(name, tuple(shown.columns), found, has_more=len(rows) > rows_max)


def _counted(outcomes: DataFrame) -> DataFrame:
    rows = outcomes.toDF(_OUTCOME)
    return rows.groupBy(_OUTCOME).agg(F.count("*").alias(_COUNT)).orderBy(F.desc(_COUNT), _OUTCOME)


def _written(result: DataFrame, sink: Sink) -> DataFrame:
    """What a sink gets."""
    fields = rows_of(result, sink).fields
    kept = result if sink.where is None else result.where(F.expr(sink.where))
    return kept.select(*[column.alias(name) for name, column in fields])
