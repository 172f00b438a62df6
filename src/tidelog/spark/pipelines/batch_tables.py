"""The tables of a pipeline over a batch of records, by the very steps that its query has: what `preview`, `diff` and `backfill`
look at.

    tables = batch_tables(session, pipeline, records, tried)      sources and views, and what the transformation makes
    rows = rows_of_sink(session, pipeline, records, sink)         what one sink takes, before its own condition
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.sinks import Sink
from tidelog.spark.pipelines.source_rows import Records
from tidelog.spark.pipelines.table_plan import TablePlan, Tried
from tidelog.spark.pipelines.validation import CheckedPipeline

_Made = TypeVar("_Made")


def batch_tables(session: SparkSession, pipeline: Pipeline, records: Records, tried: Tried) -> TablePlan:
    """Nothing is counted, and nothing is shared by a shuffle: a batch that is only looked at may be computed twice."""
    return TablePlan(session, CheckedPipeline(pipeline.name, (), pipeline), tried, records, counts=False)


def rows_of_sink(session: SparkSession, pipeline: Pipeline, records: Records, sink: Sink) -> DataFrame:
    """DefinitionError, PySparkException."""
    tables = batch_tables(session, pipeline, records, _raising)
    found = tables.result() if sink.of is None else tables.usable(sink.of)
    assert found is not None, "what cannot be made was raised"
    return found


def _raising(where: str | None, step: Callable[[], _Made]) -> _Made | None:
    try:
        return step()
    except DefinitionError as error:
        raise DefinitionError([each if where is None else f"{where}: {each}" for each in error.problems]) from error
