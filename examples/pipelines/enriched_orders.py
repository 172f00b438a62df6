"""Orders with what a database knows of their product, looked up while each batch is made.

tidelog up
sqlite3 shop.db 'CREATE TABLE products (sku TEXT PRIMARY KEY, name TEXT, category TEXT)'
SHOP_DB=shop.db tidelog pipeline run examples/pipelines/enriched_orders.py
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import arrow_udf

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTable, View

SHOP_DB = str(Path(os.environ.get("SHOP_DB", "shop.db")).resolve())
FOUND = pa.struct([("name", pa.string()), ("category", pa.string())])


def products_of(skus: pa.Array) -> pa.Array:
    """Asks once for all rows that Spark hands over together, up to 10,000; null where there is no such product."""
    wanted = skus.unique().drop_null().to_pylist()
    with closing(sqlite3.connect(SHOP_DB)) as shop:
        marks = ", ".join("?" * len(wanted))
        rows = shop.execute(f"SELECT sku, name, category FROM products WHERE sku IN ({marks})", wanted)
        known = {sku: {"name": name, "category": category} for sku, name, category in rows}
    return pa.array([known.get(sku) for sku in skus.to_pylist()], FOUND)


def enriched(orders: DataFrame) -> DataFrame:
    product = arrow_udf(products_of, "name string, category string")("sku")
    return orders.withColumn("product", product).select("record", "id", "sku", "product.*", "price")


pipeline = Pipeline(
    name="enriched-orders",
    source=FromTopic("orders", Json("id string, sku string, price double"), dead_letters="orders.dead"),
    views=[View("enriched", enriched, expect={"the product is known": "name IS NOT NULL"}, dead_letters="orders.dead")],
    sink=ToTable("tables/enriched_orders", of="enriched", format="delta", partition_by=["category"]),
)
