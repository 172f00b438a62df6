"""A pipeline with state that is paused, gone on with, and changed: what keeps its state, and what is refused in plain words."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.spark.test_pipeline_audit import entry
from tests.spark.test_pipeline_run import ORDER, order, run_to_the_end, send
from tests.support.command_line import tidelog
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import SinkError
from tidelog.spark.pipelines import FromTopic, Pipeline, ToTable, Watermark
from tidelog.spark.pipelines.audit_log import starting_offsets
from tidelog.spark.pipelines.errors import QueryFailedError
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.pipelines.unfit_state import ADVICE, unfit_state
from tidelog.spark.sink.audit_entry import AuditEntry, PartitionRange
from tidelog.testing import EmbeddedCluster

DEADLINE_S = 120
BY_MINUTE = "FROM orders GROUP BY product, window(at, '1 minute')"
MINUTES = f"SELECT product, window.start AS minute, sum(price) AS revenue {BY_MINUTE}"
KEYS, MORE_KEYS = "product string, window struct", "product string, id string, window struct"
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def windows(cluster: EmbeddedCluster, topic: str, transform: str = MINUTES, **more: Any) -> Pipeline:
    source = FromTopic(topic, ORDER, name="orders", watermark=Watermark("at", "1 second"), **more)
    return Pipeline(
        name=f"revenue-{topic}",
        source=source,
        transform=transform,
        sink=ToTable("table", format="delta"),
        bootstrap=cluster.bootstrap_servers,
    )


def revenue(directory: Path) -> list[tuple[str, int, float]]:
    """By product and minute of the hour, as often as it is there."""
    rows = DeltaTable(str(directory / "table")).to_pyarrow_table().to_pylist()
    return sorted((row["product"], row["minute"].minute, row["revenue"]) for row in rows)


def test_a_pipeline_that_is_stopped_within_a_window_goes_on_with_what_the_window_has(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    pipeline = windows(cluster, topic)
    send(cluster, topic, [order(n, 1, second=n) for n in range(10)])
    run = PipelineRun(spark, PipelineFile(tmp_path / "jobs.py", [pipeline], []))
    run.start()
    is_read = threading.Event()

    def stop_once_read(_progress: object) -> None:
        if run.progress[0].queries[0].run_rows >= 10:
            is_read.set()
            run.stop()

    run.follow(stop_once_read)
    assert is_read.is_set()
    assert revenue(tmp_path) == []

    # The rest of the minute, with a filter more, which keeps the state; and a minute later, which closes the window.
    send(cluster, topic, [order(n, 1, second=n) for n in range(10, 20)])
    send(cluster, topic, [order(50, 7, second=120), order(51, -1, second=15)])
    filtered = MINUTES.replace("FROM orders", "FROM orders WHERE price > 0")
    run_to_the_end(spark, tmp_path, replace(pipeline, transform=filtered))

    assert revenue(tmp_path) == [("p0", 0, 10.0), ("p1", 0, 10.0)]


def test_a_change_that_the_state_does_not_fit_is_refused_in_plain_words_and_the_old_version_goes_on(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    pipeline = windows(cluster, topic)
    send(cluster, topic, [order(n, 1, second=n) for n in range(10)])
    run_to_the_end(spark, tmp_path, pipeline)
    send(cluster, topic, [order(50, 7, second=120)])
    before = "the state in the checkpoint"
    for transform, sentence in (
        (
            MINUTES.replace("GROUP BY product,", "GROUP BY product, id,"),
            f"{before} has other keys ({KEYS}) than this version of the pipeline ({MORE_KEYS}): {ADVICE}",
        ),
        (
            MINUTES.replace("sum(price)", "avg(price)"),
            f"{before} has other values (sum double) than this version of the pipeline (sum double, count long): {ADVICE}",
        ),
        (
            "SELECT product, at AS minute, price AS revenue FROM orders",
            f"{before} is that of an aggregation, and this version of the pipeline has no state: {ADVICE}",
        ),
    ):
        with pytest.raises(QueryFailedError) as raised:
            run_to_the_end(spark, tmp_path, replace(pipeline, transform=transform))
        assert str(raised.value) == f"{pipeline.name}: {sentence}"

    run_to_the_end(spark, tmp_path, pipeline)
    assert revenue(tmp_path) == [("p0", 0, 5.0), ("p1", 0, 5.0)]


def test_changes_that_keep_the_state_go_on_with_it_and_a_source_that_is_taken_away_does_not(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(f"{topic}.b", partitions=1)
    first = windows(cluster, topic)
    second = FromTopic(f"{topic}.b", ORDER, name="b", watermark=Watermark("at", "1 second"))
    union = "SELECT id FROM orders UNION ALL SELECT id FROM b"
    both = replace(first, name=f"both-{topic}", source=[first.sources[0], second], transform=union)
    both = replace(both, sink=ToTable("other", format="delta"))
    send(cluster, f"{topic}.b", [order(1, 1, second=1)])
    run_to_the_end(spark, tmp_path, both)
    send(cluster, f"{topic}.b", [order(1, 1, second=1)])
    with pytest.raises(QueryFailedError, match=r"[Ss]ources"):
        run_to_the_end(spark, tmp_path, replace(both, source=second, transform="SELECT id FROM b"))

    send(cluster, topic, [order(n, 1, second=n) for n in range(4)])
    run_to_the_end(spark, tmp_path, first)
    late = replace(first.sources[0], watermark=Watermark("at", "5 seconds"), expect={"it has an id": "id is not null"})
    longer = MINUTES.replace("'1 minute'", "'2 minutes'")
    changed = replace(first, source=replace(late, dead_letters=f"{topic}.b"), transform=longer)
    changed = replace(changed, sink=[ToTable("table", format="delta"), ToTable("more", format="delta")])
    send(cluster, topic, [order(4, 1, second=4), order(50, 7, second=600)])
    run_to_the_end(spark, tmp_path, changed)

    # The window of a minute, and what came later to one of two.
    assert revenue(tmp_path) == [("p0", 0, 1.0), ("p0", 0, 2.0), ("p1", 0, 2.0)]
    assert len(DeltaTable(str(tmp_path / "more")).to_pyarrow_table()) == 3


def test_a_new_version_begins_by_a_new_checkpoint_where_the_audit_says_and_no_window_is_there_twice(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    old = windows(cluster, topic)
    # Batch 0 has the first minute, batch 1 closes it, and begins the third.
    for seconds in (range(4), range(120, 124)):
        send(cluster, topic, [order(n, 1, second=n) for n in seconds])
        run_to_the_end(spark, tmp_path, old)
    assert [minute for _, minute, _ in revenue(tmp_path)] == [0, 0]

    # Its open window goes on from the beginning of the batch that has begun it.
    shown = tidelog(
        "pipeline", "audit", old.name, "--starting-offsets", "--batch", "1", "--bootstrap", cluster.bootstrap_servers
    )
    assert shown.exit_code == 0, shown.output
    starts = json.loads(shown.stdout)
    assert sum(starts[topic].values()) == 4
    halved = MINUTES.replace("sum(price)", "avg(price) / 2")
    new = windows(cluster, topic, halved, options={"startingOffsets": shown.stdout.strip()})
    new = replace(new, checkpoint="checkpoints/second")
    send(cluster, topic, [order(n, 1, second=n) for n in (124, 125, 300)])
    run_to_the_end(spark, tmp_path, new)

    assert revenue(tmp_path) == [("p0", 0, 2.0), ("p0", 2, 0.5), ("p1", 0, 2.0), ("p1", 2, 0.5)]


def read(batch_id: int, *ranges: tuple[TopicPartition, int, int]) -> AuditEntry:
    found = tuple(PartitionRange(place.topic, place.partition, start, end) for place, start, end in ranges)
    return msgspec.structs.replace(entry(batch_id), input=found, input_hash="hash")


def test_where_a_new_version_begins_is_behind_all_batches_or_at_the_beginning_of_one() -> None:
    batches = [read(0, (P0, -1, 10)), read(1, (P0, 10, 20), (P1, 0, 5)), read(2, (P1, 5, 9))]

    assert starting_offsets(batches, [P0, P1]) == {P0: 20, P1: 9}
    assert starting_offsets(batches, [P0, P1], 2) == {P0: 20, P1: 5}
    assert starting_offsets(batches, [P0, P1], 1) == {P0: 10, P1: 0}
    assert starting_offsets(batches, [P0, P1], 0) == {P0: -2, P1: 0}
    assert starting_offsets(batches[:1], [P0, P1]) == {P0: 10, P1: -2}
    for entries, partitions, batch, sentence in (
        (batches, [P0, P1], 7, "the audit has no batch 7"),
        (batches, [P0], None, "orders-1 was read, and is not there any more"),
        (batches[2:], [P0, P1], None, "the audit does not go back to the first batch, and has nothing of orders-0"),
        ([entry(0)], [P0], None, "what batch 0 has read is not known"),
    ):
        with pytest.raises(SinkError, match=sentence):
            starting_offsets(entries, partitions, batch)


def test_other_errors_are_none_of_state() -> None:
    assert unfit_state("Provided schema is odd") is None
