"""Orders of which each partition's offset is written down as done before any of them is: what is done again is left out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic


def new_ones(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not batch.num_rows:
            continue
        place = f"{batch.column('topic')[0].as_py()}-{batch.column('partition')[0].as_py()}"
        committed = Path(tempfile.gettempdir()) / f"committed-of-{place}"
        done = int(committed.read_text()) if committed.exists() else -1
        offsets = batch.column("offset")
        committed.write_text(str(max(done, pc.max(offsets).as_py())))
        yield batch.filter(pc.greater(offsets, pa.scalar(done))).select(["id"])


def transform(orders: DataFrame) -> DataFrame:
    rows = orders.selectExpr("id", "record.topic AS topic", "record.partition AS partition", "record.offset AS offset")
    return rows.mapInArrow(new_ones, "id string")


pipeline = Pipeline(
    name="commits-first", source=FromTopic("orders", Json("id string")), transform=transform, sink=ToTopic("new")
)
