"""A topic kept as Parquet files, and made a topic again: an archive, and a way back.

    python -m examples.spark.topic_to_parquet

All of a record is kept: key, value, headers, timestamp and partition. On the way back each record gets its timestamp and
partition again, and those of a partition their order; offsets are new. The way back is one transaction for each task: there as
a whole, or not at all.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from examples.spark.local import MINUTE_MS, OPENING_MS, read, run_alone, send

FROM = "readings"
BACK = "readings-restored"


def archive(spark: SparkSession, bootstrap: str, directory: Path) -> Path:
    """What the topic has had since the last time, appended to the files; a directory for each day."""
    files = directory / "archive"
    query = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", FROM)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .withColumn("day", F.to_date("timestamp"))
        .writeStream.format("parquet")
        .partitionBy("day")
        .option("path", str(files))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return files


def restore(spark: SparkSession, bootstrap: str, files: Path) -> None:
    """All days of the archive, into another topic. One name for the work: done again, it changes nothing."""
    (
        spark.read.parquet(str(files))
        .select("key", "value", "headers", "timestamp", "partition", "offset")
        .repartition("partition")
        .sortWithinPartitions("partition", "offset")
        .drop("offset")
        .write.format("tidelog")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", BACK)
        .option("includeTimestamp", "true")
        .option("txnAppId", "restore-readings")
        .option("txnVersion", "1")
        .save()
    )


def example(spark: SparkSession, bootstrap: str, directory: Path) -> DataFrame:
    half_day_ms = 12 * 60 * MINUTE_MS
    readings = [(f"sensor-{number % 2}", {"reading": number}, OPENING_MS + number * half_day_ms) for number in range(5)]
    send(bootstrap, FROM, readings[:4])
    files = archive(spark, bootstrap, directory)
    send(bootstrap, FROM, readings[4:])
    archive(spark, bootstrap, directory)
    restore(spark, bootstrap, files)
    restore(spark, bootstrap, files)
    rows = read(spark, bootstrap, BACK).orderBy("partition", "offset")
    return rows.selectExpr(
        "cast(key as string) as key",
        "cast(value as string) as value",
        "date_format(timestamp, 'yyyy-MM-dd HH:mm') as at",
    )


if __name__ == "__main__":
    run_alone(example)
