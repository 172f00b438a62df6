"""The first rows of each step of a pipeline, made of a sample of the records that are there: by the same steps, as a batch.

    for step in preview(spark, pipeline, rows=5, sample=1000): ...

    orders                 the records and their columns
    orders: outcomes       how many rows go on, and what becomes of the others
    result                 what the transformation makes of them
    sink revenue           what the sink would get, by its condition

Nothing is written, no group is asked and no checkpoint made. What only a stream knows does not show: rows that come too late for
a watermark, windows that are not closed yet, and state of earlier records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.pipelines.batch_records import BatchRecords, newest_ranges
from tidelog.spark.pipelines.batch_rows import rows_of
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.errors import DefinitionError, sentence_of
from tidelog.spark.pipelines.expectations import EXPECTATIONS_MAX
from tidelog.spark.pipelines.query_plan import transformed
from tidelog.spark.pipelines.session import own_session
from tidelog.spark.pipelines.sinks import Sink
from tidelog.spark.pipelines.source_rows import checked_rows, flat_rows, good_rows, outcome, tolerant, without_own

ROWS = 5
SAMPLE = 1000
# Rows of all steps are in the driver's memory, and a person reads them.
ROWS_MAX = 1000
# Spark keeps the sample while it is looked at.
SAMPLE_MAX = 1_000_000
# Good ones, broken ones, and those of each expectation.
_OUTCOMES_MAX = EXPECTATIONS_MAX + 2
_OUTCOME, _COUNT = "outcome", "rows"


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

    def steps(self) -> Iterator[PreviewedStep]:
        frames: list[DataFrame] = []
        for source in self._pipeline.sources:
            looked_at = tolerant(source)
            found: list[DataFrame] = []
            yield self._shown(source.view, partial(flat_rows, looked_at, self._records), found)
            if not found:
                return
            checked = checked_rows(looked_at, found[0], counts=False)
            if checked is not found[0]:
                counted = partial(_counted, checked.select(outcome(source)))
                yield self._shown(f"{source.view}: outcomes", counted, rows_max=_OUTCOMES_MAX)
            frames.append(good_rows(looked_at, checked))
        results: list[DataFrame] = []
        yield self._shown("result", lambda: transformed(self._session, self._pipeline, frames), results)
        for result in results:
            for sink in self._pipeline.sinks:
                yield self._shown(f"sink {sink.label}", partial(_written, result, sink))

    def _shown(
        self,
        name: str,
        made: Callable[[], DataFrame],
        kept: list[DataFrame] | None = None,
        rows_max: int | None = None,
    ) -> PreviewedStep:
        """The first rows of what is made, which is kept where it can be shown."""
        rows_max = rows_max or self._rows
        try:
            frame = made()
            shown = without_own(frame)
            rows = shown.limit(rows_max + 1).collect()
        except PySparkException as error:
            return PreviewedStep(name, (), [], problem=sentence_of(error))
        except DefinitionError as error:
            return PreviewedStep(name, (), [], problem=str(error))
        if kept is not None:
            kept.append(frame)
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
