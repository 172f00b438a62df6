"""What is expected of rows: counted always, and what does not hold is let through, left out, set apart or the end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.written import committed_rows
from tidelog import Producer
from tidelog.spark.pipelines import Expect, FromTopic, Json, Pipeline, ToTopic
from tidelog.spark.pipelines.checkpoint_files import CheckpointFiles
from tidelog.spark.pipelines.errors import QueryFailedError
from tidelog.spark.pipelines.expectations import EXPECTATIONS_MAX, ExpectationCount, counted
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.pipelines.progress import METRICS_NAME, PipelineProgress, QueryProgress, metrics_text, read_progress
from tidelog.spark.pipelines.validation import problems_of
from tidelog.testing import EmbeddedCluster

ORDERS = FromTopic("orders", Json("id string, price double"))


def problems(**expect: Any) -> list[str]:
    return problems_of([Pipeline(name="p", source=replace(ORDERS, expect=expect), sink=ToTopic("out"))])


def test_what_is_wrong_with_an_expectation_is_told() -> None:
    assert problems(a=Expect("price > 0", "warn"), b=Expect("id = 'x'", "drop"), c=Expect("true", action="fail")) == []
    assert problems(a=Expect("price > 0", "quarantin"), b=Expect(" ", "drop"), c=Expect(5, "warn", by="me")) == [  # type: ignore[arg-type,call-arg]
        "p: source: expect 'a': action is 'quarantin'; it can be warn, drop, quarantine, fail",
        "p: source: expect 'b' has no condition",
        "p: source: expect 'c': Expect has no argument by (line 34)",
        "p: source: expect 'c': condition is 5; it is text",
    ]
    assert problems(a=5) == ["p: source: expect is {'a': 5}; it is a dictionary of conditions, texts or Expect"]
    assert problems(**{f"e{n}": Expect("true", "warn") for n in range(EXPECTATIONS_MAX + 1)}) == [
        "p: source: there are 101 expectations: 100 are the most"
    ]


def test_counts_add_up_by_batch_and_are_metrics_whatever_their_names_are() -> None:
    counts = (
        ExpectationCount(of="orders", name='a "name"\\', action="warn"),
        ExpectationCount(of="orders", name="b", action="drop"),
        ExpectationCount(of="other", name="b", action="warn"),
    )
    first = counted(counts, {"tidelog.expect.orders": {"violated0": 1, "passed0": 9, "violated1": 2, "passed1": 8}})
    second = counted(first, {"tidelog.expect.other": {"violated0": 3, "passed0": 4}})

    assert [(each.violated, each.passed) for each in second] == [(1, 9), (2, 8), (3, 4)]
    assert [(each.batch_violated, each.batch_passed) for each in first] == [(1, 9), (2, 8), (0, 0)]
    query = QueryProgress(query="p", query_id="q", run_id="r", expectations=second)
    text = metrics_text(PipelineProgress(pipeline="p", host="h", pid=1, queries=(query,)))
    assert "# TYPE tidelog_pipeline_expectation_total counter" in text
    assert (
        'tidelog_pipeline_expectation_total{pipeline="p",query="p",of="orders",expectation="a \\"name\\"\\\\",action="warn"'
        ',outcome="violated"} 1' in text.splitlines()
    )


def test_each_action_does_what_it_says_and_the_one_that_stops_leaves_nothing_of_its_batch(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    for name in ("out", "dead"):
        cluster.create_topic(f"{topic}.{name}", partitions=1)
    pipeline = Pipeline(
        name=f"expect-{topic}",
        source=FromTopic(
            topic,
            Json("id string, price double"),
            name="orders",
            expect={
                "it is dear": Expect("price > 1", "warn"),
                "it has an id": Expect("id is not null", "drop"),
                "the price is not negative": "price >= 0",
                "it is no fraud": Expect("id IS NULL OR id <> 'fraud'", "fail"),
            },
            dead_letters=f"{topic}.dead",
        ),
        sink=ToTopic(f"{topic}.out"),
        bootstrap=cluster.bootstrap_servers,
    )

    def send(*values: dict[str, Any] | None) -> None:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for each in values:
                producer.send(topic, None if each is None else json.dumps(each).encode(), key=b"k", partition=0)
            producer.flush(30)

    def run() -> PipelineRun:
        started = PipelineRun(spark, PipelineFile(tmp_path / "jobs.py", [pipeline], []), until_caught_up=True)
        started.start()
        started.follow(lambda _: None)
        return started

    # A tombstone is none of it; the fourth violates two, of which the first decides.
    send({"id": "a", "price": 5}, {"id": "b", "price": 0.5}, {"id": "c", "price": -1}, {"price": -1}, None)
    progress = run().progress[0]

    def found(name: str) -> list[dict[str, Any]]:
        rows = committed_rows(cluster.bootstrap_servers, f"{topic}.{name}")
        return [json.loads(each.value or b"{}") for each in rows]

    assert found("out") == [{"id": "a", "price": 5.0}, {"id": "b", "price": 0.5}, {"id": None, "price": None}]
    assert found("dead") == [{"id": "c", "price": -1}]
    main = progress.queries[0]
    assert [(each.name, each.of, each.passed, each.violated) for each in main.expectations] == [
        ("it is dear", "orders", 1, 3),
        ("it has an id", "orders", 3, 1),
        ("the price is not negative", "orders", 2, 2),
        ("it is no fraud", "orders", 4, 0),
    ]
    checkpoint = tmp_path / "checkpoints" / pipeline.name
    assert read_progress(CheckpointFiles.at(str(checkpoint), {})) == progress
    assert 'expectation="it is dear",action="warn",outcome="violated"} 3' in (checkpoint / METRICS_NAME).read_text()

    send({"id": "d", "price": 7}, {"id": "fraud", "price": 8})
    sentence = f"orders: the expectation 'it is no fraud' does not hold for {topic}-0 at 6"
    with pytest.raises(QueryFailedError, match=sentence):
        run()
    assert [each.get("id") for each in found("out")] == ["a", "b", None]
