"""Several tables of one topic: one read of it feeds them all, and what is set apart of a record is one dead letter."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812

from tests.spark.debezium.recordings import recorded, truth
from tests.spark.test_debezium import send as send_events, sqlite_rows
from tests.spark.test_pipeline_run import run_to_the_end, send
from tests.spark.written import committed_rows
from tidelog.spark.pipelines import (
    Debezium,
    Expect,
    FromTopic,
    Json,
    Pipeline,
    ToDatabase,
    ToTable,
    ToTopic,
    View,
    table_plan,
)
from tidelog.spark.pipelines.checkpoint_offsets import is_in_step
from tidelog.spark.pipelines.query_plan import plan_pipeline
from tidelog.spark.pipelines.row_steps import topics_in
from tidelog.spark.pipelines.table_plan import one_reads
from tidelog.testing import EmbeddedCluster


def by_function(prices: DataFrame) -> DataFrame:
    return prices.select(F.udf(lambda n: None if n is None else n + 1, "double")("price").alias("price"))


def two_tables(topic: str, bootstrap: str | None = None, **more: Any) -> Pipeline:
    """Ids and prices, both of one topic."""
    options = more.pop("options", {})
    letters = more.pop("dead_letters", f"{topic}.dead")
    sources = [
        FromTopic(topic, Json("id string, kind string"), name="ids", dead_letters=letters, options=options),
        FromTopic(
            topic,
            Json("price double, kind string"),
            name="prices",
            dead_letters=letters,
            options=options,
            expect={"it has a price": Expect("price IS NOT NULL", "drop"), "it is not negative": "price >= 0"},
        ),
    ]
    given = {
        "views": [View("id_of", "SELECT id FROM ids WHERE id IS NOT NULL")],
        "sink": [ToTable("ids", format="delta", of="id_of"), ToTable("prices", format="delta", of="prices")],
        **more,
    }
    return Pipeline(name=f"two-{topic}", source=sources, bootstrap=bootstrap, **given)


def table(directory: Path, name: str) -> list[Any]:
    return [row[name.removesuffix("s")] for row in DeltaTable(str(directory / name)).to_pyarrow_table().to_pylist()]


def letters(cluster: EmbeddedCluster, topic: str) -> list[tuple[bytes, bytes]]:
    rows = committed_rows(cluster.bootstrap_servers, topic)
    return sorted((row.value or b"", dict(row.headers)["tidelog.dead-letter.reason"] or b"") for row in rows)


def test_tables_that_are_made_row_by_row_are_one_pass_over_their_topic(spark: SparkSession) -> None:
    sources = [replace(each, expect={}, dead_letters=None) for each in two_tables("shop").sources]
    (query,) = plan_pipeline(spark, replace(two_tables("shop"), source=sources))

    assert topics_in(query.rows) == [frozenset({"shop"})]
    assert [each.label for each in query.sinks] == ["ids", "prices"]
    assert "Union" not in query.rows._jdf.queryExecution().analyzed().toString()


def test_one_read_is_for_sources_that_read_the_same(spark: SparkSession) -> None:
    one, other = two_tables("shop").sources
    lead = replace(one, dead_letters=None)

    assert one_reads([lead, other]) == {0: other, 1: other}, "a dead letter has the headers of its record"
    for different in (
        replace(other, topic="shop.2"),
        replace(other, options={"startingOffsets": "latest"}),
        replace(other, bootstrap="10.0.0.1:9092"),
    ):
        assert one_reads([lead, different]) == {}
    joined = replace(two_tables("shop"), transform="SELECT i.id, p.price FROM ids i JOIN prices p USING (kind)")
    (query,) = plan_pipeline(spark, replace(joined, views=[], sink=ToTopic("out")))
    assert {topic for found in topics_in(query.rows) for topic in found} == {"shop"}


@pytest.mark.parametrize("by_row", [True, False])
def test_each_record_is_read_once_for_all_tables_of_its_topic(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path, *, by_row: bool
) -> None:
    cluster.create_topic(f"{topic}.dead", partitions=1)
    pipeline = two_tables(topic, cluster.bootstrap_servers)
    if not by_row:
        views = [*pipeline.views, View("added", by_function)]
        pipeline = replace(
            pipeline, views=views, sink=[pipeline.sinks[0], ToTable("prices", format="delta", of="added")]
        )
    send(cluster, topic, ['{"id": "a", "price": 1}', '{"id": "b"}', '{"price": 3}', '{"price": -1}', "no json"])

    (progress,) = run_to_the_end(spark, tmp_path, pipeline)

    assert [(each.query, each.run_rows) for each in progress.queries] == [(pipeline.name, 5)]
    assert sorted(table(tmp_path, "ids")) == ["a", "b"]
    assert sorted(table(tmp_path, "prices")) == ([1.0, 3.0] if by_row else [2.0, 4.0])
    # A record is a letter of each table that cannot read it.
    assert letters(cluster, f"{topic}.dead") == [
        *([(b"no json", b"the value cannot be decoded")] * 2),
        (b'{"price": -1}', b"it is not negative"),
    ]


def test_tables_that_read_their_topic_each_by_itself_in_a_checkpoint_go_on_so(
    spark: SparkSession,
    cluster: EmbeddedCluster,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster.create_topic(f"{topic}.dead", partitions=1)
    pipeline = two_tables(topic, cluster.bootstrap_servers)
    # Without expectations and dead letters one pass is over one source, where the checkpoint has two.
    pipeline = replace(pipeline, source=[replace(each, expect={}, dead_letters=None) for each in pipeline.sources])
    for begun, values, rows in (
        ("apart", ['{"id": "a", "price": 1}'], 2),
        ("apart", ['{"id": "b", "price": 2}'], 2),
        ("anew", [], 2),
    ):
        send(cluster, topic, values)
        directory = tmp_path / begun
        directory.mkdir(exist_ok=True)
        with pytest.MonkeyPatch.context() as before:
            if rows == 2 and not any(directory.iterdir()) and begun == "apart":
                before.setattr(table_plan, "one_reads", lambda _: {})
            (progress,) = run_to_the_end(spark, directory, pipeline)
        assert [each.run_rows for each in progress.queries] == [rows]

    for directory in (tmp_path / "apart", tmp_path / "anew"):
        assert sorted(table(directory, "ids")) == ["a", "b"]
        assert sorted(table(directory, "prices")) == [1.0, 2.0]
    assert sum("read it each by itself in this checkpoint" in each for each in caplog.messages) == 1


def test_sources_that_are_not_equally_far_are_not_made_one(spark: SparkSession, tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()

    def entry(batch: int, *ends: list[int]) -> None:
        lines = [json.dumps({"shop": dict(enumerate(each))}) for each in ends]
        (offsets / str(batch)).write_text("\n".join(["v1", "{}", *lines]))

    assert is_in_step(spark, str(tmp_path))
    entry(0, [5, 5], [5, 5])
    entry(1, [9, 7], [9, 7])
    assert is_in_step(spark, str(tmp_path))
    entry(2, [9, 9], [9, 8])
    assert not is_in_step(spark, str(tmp_path))
    entry(3, [9, 9], [9, 9])
    assert not is_in_step(spark, str(tmp_path)), "the last batch may have to be done again"
    entry(4, [9, 9], [9, 9])
    assert is_in_step(spark, str(tmp_path))


def test_a_source_and_a_view_that_set_apart_to_one_topic_lose_none_of_each_other(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    for name in ("dead", "out"):
        cluster.create_topic(f"{topic}.{name}", partitions=1)
    bad = f"{topic}.dead"
    pipeline = Pipeline(
        name=topic,
        source=FromTopic(topic, Json("n int"), name="numbers", dead_letters=bad),
        views=[View("checked", "SELECT record, n FROM numbers", expect={"n is positive": "n > 0"}, dead_letters=bad)],
        sink=ToTopic(f"{topic}.out", of="checked"),
        bootstrap=cluster.bootstrap_servers,
    )
    send(cluster, topic, ['{"n": 1}', '{"n": -1}', "no json"])

    run_to_the_end(spark, tmp_path, pipeline)

    assert letters(cluster, bad) == [(b"no json", b"the value cannot be decoded"), (b'{"n": -1}', b"n is positive")]
    assert [json.loads(row.value or b"") for row in committed_rows(cluster.bootstrap_servers, f"{topic}.out")] == [
        {"n": 1}
    ]


def test_two_tables_of_a_database_in_one_topic_are_made_of_one_read(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    events = recorded("double.plain")
    send_events(cluster, topic, events, partition=0)
    changes: dict[str, Any] = {"sequence_by": "position", "deletes": "op = 'd'"}
    tables = {
        "customers": (["id"], "id int, name string, email string, phone string"),
        "sites": (["region", "number"], "region string, number int, name string"),
    }
    columns = {name: [each.split()[0] for each in schema.split(", ")] for name, (_, schema) in tables.items()}
    pipeline = Pipeline(
        name=topic,
        source=[
            FromTopic(topic, Debezium(schema, table=f"public.{name}"), name=f"{name}_events")
            for name, (_, schema) in tables.items()
        ],
        views=[
            View(
                name,
                f"SELECT {', '.join(columns[name])}, __op AS op, __position AS position, __unchanged FROM {name}_events",
            )
            for name in tables
        ],
        sink=[
            ToDatabase("sqlite:///shop.db", table=name, of=name, merge_on=key, **changes)
            for name, (key, _) in tables.items()
        ],
        bootstrap=cluster.bootstrap_servers,
    )

    (progress,) = run_to_the_end(spark, tmp_path, pipeline)

    assert [each.run_rows for each in progress.queries] == [len(events)]
    for name in tables:
        found = [
            {column: None if value is None else str(value) for column, value in row.items()}
            for row in sqlite_rows(tmp_path / "shop.db", name, columns[name])
        ]
        assert found == [{column: row[column] for column in columns[name]} for row in truth()[name]]
