"""What Spark tells of a query becomes figures and metrics, with the listener's own events and with a real session."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import urlopen
from uuid import UUID

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from tests.spark.topics import fill
from tests.support.apache_kafka import wait_until
from tidelog.net.errors import ListenError
from tidelog.spark.watching import QueryListener
from tidelog.spark.watching.batch_report import read_report, whole_report
from tidelog.spark.watching.query_listener import QUERIES_MAX
from tidelog.testing import EmbeddedCluster

ID, RUN = UUID(int=1), UUID(int=2)
REPORT: dict[str, Any] = {
    "id": str(ID),
    "runId": str(RUN),
    "name": "revenue",
    "timestamp": "2026-11-16T07:24:54.601Z",
    "batchId": 3,
    "batchDuration": 2000,
    "numInputRows": 1200,
    "inputRowsPerSecond": 300.0,
    "processedRowsPerSecond": 600.0,
    "durationMs": {"triggerExecution": 2000, "addBatch": 1500, "walCommit": 90, "latestOffset": 4},
    "eventTime": {"watermark": "2026-11-16T07:20:00.000Z"},
    "stateOperators": [
        {
            "operatorName": "stateStoreSave",
            "numRowsTotal": 40,
            "numRowsUpdated": 4,
            "numRowsRemoved": 0,
            "allUpdatesTimeMs": 0,
            "allRemovalsTimeMs": 0,
            "commitTimeMs": 0,
            "numShufflePartitions": 1,
            "numStateStoreInstances": 1,
            "memoryUsedBytes": 9000,
            "numRowsDroppedByWatermark": 7,
            "customMetrics": {},
        }
    ],
    "sources": [
        {
            "description": "topics",
            "startOffset": None,
            "endOffset": {"orders": {"0": 10, "1": 5}},
            "latestOffset": {"orders": {"0": 15, "1": 5, "2": 2}},
            "numInputRows": 1200,
            "inputRowsPerSecond": 300.0,
            "processedRowsPerSecond": 600.0,
        }
    ],
    "sink": {"description": "noop", "numOutputRows": -1},
    "observedMetrics": {"quality": {"bad": 3, "worst": 0.5, "said": "no number", "is_bad": True}},
}


def progress(**changed: Any) -> QueryProgressEvent:
    """As Spark's listener gets it."""
    made = StreamingQueryProgress.fromJson({**REPORT, "observedMetrics": {}, **changed})
    text = json.dumps({**REPORT, **changed})

    class Reported(StreamingQueryProgress):
        json = text  # what a JVM would say

    made.__class__ = Reported
    return QueryProgressEvent(made)


def started(query_id: UUID = ID) -> QueryStartedEvent:
    return QueryStartedEvent(query_id, RUN, "revenue", "2026-11-16T07:24:50.000Z", set())


def test_a_batch_is_read_for_all_that_is_watched() -> None:
    listener = QueryListener()
    listener.onQueryStarted(started())
    listener.onQueryProgress(progress())
    listener.onQueryProgress(progress(batchId=4, timestamp="2026-11-16T07:24:58.601Z"))

    (found,) = listener.queries
    assert (found.query, found.query_id, found.run_id, found.state) == ("revenue", str(ID), str(RUN), "running")
    assert (found.batch_id, found.batch_rows, found.run_rows, found.run_batches) == (4, 1200, 2400, 2)
    assert (found.lag, found.late_rows, found.state_rows, found.state_bytes) == (7, 14, 40, 9000)
    assert found.run_phases_ms == {"addBatch": 3000, "latestOffset": 8, "walCommit": 180}
    assert found.observed == {"quality.bad": 3.0, "quality.worst": 0.5}
    # Nobody knows how old what was there at the first look is: at least as old as that.
    assert found.lag_ms == 6000
    text = listener.metrics()
    labels = f'{{query="revenue",query_id="{ID}"}}'
    assert f"tidelog_query_lag{labels} 7\n" in text
    assert f"tidelog_query_lag_seconds{labels} 6.0\n" in text
    assert f"tidelog_query_watermark_timestamp_seconds{labels} 1794813600.0\n" in text
    assert f'tidelog_query_batch_phase_seconds{{query="revenue",query_id="{ID}",phase="addBatch"}} 1.5\n' in text
    assert f'tidelog_query_observed{{query="revenue",query_id="{ID}",name="quality.bad"}} 3.0\n' in text


def test_an_idle_query_has_read_everything_and_one_that_ends_says_how() -> None:
    listener = QueryListener()
    listener.onQueryProgress(progress())
    listener.onQueryIdle(QueryIdleEvent(ID, RUN, "2026-11-16T07:30:00.000Z"))
    (found,) = listener.queries
    assert (found.lag, found.lag_ms, found.caught_up_at_ms) == (0, 0, 1_794_814_200_000)

    listener.onQueryTerminated(QueryTerminatedEvent(ID, RUN, "it broke", None))
    (found,) = listener.queries
    assert (found.state, found.error) == ("failed", "it broke")
    assert f'tidelog_query_failed{{query="revenue",query_id="{ID}"}} 1\n' in listener.metrics()

    listener.onQueryStarted(started())
    listener.onQueryTerminated(QueryTerminatedEvent(ID, RUN, None, None))
    assert [each.state for each in listener.queries] == ["stopped"]


def test_of_many_queries_the_oldest_that_have_ended_are_forgotten() -> None:
    listener = QueryListener()
    listener.onQueryStarted(started())
    for each in range(2, QUERIES_MAX + 3):
        listener.onQueryStarted(started(UUID(int=each)))
        listener.onQueryTerminated(QueryTerminatedEvent(UUID(int=each), RUN, None, None))

    kept = [each.query_id for each in listener.queries]
    assert len(kept) == QUERIES_MAX
    assert kept[0] == str(ID), "it runs"
    assert str(UUID(int=2)) not in kept


def test_what_a_release_of_spark_does_not_say_is_not_known() -> None:
    empty = read_report({})
    assert (empty.rows, empty.phases_ms, empty.watermark_ms, empty.at_ms) == (0, {}, None, None)
    assert (empty.lag, empty.position) == (0, {}), "no source, no lag"
    other = read_report({"sources": [{"endOffset": 5, "latestOffset": 9}], "stateOperators": None, "durationMs": 3})
    assert other.lag is None, "a source that is no topic"
    assert read_report({"eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}).watermark_ms is None


def test_a_port_shows_them_and_a_taken_one_is_refused() -> None:
    listener = QueryListener(metrics_port=0)
    try:
        listener.onQueryProgress(progress())
        url = listener.metrics_url
        assert url is not None
        with urlopen(url, timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert answer.read().decode() == listener.metrics()
        port = int(url.rpartition(":")[2].removesuffix("/metrics"))
        with pytest.raises(ListenError, match="cannot listen on"):
            QueryListener(metrics_port=port)
    finally:
        listener.close()
    assert listener.metrics_url is None
    listener.close()


def test_queries_of_a_session_are_seen_as_spark_runs_them(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, checkpoint: str
) -> None:
    fill(cluster.bootstrap_servers, topic, range(90))
    listener = QueryListener()
    spark.streams.addListener(listener)
    try:
        rows = (
            spark.readStream.format("tidelog")
            .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        query = (
            rows.withWatermark("timestamp", "1 minute")
            .groupBy("partition")
            .count()
            .writeStream.queryName("counted")
            .outputMode("update")
            .format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

        wait_until(lambda: [each.state for each in listener.queries] == ["stopped"], "the listener hears of the end")
        (found,) = listener.queries
        assert (found.query, found.run_rows, found.lag) == ("counted", 90, 0)
        assert (found.state_rows, found.run_batches) == (3, 1)
        assert found.run_phases_ms["addBatch"] > 0
        assert found.watermark_ms is not None
        assert found.lag_ms is not None
        assert 0 <= found.lag_ms <= found.batch_duration_ms
    finally:
        spark.streams.removeListener(listener)


def test_a_report_over_spark_connect_says_the_same_by_its_sources_and_by_rows() -> None:
    schema = {"type": "struct", "fields": [{"name": "bad"}, {"name": "worst"}]}
    own = {name: each for name, each in REPORT.items() if name not in {"numInputRows", "processedRowsPerSecond"}}
    sources = [{**each, "numInputRows": 3, "processedRowsPerSecond": 1.5} for each in REPORT["sources"]]

    found = whole_report(
        {**own, "sources": sources, "observedMetrics": {"quality": {"values": [3, 0.5], "schema": schema}}}
    )

    assert (found["numInputRows"], found["processedRowsPerSecond"]) == (3 * len(sources), 1.5 * len(sources))
    assert found["observedMetrics"] == {"quality": {"bad": 3, "worst": 0.5}}
    assert whole_report(REPORT) == REPORT
