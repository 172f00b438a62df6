"""A Spark of this machine, and topics that tests fill and read with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidelog import Producer
from tidelog.spark.pipelines.session import LOCAL_SOCKETS
from tidelog.spark.worker_python import worker_python

# A wait that takes this long on a busy machine will never end.
DEADLINE_S = 120


def local_session(
    directory: Path, *jars: Path, is_brief: bool = True, master: str = "local[2]", **more: str
) -> SparkSession:
    """Two cores, no page, few partitions, and all that it writes in a directory. A brief one starts sooner, compiled less."""
    compiler = " -XX:TieredStopAtLevel=1" if is_brief else ""
    # Without it workers of another interpreter would be looked for.
    os.environ["PYSPARK_PYTHON"] = worker_python()
    session = (
        SparkSession.builder.master(master)
        .appName("tidelog tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "768m" if is_brief else "2g")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config(LOCAL_SOCKETS, "true")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={directory}{compiler}")
        .config(map={name.replace("__", "."): text for name, text in more.items()})
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def fill(bootstrap: str, topic: str, values: Iterable[int], partition: int | None = None, **more: Any) -> None:
    """Records with these numbers as values, in their partition or one after another in three; on return they can be read."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = [
            producer.send(
                topic,
                b"%d" % value,
                key=b"k%d" % value,
                partition=value % 3 if partition is None else partition,
                **more,
            )
            for value in values
        ]
        for each in sent:
            each.result(30)


def options(bootstrap: str, topic: str | None = None, **more: str) -> dict[str, str]:
    chosen = {} if topic is None else {"subscribe": topic}
    named = {name.replace("__", "."): text for name, text in more.items()}
    return {"kafka.bootstrap.servers": bootstrap, **chosen, **named}


def read(spark: SparkSession, given: dict[str, str], source: str = "tidelog") -> DataFrame:
    return spark.read.format(source).options(**given).load()


def stream(spark: SparkSession, given: dict[str, str], source: str = "tidelog") -> DataFrame:
    return spark.readStream.format(source).options(**given).load()


def numbers(rows: DataFrame) -> list[int]:
    return sorted(int(bytes(row["value"])) for row in rows.select("value").collect())


def stopped(query: StreamingQuery) -> None:
    """Wait for the end of a query that ends by itself."""
    assert query.awaitTermination(DEADLINE_S), f"the query did not end: {query.status}"


def wait_until(query: StreamingQuery, is_done: Callable[[], bool]) -> None:
    """Let a query run until something is true. It is looked at after each batch."""
    for _ in range(DEADLINE_S * 5):
        if is_done():
            return
        if query.awaitTermination(timeout=1) and not is_done():
            raise AssertionError(f"the query ended: {query.exception()}")
    raise AssertionError(f"it did not come to be: {query.status} {query.lastProgress}")


class Output:
    """A directory that queries write numbers to, one after another by the same checkpoint."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._path = str(directory / "output")
        self.checkpoint = str(directory / "checkpoint")

    def of(self, rows: DataFrame) -> DataStreamWriter:
        written = rows.selectExpr("cast(value as string) as value").writeStream.format("json")
        return written.option("path", self._path).option("checkpointLocation", self.checkpoint)

    def numbers(self) -> list[int]:
        try:
            rows = self._spark.read.schema("value string").json(self._path).collect()
        except PySparkException:
            return []
        return sorted(int(row["value"]) for row in rows)
