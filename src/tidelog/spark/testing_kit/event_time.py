"""The latest event of records that were given, by the source's own decoding, expectations and watermark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tidelog.spark.pipelines.definition import RECORD, FromTopic
from tidelog.spark.testing_kit.errors import PipelineTestError
from tidelog.spark.testing_kit.given_records import GivenRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INDEX = "offset"
_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)


class LatestEvent(NamedTuple):
    micros: int
    record: GivenRecord


def latest_event(spark: SparkSession, source: FromTopic, records: Sequence[GivenRecord]) -> LatestEvent | None:
    """Of those that the transformation would get; None where it would get none, or none with a time."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - when a test needs it
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from tidelog.spark.pipelines.errors import sentence_of  # noqa: PLC0415
    from tidelog.spark.pipelines.session import frame_of  # noqa: PLC0415
    from tidelog.spark.pipelines.source_rows import checked_rows, flat_rows, good_rows  # noqa: PLC0415

    watermark = source.watermark
    if watermark is None or not records:
        return None
    now = dt.datetime.now(dt.UTC)
    rows = [
        (each.key, each.value, source.topic or "", 0, index, _time(each, now), 0, list(each.headers))
        for index, each in enumerate(records)
    ]
    try:
        raw = frame_of(spark, rows, _SCHEMA)
        timeless = replace(source, watermark=None)
        good = good_rows(timeless, checked_rows(timeless, flat_rows(timeless, lambda _: raw), counts=False))
        time = F.col(watermark.column) if watermark.expression is None else F.expr(watermark.expression)
        micros = F.unix_micros(time.cast("timestamp"))
        timed = good.select(micros.alias("micros"), F.col(f"{RECORD}.{_INDEX}").alias("index"))
        # A null is less than any time, and where there is nothing else it is what comes out.
        (found,) = timed.agg(F.max("micros").alias("micros"), F.max_by("index", "micros").alias("index")).collect()
    except PySparkException as error:
        raise PipelineTestError(f"the rows given to {source.view} have no event time: {sentence_of(error)}") from error
    return None if found["micros"] is None else LatestEvent(found["micros"], records[found["index"]])


def _time(record: GivenRecord, now: dt.datetime) -> dt.datetime:
    return now if record.timestamp_ms is None else dt.datetime.fromtimestamp(record.timestamp_ms / 1000, dt.UTC)
