"""A day of the archive that `archive.py` has made, as a topic again: keys, values, headers, times and partitions, in their order.

tidelog topics create orders.again
python examples/pipelines/replay_archive.py examples/pipelines/tables/archive 2026-11-18 orders.again
"""

import os
import sys

from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")


def replay(records: DataFrame, topic: str, name: str, bootstrap: str = BOOTSTRAP) -> None:
    """Done again under one name it changes nothing; other records under this name are refused."""
    (
        records.repartition("partition")
        .sortWithinPartitions("partition", "offset")
        .select("key", "value", "headers", "timestamp", "partition")
        .write.format("tidelog")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("includeTimestamp", "true")
        .option("txnAppId", name)
        .option("txnVersion", "1")
        .save()
    )


if __name__ == "__main__":
    archive, day, topic = sys.argv[1:]
    spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    of_day = spark.read.parquet(archive).where(F.col("day") == day)
    replay(of_day, topic, f"replay {archive} {day} {topic}")
    print(f"{of_day.count()} records of {day} are in {topic}")
