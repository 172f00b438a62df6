"""Dead letters beside the rows of a pipeline: one query, one read, one decision; and what they are in older checkpoints."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812

from tests.spark.test_killed_ends import DEADLINE_S, REPOSITORY
from tests.spark.test_pipeline_run import run_to_the_end, send
from tests.spark.written import committed_rows
from tests.support.command_line import json_lines, tidelog
from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTable, ToTopic
from tidelog.spark.pipelines.checkpoint_offsets import goes_on
from tidelog.spark.pipelines.dead_letters_place import DeadLettersPlace
from tidelog.spark.pipelines.errors import QueryFailedError
from tidelog.spark.pipelines.pipeline_file import load_pipelines
from tidelog.spark.pipelines.query_plan import plan_pipeline
from tidelog.spark.pipelines.row_steps import topics_in
from tidelog.testing import EmbeddedCluster

ORDERS = FromTopic(
    "orders", Json("id string, n bigint"), name="orders", expect={"n is positive": "n > 0"}, dead_letters="dead"
)
PIPELINE = Pipeline(name="p", source=ORDERS, transform="SELECT id, 10 / n AS share FROM orders", sink=ToTopic("out"))


def by_function(orders: DataFrame) -> DataFrame:
    return orders.select("id", F.udf(lambda n: n + 1, "bigint")("n").alias("n"))


def once(orders: DataFrame) -> DataFrame:
    return orders.dropDuplicates(["id"]).select("id")


def moved(cluster: EmbeddedCluster, topic: str, pipeline: Pipeline = PIPELINE) -> Pipeline:
    """The same for topics of a test."""
    for name in ("dead", "out"):
        cluster.create_topic(f"{topic}.{name}", partitions=1)
    source = replace(ORDERS, topic=topic, dead_letters=f"{topic}.dead")
    sink = ToTopic(f"{topic}.out")
    return replace(pipeline, name=f"p-{topic}", source=source, sink=sink, bootstrap=cluster.bootstrap_servers)


def values(cluster: EmbeddedCluster, topic: str) -> list[bytes]:
    return sorted(row.value or b"" for row in committed_rows(cluster.bootstrap_servers, topic))


def test_rows_and_their_dead_letters_are_one_pass_where_each_row_is_made_of_one_record(spark: SparkSession) -> None:
    (query,) = plan_pipeline(spark, PIPELINE)

    assert topics_in(query.rows) == [frozenset({"orders"})]
    assert [each.label for each in query.sinks] == ["out", "dead"]
    plan = query.rows._jdf.queryExecution().analyzed().toString()
    assert "Repartition" not in plan
    assert "Union" not in plan


@pytest.mark.parametrize(
    "transform",
    [once, by_function, "SELECT id, explode(sequence(1, n)) AS n FROM orders"],
    ids=["state", "function", "explode"],
)
def test_rows_that_are_made_otherwise_share_one_read_with_their_dead_letters(
    spark: SparkSession, transform: str
) -> None:
    (query,) = plan_pipeline(spark, replace(PIPELINE, transform=transform))

    assert topics_in(query.rows) == [frozenset({"orders"})] * 2
    # Each of them has it shuffled, which Spark does once.
    plan = query.rows._jdf.queryExecution().analyzed().toString()
    assert plan.count("RepartitionByExpression") == 2


def test_a_batch_counts_with_its_dead_letters_or_not_at_all_and_reads_each_record_once(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    pipeline = moved(cluster, topic)
    # A share of nothing would stop the query, were it computed for what is set apart.
    send(cluster, topic, ['{"id": "a", "n": 5}', "no json", '{"id": "b", "n": 0}'])

    (progress,) = run_to_the_end(spark, tmp_path, pipeline)

    assert [(each.query, each.run_rows) for each in progress.queries] == [(pipeline.name, 3)]
    assert values(cluster, f"{topic}.out") == [b'{"id":"a","share":2.0}']
    assert values(cluster, f"{topic}.dead") == [b"no json", b'{"id": "b", "n": 0}']
    (batch,) = json_lines(
        tidelog("pipeline", "audit", pipeline.name, "--bootstrap", cluster.bootstrap_servers, "--json")
    )
    assert {each["sink"]: each["rows"] for each in batch["sinks"]} == {f"{topic}.out": 1, f"{topic}.dead": 2}
    told = tidelog("pipeline", "audit", pipeline.name, "--verify", "--bootstrap", cluster.bootstrap_servers)
    assert f"{topic}.dead 2: verified" in told.stdout


def test_a_checkpoint_with_a_query_for_dead_letters_keeps_it_and_no_letter_comes_twice(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = moved(cluster, topic)
    send(cluster, topic, ["no json", '{"id": "a", "n": 5}'])
    with monkeypatch.context() as before:
        before.setattr(DeadLettersPlace, "are_apart", property(lambda _: True))
        (older,) = run_to_the_end(spark, tmp_path, pipeline)
    send(cluster, topic, ["no json either"])

    (progress,) = run_to_the_end(spark, tmp_path, pipeline)

    names = [pipeline.name, f"{pipeline.name}.dead-letters"]
    assert [each.query for each in older.queries] == [each.query for each in progress.queries] == names
    assert values(cluster, f"{topic}.dead") == [b"no json", b"no json either"]
    status = tmp_path / "jobs.py"
    status.write_text(
        "from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic\n"
        f"p = Pipeline(name={pipeline.name!r}, source=FromTopic({topic!r}, Json('id string'), dead_letters='d'),"
        f" sink=ToTopic('o'), checkpoint='checkpoints/{pipeline.name}')\n"
    )
    shown = json_lines(tidelog("pipeline", "status", status, "--bootstrap", cluster.bootstrap_servers, "--json"))
    assert [each["query"] for each in shown] == names


def test_dead_letters_may_come_to_a_pipeline_with_state_and_may_not_be_written_again(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    summed = moved(cluster, topic, replace(PIPELINE, transform=once))
    without = replace(summed, source=FromTopic(topic, Json("id string, n bigint"), name="orders"))
    send(cluster, topic, ['{"id": "a", "n": 0}'])
    run_to_the_end(spark, tmp_path, without)

    # Its plan names the source once, as before, so that they are a query of their own.
    (progress,) = run_to_the_end(spark, tmp_path, summed)
    within = replace(summed, name="within", transform=None)
    run_to_the_end(spark, tmp_path, within)

    assert len(progress.queries) == 2
    assert values(cluster, f"{topic}.dead") == [b'{"id": "a", "n": 0}'] * 2, "each of the two pipelines has its own"
    with pytest.raises(QueryFailedError, match="within: its dead letters were written with its rows so far"):
        run_to_the_end(spark, tmp_path, replace(within, sink=ToTable("table")))
    with pytest.raises(QueryFailedError, match="within: sinks, views or dead letters take from its sources in other"):
        run_to_the_end(spark, tmp_path, replace(within, transform=by_function))


@pytest.mark.parametrize(
    ("read", "planned", "fits"),
    [
        ([{"a"}, {"b"}], [{"a"}, {"b"}], True),
        ([{"a"}, {"b"}], [{"b"}, {"a"}], False),
        ([{"a"}], [{"a"}, {"a"}], False),
        ([{"a", "b"}], [{"a"}], True),
        ([{"a"}], [set()], True),
    ],
)
def test_a_plan_goes_on_where_it_names_the_same_sources_in_the_same_places(
    read: Sequence[set[str]], planned: Sequence[set[str]], fits: bool
) -> None:
    assert goes_on([frozenset(each) for each in read], [frozenset(each) for each in planned]) is fits


def test_rows_and_dead_letters_of_a_batch_whose_driver_is_killed_come_once(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(f"{topic}.dead", partitions=1)
    path = tmp_path / "jobs.py"
    path.write_text(
        "from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToDatabase\n"
        f"p = Pipeline(name='killed-{topic}', source=FromTopic({topic!r}, Json('id string'), name='orders',"
        f" dead_letters='{topic}.dead'), transform='SELECT id, count(*) AS n FROM orders GROUP BY id',"
        " output_mode='update', sink=ToDatabase('sqlite:///shop.db', table='counts', merge_on=['id']),"
        f" bootstrap={cluster.bootstrap_servers!r})\n"
    )
    send(cluster, topic, ['{"id": "a"}', "no json", '{"id": "a"}', '{"id": "b"}'])
    command = [sys.executable, "-m", "tests.spark.killed_pipeline", str(path), "sqlite"]
    killed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=DEADLINE_S, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:].decode()

    run_to_the_end(spark, tmp_path, *load_pipelines(path).pipelines)

    with sqlite3.connect(tmp_path / "shop.db") as connection:
        counts = Counter(dict(connection.execute("SELECT id, n FROM counts")))
    connection.close()
    assert counts == {"a": 2, "b": 1}
    assert values(cluster, f"{topic}.dead") == [b"no json"]
