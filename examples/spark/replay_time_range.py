"""What happened in a certain hour: a range of time of a topic, read again and counted.

    python -m examples.spark.replay_time_range

The brokers look the times up in their indexes, so that only that hour is read, however long the topic is. The record at the
end is not part of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from examples.spark.local import read, run_alone, send
from tidelog.spark.decoding import from_json

SALES = "sales"


def milliseconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def between(spark: SparkSession, bootstrap: str, begin: str, end: str) -> DataFrame:
    """The records of a time, begin included and end not. A partition that has none so late has none to read."""
    return read(
        spark,
        bootstrap,
        SALES,
        startingTimestamp=str(milliseconds(begin)),
        startingOffsetsByTimestampStrategy="latest",
        endingTimestamp=str(milliseconds(end)),
    )


def example(spark: SparkSession, bootstrap: str, directory: Path) -> DataFrame:  # noqa: ARG001 - as all examples
    times = ["2026-06-01T08:59:59", "2026-06-01T09:00:00", "2026-06-01T09:30:00", "2026-06-01T10:00:00"]
    send(
        bootstrap,
        SALES,
        [("till", {"product": "tea", "cents": 100 * number}, milliseconds(at)) for number, at in enumerate(times)],
    )
    hour = between(spark, bootstrap, "2026-06-01T09:00:00", "2026-06-01T10:00:00")
    sold = hour.select(from_json("value", "product string, cents bigint").alias("sale")).select("sale.*")
    return sold.groupBy("product").sum("cents").withColumnRenamed("sum(cents)", "cents")


if __name__ == "__main__":
    run_alone(example)
