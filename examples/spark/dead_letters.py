"""Records that cannot be decoded go to a topic of their own, with the reason; mended, they come back.

    python -m examples.spark.dead_letters

Nothing stops because of them, and nothing is lost. One query writes to two topics: each row says where it goes.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from examples.spark.local import read, read_stream, run_alone, send
from tidelog.spark.decoding import from_json

EVENTS = "measurements"
GOOD = "temperatures"
DEAD = "measurements-dead"


def header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))


def sorted_out(records: DataFrame) -> DataFrame:
    """Each record with the topic that it goes to: decoded, or as it came with reason and place in its headers."""
    event = from_json("value", "sensor string, celsius double")
    problem = F.when(event["sensor"].isNull(), "no sensor").when(event["celsius"].isNull(), "no temperature")
    place = F.concat_ws("-", "topic", "partition", "offset")
    is_good = F.col("problem").isNull()
    return records.withColumn("problem", problem).select(
        F.when(is_good, GOOD).otherwise(DEAD).alias("topic"),
        "key",
        F.when(is_good, F.to_json(event).cast("binary")).otherwise(F.col("value")).alias("value"),
        F.when(~is_good, F.array(header("reason", F.col("problem")), header("place", place))).alias("headers"),
    )


def run(spark: SparkSession, bootstrap: str, directory: Path) -> None:
    query = (
        sorted_out(read_stream(spark, bootstrap, EVENTS))
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def mend(spark: SparkSession, bootstrap: str) -> None:
    """Some wrote Fahrenheit. What can be mended goes back to where it came from."""
    event = from_json("value", "sensor string, fahrenheit double").alias("event")
    celsius = ((F.col("event.fahrenheit") - 32) * 5 / 9).alias("celsius")
    (
        read(spark, bootstrap, DEAD)
        .select("key", event)
        .where("event.sensor is not null and event.fahrenheit is not null")
        .select("key", F.to_json(F.struct("event.sensor", celsius)).alias("value"))
        .write.format("tidelog")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", EVENTS)
        .save()
    )


def example(spark: SparkSession, bootstrap: str, directory: Path) -> DataFrame:
    values = ['{"sensor": "roof", "celsius": 21.5}', '{"sensor": "cellar", "fahrenheit": 50}', "not even JSON"]
    send(bootstrap, EVENTS, [(str(number), value, 0) for number, value in enumerate(values)])
    run(spark, bootstrap, directory)
    mend(spark, bootstrap)
    run(spark, bootstrap, directory)
    everything = read(spark, bootstrap, f"{GOOD},{DEAD}", includeHeaders="true")
    reason = F.col("headers")[0]["value"].cast("string").alias("reason")
    return everything.select("topic", F.col("value").cast("string").alias("value"), reason).orderBy("topic", "offset")


if __name__ == "__main__":
    run_alone(example)
