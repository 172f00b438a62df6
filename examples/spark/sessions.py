"""Clicks of users become visits: a visit ends when its user has done nothing for half an hour.

    python -m examples.spark.sessions

State that is kept for each user, and a timer that tells when a visit is over: `transformWithState`, with the state in RocksDB.
It needs the packages protobuf and pandas. Where a visit is nothing but its clicks, `session_window` of Spark will do; here the
state is the program's own, and so could hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from examples.spark.local import MINUTE_MS, OPENING_MS, read_stream, run_alone, send
from tidelog.spark.decoding import from_json

CLICKS = "clicks"
GAP_MS = 30 * MINUTE_MS
VISIT = "user string, began_ms bigint, ended_ms bigint, clicks int"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Visits(StatefulProcessor):
    """The open visit of each user: when it began, its last click, how many there were."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._visit = handle.getValueState("visit", "began_ms bigint, ended_ms bigint, clicks int")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """The clicks of a user in one batch."""
        visit = self._visit.get()
        for at_ms in sorted(int(row["at_ms"]) for row in rows):
            if visit is not None and at_ms - visit[1] > GAP_MS:
                yield Row(user=key[0], began_ms=visit[0], ended_ms=visit[1], clicks=visit[2])
                visit = None
            visit = (at_ms, at_ms, 1) if visit is None else (min(visit[0], at_ms), max(visit[1], at_ms), visit[2] + 1)
        if visit is not None:
            self._visit.update(visit)
            self._wait_until(visit[1] + GAP_MS)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: ARG002, N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """No click can come any more that would belong to the visit."""
        visit = self._visit.get()
        if visit is not None:
            self._visit.clear()
            yield Row(user=key[0], began_ms=visit[0], ended_ms=visit[1], clicks=visit[2])

    def _wait_until(self, at_ms: int) -> None:
        for before in list(self._handle.listTimers()):
            self._handle.deleteTimer(before)
        self._handle.registerTimer(at_ms)


def visits(clicks: DataFrame) -> DataFrame:
    events = clicks.select(from_json("value", "user string, at_ms bigint").alias("click")).select("click.*")
    return (
        events.withColumn("at", F.timestamp_millis("at_ms"))
        .withWatermark("at", "1 minute")
        .groupBy("user")
        .transformWithState(Visits(), VISIT, outputMode="append", timeMode="eventTime")
    )


def example(spark: SparkSession, bootstrap: str, directory: Path) -> DataFrame:
    minutes = [("ann", 0), ("bob", 5), ("ann", 10), ("ann", 25), ("bob", 50), ("ann", 90), ("cleo", 200)]
    clicks = [(user, OPENING_MS + minute * MINUTE_MS) for user, minute in minutes]
    send(bootstrap, CLICKS, [(user, {"user": user, "at_ms": at_ms}, at_ms) for user, at_ms in clicks])
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS_DB)
    output = str(directory / "visits")
    query = (
        visits(read_stream(session, bootstrap, CLICKS))
        .writeStream.format("parquet")
        .option("path", output)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.read.schema(VISIT).parquet(output).orderBy("user", "began_ms")


if __name__ == "__main__":
    run_alone(example)
