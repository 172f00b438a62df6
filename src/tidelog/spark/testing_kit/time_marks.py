"""Event time moved by hand: a record that no row comes of, and that the watermark takes for one of its time.

    mark_key("7f3a9c21", micros)      the key of such a record: by it the source knows it, and its time
    MarkedWatermark                   a source's watermark, in a test

A mark has the value of a record that was given, so that it is decoded, and expected of, as that one was. Behind the watermark
it is left out.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.spark.pipelines.definition import Watermark
from tidelog.spark.testing_kit.errors import PipelineTestError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(millisecond|second|minute|hour|day|week)s?")
_PARTS = re.compile(rf"\s*{_DURATION.pattern}(?:\s+{_DURATION.pattern})*\s*")


def mark_of(tag: str) -> str:
    """How the keys of a test's marks begin."""
    return f"__tidelog_time_{tag}:"


def mark_key(tag: str, micros: int) -> bytes:
    return f"{mark_of(tag)}{micros}".encode()


def duration_of(text: str | dt.timedelta) -> dt.timedelta:
    """'10 minutes', '1 hour 30 minutes'. PipelineTestError for what is none, or does not go forward."""
    if isinstance(text, dt.timedelta):
        found = text
    elif _PARTS.fullmatch(text):
        parts = _DURATION.findall(text)
        found = sum((dt.timedelta(**{f"{unit}s": float(count)}) for count, unit in parts), dt.timedelta())
    else:
        raise PipelineTestError(f"{text!r} is no duration: give one as in '10 minutes'")
    if found <= dt.timedelta():
        raise PipelineTestError(f"time moves forward alone: {text} does not")
    return found


@dataclass(frozen=True, slots=True)
class MarkedWatermark(Watermark):
    """The same watermark, which marks move as well."""

    mark: str = ""

    def applied(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        own = F.col(self.column) if self.expression is None else F.expr(self.expression)
        kind = rows.select(own).schema[0].dataType
        key = F.col("record.key").cast("string")
        is_mark = F.coalesce(key.startswith(self.mark), F.lit(False))
        time = F.timestamp_micros(F.substring_index(key, ":", -1).cast("bigint")).cast(kind)
        timed = rows.withColumn(self.column, F.when(is_mark, time).otherwise(own))
        # What may be chance is not moved below the watermark by Spark, which would never see a mark then. This is never true,
        # which Spark would find out of the number of a partition alone; `rand` would be another one to each that takes the rows.
        never = F.spark_partition_id() + F.col("record.offset") < 0
        return timed.withWatermark(self.column, self.delay).where(~is_mark | never)
