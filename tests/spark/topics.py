"""Topics that the tests of this directory fill and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidelog import Producer
from tidelog.testing import EmbeddedCluster

# A wait that takes this long on a busy machine will never end.
DEADLINE_S = 120


def fill(
    cluster: EmbeddedCluster, topic: str, values: Iterable[int], partition: int | None = None, **more: Any
) -> None:
    """Records with these numbers as values, in their partition or one after another in three; on return they can be read."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
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


def options(cluster: EmbeddedCluster, topic: str | None = None, **more: str) -> dict[str, str]:
    chosen = {} if topic is None else {"subscribe": topic}
    named = {name.replace("__", "."): text for name, text in more.items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **chosen, **named}


def read(spark: SparkSession, given: dict[str, str]) -> DataFrame:
    return spark.read.format("tidelog").options(**given).load()


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
