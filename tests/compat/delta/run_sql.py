"""Statements in Spark with Delta's own jar, by an interpreter of its own: a JSON list of SQL on standard input, a JSON list of
[types, rows] as the last line of standard output. Nothing here knows Tidelog."""

import json
import os
import sys

from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
session = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", sys.argv[1])
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
answers = []
for statement in json.load(sys.stdin):
    found = session.sql(statement)
    answers.append([dict(found.dtypes), [row.asDict(recursive=True) for row in found.collect()]])
session.stop()
print(json.dumps(answers, default=str))
