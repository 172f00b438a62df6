"""What the examples beside this file have in common: a cluster and a Spark on this machine, and records to begin with.

`run_alone(example)` is what each of them does as a program. A test calls the same `example` with a cluster and a session of
its own.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidelog import Producer
from tidelog.spark.java_home import ensure_java
from tidelog.spark.worker_python import worker_python
from tidelog.testing import EmbeddedCluster

# When the records of the examples begin: 1 June 2026, 9:00 UTC. A watermark begins at 0, and shuts out what is not after it.
OPENING_MS = 1_780_304_400_000
MINUTE_MS = 60_000

Example = Callable[[SparkSession, str, Path], DataFrame]
"""Of a session, a cluster's address and an empty directory; what comes of it."""


def local_session() -> SparkSession:
    ensure_java()
    # Without it workers of another interpreter would be looked for.
    os.environ["PYSPARK_PYTHON"] = worker_python()
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def run_alone(example: Example) -> None:
    """Run an example with a cluster that is there for it alone, and show what comes of it."""
    with EmbeddedCluster() as cluster, tempfile.TemporaryDirectory() as directory:
        spark = local_session()
        example(spark, cluster.bootstrap_servers, Path(directory)).show(50, truncate=False)
        spark.stop()


def send(bootstrap: str, topic: str, records: Iterable[tuple[str, Mapping[str, object] | str | None, int]]) -> None:
    """Write records of a key, a value (as JSON unless it is text) and a timestamp in milliseconds; on return they are there."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        deliveries = [
            producer.send(
                topic,
                None if value is None else (value if isinstance(value, str) else json.dumps(value)).encode(),
                key=key.encode(),
                timestamp_ms=timestamp_ms,
            )
            for key, value, timestamp_ms in records
        ]
        for delivery in deliveries:
            delivery.result()


def read(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """A topic as a table: what is committed in it, by now."""
    chosen = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    return spark.read.format("tidelog").options(**chosen, **options).load()


def read_stream(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """A topic as a stream, from its beginning."""
    return (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
