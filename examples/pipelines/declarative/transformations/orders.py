"""Orders of a topic as a streaming table, their revenue as a view that is kept up, and large ones into another topic.

Spark finds the format by itself: there is nothing to register, and nothing may be registered here.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
SCHEMA = "id string, product string, price double"

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    return records.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("o")).select("o.*")


@dp.materialized_view
def revenue() -> DataFrame:
    return spark.read.table("orders").groupBy("product").agg(F.sum("price").alias("revenue"))


dp.create_sink("large_orders", "tidelog", {"kafka.bootstrap.servers": BOOTSTRAP, "topic": "large-orders"})


@dp.append_flow(target="large_orders")
def send_large_orders() -> DataFrame:
    large = spark.readStream.table("orders").where("price >= 100")
    return large.select(F.col("id").alias("key"), F.to_json(F.struct("*")).alias("value"))
