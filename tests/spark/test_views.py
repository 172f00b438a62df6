"""Views: steps between sources and sinks, in SQL and in Python, and sinks that say what they take from."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812

from tests.spark.test_pipeline_run import order, run_to_the_end, send
from tests.spark.written import committed_rows
from tidelog.spark.pipelines import (
    Expect,
    FromTopic,
    Json,
    Pipeline,
    ToDatabase,
    ToFiles,
    ToTable,
    ToTopic,
    View,
    Watermark,
)
from tidelog.spark.pipelines.errors import DefinitionError, QueryFailedError
from tidelog.spark.pipelines.query_plan import plan_pipeline
from tidelog.spark.pipelines.validation import problems_of
from tidelog.spark.pipelines.views import in_order
from tidelog.testing import EmbeddedCluster

ORDERS = FromTopic("orders", Json("id string, product string, price double, at timestamp"))
CLEAN = View("clean", "SELECT * FROM orders WHERE id IS NOT NULL")
SHOP = Pipeline(
    name="p", source=ORDERS, views=[CLEAN], transform="SELECT id, price FROM clean", sink=ToTopic("out", key="id")
)


def problems(**changes: Any) -> list[str]:
    return problems_of([replace(SHOP, **changes)])


def doubled(clean: DataFrame, orders: DataFrame) -> DataFrame:
    return clean.union(orders)


def both(twice: DataFrame, totals: DataFrame) -> DataFrame:
    return twice.join(totals)


def taking_a(a: DataFrame) -> DataFrame:
    return a


def mistyped(ordrs: DataFrame, *more: DataFrame) -> DataFrame:
    return ordrs


def five(orders: DataFrame) -> int:
    return 5


def test_a_graph_of_views_and_sinks_has_no_problem_in_whatever_order_it_is_written() -> None:
    views = [View("totals", "SELECT count(*) AS n FROM clean"), CLEAN, View("twice", doubled)]

    assert problems() == []
    assert problems(views=views, transform=None, sink=[ToTopic("a", of="Totals"), ToFiles("b", of="twice")]) == []
    assert problems(views=views, transform=both, sink=ToTopic("a")) == []
    assert problems(views=[], transform=None, sink=[ToTopic("a"), ToTopic("b", of="orders")]) == []
    ordered, circles = in_order(views, ["orders", "totals", "clean", "twice"])
    assert ([each.name for each in ordered], circles) == (["clean", "totals", "twice"], [])


def test_every_mistake_in_a_graph_is_told_at_once() -> None:
    views: list[Any] = [
        View("no name", "SELECT 1"),
        View("orders", "SELECT 1 FROM clean"),
        View("a", "SELECT * FROM b"),
        View("b", taking_a),
        View("c", mistyped),
        View("d", 5, watermark=Watermark("at", "soon"), by=1),  # type: ignore[arg-type,call-arg]
        View("e", " ", expect={"x": "n > 1"}),
        View("f", "SELECT 1 FROM orders", dead_letters="bad"),
        "SELECT 1",
    ]

    found = problems(views=views, transform=lambda order: order)

    assert found == [
        "p: view no name: 'no name' cannot be the name of a table in SQL",
        "p: view orders: another view or source has this name: each needs one of its own",
        "p: view c: the function takes ordrs, which is no source and no view; did you mean orders?",
        "p: view c: the function takes *more: its parameters are the names of sources and views, each by itself",
        "p: view d: View has no argument by (line 83)",
        "p: view d: the watermark's delay is 'soon'; it is a time such as '10 minutes'",
        "p: view d: query is SQL or a function, not int",
        "p: view e: expect needs dead_letters=, a topic for what is not as expected, or another action than quarantine",
        "p: view e: its SQL is empty: write a SELECT",
        "p: view f: dead_letters without an expectation that sets rows apart: no row would go there",
        "p: view 9: expected View, not str",
        "p: views take from each other in a circle: a, b, a",
        "p: transform: the function takes order, which is no source and no view; did you mean orders?",
    ]
    assert problems(views=5) == ["p: views is 5; it is a list of views"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"sink": ToTopic("x", of="cleen")},
            "sink: of is 'cleen', which is no source and no view; did you mean clean?",
        ),
        ({"transform": None}, "sink: without a transform it has to say what it takes from, of orders, clean: give of="),
        ({"sink": ToTopic("x", of="clean")}, "no sink takes what the transformation gives"),
        ({"transform": "SELECT id FROM orders"}, "view clean: nobody takes from it: leave it out"),
        ({"sink": ToTopic("x", of=5)}, "sink: of is 5; it is text, or None"),  # type: ignore[arg-type]
        ({"views": [replace(CLEAN, dead_letters="orders", expect={"x": "true"})]}, "writes to orders, which the pip"),
        (
            {"source": replace(ORDERS, dead_letters="out"), "sink": ToTopic("out")},
            "dead_letters is out, which is the name of a sink as well: give that another one by name=",
        ),
        ({"views": [CLEAN] * 101}, "there are 101 views: a pipeline has 100 at most"),
    ],
)
def test_who_takes_from_whom_is_looked_at(changes: dict[str, Any], sentence: str) -> None:
    assert any(sentence in each for each in problems(**changes)), problems(**changes)


def test_a_view_before_and_one_behind_a_sum_feed_sinks_of_their_own_with_one_read(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    def cheap(clean: DataFrame) -> DataFrame:
        return clean.where(F.col("price") < 5).select("id", "price")

    for name in ("cheap", "dead"):
        cluster.create_topic(f"{topic}.{name}", partitions=1)
    pipeline = Pipeline(
        name=f"graph-{topic}",
        source=FromTopic(
            topic,
            Json("id string, product string, price double, at timestamp"),
            name="orders",
            dead_letters=f"{topic}.dead",
            watermark=Watermark("at", "1 second"),
        ),
        views=[
            View("dear", "SELECT * FROM clean WHERE price >= 5"),
            View("cheap", cheap),
            View("clean", "SELECT id, product, price, at FROM orders"),
            # A diamond: two ways from one view, which come together again.
            View("both", "SELECT id, product, price, at FROM dear UNION ALL SELECT id, product, price, at FROM clean"),
        ],
        transform="SELECT product, window.start AS minute, count(*) AS n FROM both GROUP BY product, window(at, '1 minute')",
        sink=[
            ToDatabase(f"sqlite:///{tmp_path}/shop.db", table="totals", merge_on=["product", "minute"]),
            ToTopic(f"{topic}.cheap", key="id", of="cheap"),
            ToFiles("all", of="clean"),
        ],
        bootstrap=cluster.bootstrap_servers,
    )
    send(cluster, topic, [order(n, n, second=n) for n in range(10)])
    send(cluster, topic, ["no json", order(99, 1, second=300)])

    (progress,) = run_to_the_end(spark, tmp_path, pipeline)

    assert [(each.query, each.run_rows) for each in progress.queries] == [(pipeline.name, 12)]
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        totals = dict(connection.execute("SELECT product, n FROM totals"))
    connection.close()
    # Of the ten of the first minute each counts once, and those of 5 and more once again.
    assert totals == {"p0": 5 + 2, "p1": 5 + 3}
    cheap_rows = committed_rows(cluster.bootstrap_servers, f"{topic}.cheap")
    assert sorted(row.key or b"" for row in cheap_rows) == [b"o0", b"o1", b"o2", b"o3", b"o4", b"o99"]
    assert spark.read.parquet(f"{tmp_path}/all/*.parquet").count() == 11
    assert [row.value for row in committed_rows(cluster.bootstrap_servers, f"{topic}.dead")] == [b"no json"]


def test_expectations_of_a_view_count_and_act_as_those_of_a_source(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    for name in ("out", "dead"):
        cluster.create_topic(f"{topic}.{name}", partitions=1)
    checked = View(
        "checked",
        "SELECT *, price * 2 AS double_price FROM orders",
        expect={
            "it is dear": Expect("double_price > 4", "warn"),
            "it has an id": Expect("id IS NOT NULL", "drop"),
            "it is not negative": "double_price >= 0",
            "it is no fraud": Expect("id IS NULL OR id <> 'fraud'", "fail"),
        },
        dead_letters=f"{topic}.dead",
    )
    pipeline = Pipeline(
        name=f"checked-{topic}",
        source=FromTopic(topic, Json("id string, price double"), name="orders"),
        views=[checked],
        sink=ToTopic(f"{topic}.out", of="checked"),
        bootstrap=cluster.bootstrap_servers,
    )
    send(
        cluster,
        topic,
        ['{"id": "a", "price": 5}', '{"id": "b", "price": -1}', '{"price": 1}', '{"id": "c", "price": 1}'],
    )

    (progress,) = run_to_the_end(spark, tmp_path, pipeline)

    (main,) = progress.queries
    assert [(each.of, each.name, each.passed, each.violated) for each in main.expectations] == [
        ("checked", "it is dear", 1, 3),
        ("checked", "it has an id", 3, 1),
        ("checked", "it is not negative", 3, 1),
        ("checked", "it is no fraud", 4, 0),
    ]

    def found(name: str) -> list[str]:
        rows = committed_rows(cluster.bootstrap_servers, f"{topic}.{name}")
        return sorted(json.loads(each.value or b"")["id"] for each in rows)

    assert (found("out"), found("dead")) == (["a", "c"], ["b"])
    (letter,) = committed_rows(cluster.bootstrap_servers, f"{topic}.dead")
    headers = dict(letter.headers)
    assert headers["tidelog.dead-letter.reason"] == b"it is not negative"
    assert headers["trace"] == b"1", "it has all that its record had"
    send(cluster, topic, ['{"id": "fraud", "price": 1}'])
    with pytest.raises(QueryFailedError, match=f"checked: the expectation 'it is no fraud' does not hold for {topic}-"):
        run_to_the_end(spark, tmp_path, pipeline)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"views": [View("clean", "SELECT id, price FROM orders", expect={"x": "price > 0"}, dead_letters="bad")]},
            "view clean: a row is set apart as the record that it came from, which is gone here",
        ),
        ({"views": [View("clean", "SELECT nope FROM orders")]}, "view clean: A column.*`nope` cannot be resolved"),
        ({"views": [replace(CLEAN, expect={"x": Expect("nope", "warn")})]}, "view clean: expect 'x': A column.*`nope`"),
        ({"views": [View("clean", five)]}, "view clean: the function returns int"),  # type: ignore[arg-type]
        (
            {
                "views": [View("clean", "SELECT id, price, uuid() AS u FROM orders")],
                "transform": "SELECT DISTINCT id, price FROM clean",
                "sink": [ToTable("t", format="delta"), ToTopic("u", of="clean")],
            },
            "view clean: a value in it is by chance",
        ),
        (
            {
                "views": [
                    View("clean", "SELECT DISTINCT id, price FROM orders"),
                    View("once", "SELECT DISTINCT id FROM clean"),
                ],
                "transform": "SELECT DISTINCT price FROM clean",
                "sink": [ToTable("t", format="delta"), ToTopic("u", of="once")],
            },
            "view clean: Spark would keep its state",
        ),
        (
            {
                "source": replace(ORDERS, watermark=Watermark("at", "1 minute")),
                "views": [View("clean", "SELECT explode(sequence(1, 3)) AS id, price FROM orders")],
                "transform": "SELECT DISTINCT price FROM clean",
                "sink": [ToTable("t", format="delta"), ToTopic("u", of="clean")],
            },
            "view clean: several take from it, and Spark loses the watermark",
        ),
    ],
)
def test_what_only_spark_knows_of_views_is_told_before_anything_runs(
    spark: SparkSession, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DefinitionError, match=f"^p: {sentence}"):
        plan_pipeline(spark, replace(SHOP, **changes))
