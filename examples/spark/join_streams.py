"""Two streams joined: each advertisement that was shown, with the click on it if one came within ten minutes.

    python -m examples.spark.join_streams

An outer join of streams: what was clicked on is there at once, what was not when the watermark says that no click can come any
more. The result goes to a topic, each row once.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from examples.spark.local import MINUTE_MS, OPENING_MS, read, read_stream, run_alone, send
from tidelog.spark.decoding import from_json

SHOWN = "shown"
CLICKED = "clicked"
RESULT = "advertisements"


def events(records: DataFrame, name: str) -> DataFrame:
    """The column `advertisement`, prefixed, and the time of the record; late ones are waited for."""
    return records.select(
        from_json("value", "id string")["id"].alias(f"{name}_id"), F.col("timestamp").alias(f"{name}_at")
    ).withWatermark(f"{name}_at", "2 minutes")


def joined(shown: DataFrame, clicked: DataFrame) -> DataFrame:
    is_its_click = F.expr("shown_id = clicked_id and clicked_at between shown_at and shown_at + interval 10 minutes")
    return shown.join(clicked, is_its_click, "leftOuter")


def example(spark: SparkSession, bootstrap: str, directory: Path) -> DataFrame:
    shown = [("a", 0), ("b", 1), ("c", 2), ("later", 60)]
    clicked = [("a", 3), ("c", 40), ("later", 61)]
    for topic, minutes in ((SHOWN, shown), (CLICKED, clicked)):
        send(bootstrap, topic, [(name, {"id": name}, OPENING_MS + minute * MINUTE_MS) for name, minute in minutes])

    rows = joined(
        events(read_stream(spark, bootstrap, SHOWN), "shown"), events(read_stream(spark, bootstrap, CLICKED), "clicked")
    )
    query = (
        rows.select(
            F.col("shown_id").alias("key"),
            F.to_json(F.struct("shown_id", F.col("clicked_id").isNotNull().alias("is_clicked"))).alias("value"),
        )
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", RESULT)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    result = from_json("value", "shown_id string, is_clicked boolean").alias("result")
    return read(spark, bootstrap, RESULT).select(result).select("result.*").orderBy("shown_id")


if __name__ == "__main__":
    run_alone(example)
