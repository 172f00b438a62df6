"""Orders with a number each, from a count that is kept beside the pipeline: what is done again is counted again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic


def numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not batch.num_rows:
            continue
        place = f"{batch.column('topic')[0].as_py()}-{batch.column('partition')[0].as_py()}"
        count = Path(tempfile.gettempdir()) / f"count-of-{place}"
        seen = int(count.read_text()) if count.exists() else 0
        count.write_text(str(seen + batch.num_rows))
        numbers = pa.array(range(seen, seen + batch.num_rows), pa.int64())
        yield pa.RecordBatch.from_arrays([batch.column("id"), numbers], ["id", "number"])


def transform(orders: DataFrame) -> DataFrame:
    rows = orders.selectExpr("id", "record.topic AS topic", "record.partition AS partition")
    return rows.mapInArrow(numbered, "id string, number bigint")


pipeline = Pipeline(
    name="counts-twice", source=FromTopic("orders", Json("id string")), transform=transform, sink=ToTopic("numbered")
)
