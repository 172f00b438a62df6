"""What `tidelog pipeline validate` is told by tables that are there: asked, and left as they were."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToDatabase, ToFiles, ToTable
from tidelog.spark.pipelines.batch_rows import SinkRows
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.query_sinks import output_problems, query_sinks
from tidelog.spark.pipelines.sinks import Sink

ROWS = StructType([StructField("id", LongType()), StructField("name", StringType())])


def problems(directory: Path, sinks: Sequence[Sink]) -> list[str]:
    pipeline = Pipeline(name="p", source=FromTopic("t", Json("id bigint, name string")), sink=list(sinks))
    file = PipelineFile(directory / "jobs.py", [pipeline], [])
    rows = [SinkRows(each.label, (), ROWS) for each in pipeline.sinks]
    checkpoint = file.checkpoint_of(pipeline)
    return output_problems(query_sinks(pipeline, rows, checkpoint=checkpoint, query="p", beside=file.beside))


@pytest.fixture
def sinks(tmp_path: Path) -> list[Sink]:
    """Of every kind that needs no server."""
    catalog = {"uri": "sqlite:///catalog.db", "warehouse": "warehouse"}
    return [
        ToTable("delta", format="delta", name="delta"),
        ToTable(name="shop.iceberg", format="iceberg", catalog=catalog),
        ToDatabase("sqlite:///shop.db", table="sqlite"),
        ToFiles("files"),
    ]


def test_tables_that_are_missing_are_no_problem_and_stay_missing(tmp_path: Path, sinks: list[Sink]) -> None:
    assert problems(tmp_path, sinks) == []
    assert list(tmp_path.iterdir()) == []


def test_tables_that_are_there_and_do_not_take_the_rows_say_so(tmp_path: Path, sinks: list[Sink]) -> None:
    """Each has `id` as text, where the rows have a number."""
    text = pa.table({"id": ["a"], "name": ["b"]})
    write_deltalake(tmp_path / "delta", text)
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    catalog.create_table("shop.iceberg", text.schema)
    catalog.close()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE sqlite (id TEXT, name TEXT, day TEXT NOT NULL)")
        connection.commit()
    version = DeltaTable(tmp_path / "delta").version()

    delta, iceberg, *sqlite = problems(tmp_path, sinks)

    assert delta.startswith("sink delta: ")
    assert "id" in delta
    assert iceberg.startswith("sink shop.iceberg: ")
    assert "id" in iceberg
    assert sqlite == [
        "sink sqlite: sqlite has the column id as TEXT, which does not hold all of int64",
        "sink sqlite: sqlite must have a value in day, which the rows do not have",
    ]
    assert DeltaTable(tmp_path / "delta").version() == version


def test_what_does_not_answer_is_a_problem_and_no_traceback(tmp_path: Path) -> None:
    far = ToTable(name="shop.t", format="iceberg", catalog={"type": "rest", "uri": "http://127.0.0.1:1"})

    (found,) = problems(tmp_path, [far])

    assert found.startswith("sink shop.t: the table shop.t of the catalog http://127.0.0.1:1 cannot be reached: ")
