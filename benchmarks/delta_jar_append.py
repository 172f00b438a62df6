"""Appends to a Delta table by Delta's own jar, by an interpreter of its own: what to write as JSON on standard input, the seconds
of each append as the last line of standard output. Nothing here knows Tidelog; `delta_append` runs it."""

import json
import os
import sys
import time

from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
given = json.load(sys.stdin)
session = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", sys.argv[1])
    .config("spark.driver.memory", given["memory"])
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
rows = session.range(0, given["rows"], 1, given["partitions"]).selectExpr(*given["columns"])
taken_s = []
for _ in range(given["appends"]):
    began_s = time.perf_counter()
    rows.write.format("delta").mode("append").save(given["path"])
    taken_s.append(time.perf_counter() - began_s)
session.stop()
print(json.dumps(taken_s))
