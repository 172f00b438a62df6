"""Run by a Spark 4.1 of its own: reads tables of two catalogs, and does to one what others do to tables."""

import json
import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()


def rows(query: str) -> list[dict[str, object]]:
    return [json.loads(str(each)) for each in spark.sql(query).toJSON().collect()]


TYPES = "lake.shop.types"
found: dict[str, object] = {
    "types": rows(f"select * from {TYPES} order by id nulls last"),
    "pruned": rows(
        f"select id from {TYPES} where at >= timestamp '2026-03-01 00:00:00Z' and id = 34 and name = 'iceberg'"
    ),
    "partitions": rows(f"select partition from {TYPES}.partitions"),
    "sql": rows("select n, text from lake.shop.orders order by n"),
    "rest": rows("select n, text from rest.shop.orders order by n"),
}
for catalog in ("lake", "rest"):
    spark.sql(f"insert into {catalog}.shop.orders (n, text) values (9, 'Spark')")
    spark.sql(
        f"call {catalog}.system.rewrite_data_files(table => 'shop.orders', options => map('rewrite-all', 'true'))"
    )
    spark.sql(
        f"call {catalog}.system.expire_snapshots("
        "table => 'shop.orders', older_than => timestamp '2100-01-01 00:00:00', retain_last => 1)"
    )
    found[f"{catalog} snapshots"] = len(rows(f"select * from {catalog}.shop.orders.snapshots"))
spark.stop()
print(json.dumps(found))
