"""A pipeline's steps shown on a sample: the same steps as a stream's, with nothing written anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_pipeline_run import ORDER, order, send
from tidelog import Admin
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.spark.errors import UnreadableError
from tidelog.spark.pipelines import Expect, FromTopic, Json, Pipeline, ToTable, ToTopic, View, Watermark
from tidelog.spark.pipelines.batch_records import newest
from tidelog.spark.pipelines.preview import PreviewedStep, preview
from tidelog.spark.source.offset_ranges import OffsetRange
from tidelog.testing import EmbeddedCluster


def steps(spark: SparkSession, pipeline: Pipeline, rows: int = 3, sample: int = 1000) -> Mapping[str, PreviewedStep]:
    return {each.name: each for each in preview(spark, pipeline, rows=rows, sample=sample)}


def pipeline_of(cluster: EmbeddedCluster, topic: str, **more: Any) -> Pipeline:
    source = FromTopic(
        topic,
        ORDER,
        name="orders",
        expect={
            "has an id": Expect("id is not null", "fail"),
            "not negative": "price >= 0",
            "not free": Expect("price <> 0", "drop"),
            "not dear": Expect("price < 1000", "warn"),
        },
        dead_letters=f"{topic}.dead",
        watermark=Watermark("at", "10 seconds"),
    )
    given = {
        "transform": """
            SELECT product, count(*) AS orders, window.start AS minute
            FROM orders GROUP BY product, window(at, '1 minute')
        """,
        "sink": [ToTopic("out", key="product", where="orders > 1"), ToTable("t", format="delta")],
        **more,
    }
    return Pipeline(name=f"p-{topic}", source=source, bootstrap=cluster.bootstrap_servers, **given)


def traces(cluster: EmbeddedCluster) -> tuple[list[str], list[str]]:
    """Topics and groups."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        return sorted(each.name for each in admin.list_topics()), sorted(each.group_id for each in admin.list_groups())


def test_each_step_shows_its_first_rows_and_nothing_is_left_behind(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    values = [order(n, 1.5, second=n) for n in range(6)]
    odd = [order(7, -1, 1), order(8, 0, 1), order(9, 5000, 1), '{"price": 1}', "no json"]
    send(cluster, topic, [*values, *odd])
    before = traces(cluster)

    found = steps(spark, pipeline_of(cluster, topic))

    assert list(found) == ["orders", "orders: outcomes", "result", "sink out", "sink t"]
    assert found["orders"].columns == ("record", "id", "product", "price", "at")
    assert (len(found["orders"].rows), found["orders"].has_more) == (3, True)
    assert found["orders"].rows[0]["record"]["topic"] == topic
    assert {each["outcome"]: each["rows"] for each in found["orders: outcomes"].rows} == {
        "goes on": 6,
        "goes on, and a warning: not dear": 1,
        "dead letter: the value cannot be decoded": 1,
        "dead letter: not negative": 1,
        "left out: not free": 1,
        "stops the pipeline: has an id": 1,
    }
    assert sorted((each["product"], each["orders"]) for each in found["result"].rows) == [("p0", 3), ("p1", 4)]
    (row,) = (each for each in found["sink out"].rows if each["key"] == "p1")
    assert json.loads(row["value"])["orders"] == 4
    assert found["sink t"].columns == ("product", "orders", "minute")
    assert traces(cluster) == before


def test_a_sample_is_the_newest_records_and_the_large_partitions_share_what_the_small_ones_leave() -> None:
    def ranges(*ends: int) -> list[OffsetRange]:
        return [OffsetRange(TopicPartition("t", index), 0, end) for index, end in enumerate(ends)]

    def taken(found: list[OffsetRange]) -> list[tuple[int, int, int]]:
        return [(each.partition.partition, each.start, each.end) for each in found]

    assert taken(newest(ranges(1000, 5, 1000), 105)) == [(0, 950, 1000), (1, 0, 5), (2, 950, 1000)]
    assert taken(newest(ranges(3, 0, 4), 100)) == [(0, 0, 3), (2, 0, 4)]
    assert sum(each.size for each in newest(ranges(9, 9, 9), 2)) == 2
    assert newest(ranges(0, 0), 5) == newest([], 5) == []


def test_an_empty_topic_shows_columns_without_rows(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    found = steps(spark, pipeline_of(cluster, topic))

    assert [(len(each.rows), each.problem) for each in found.values()] == [(0, None)] * 5
    assert found["result"].columns == ("product", "orders", "minute")


def test_a_step_that_fails_says_so_behind_those_that_do_not(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    send(cluster, topic, [order(1, 1.5, second=1)])

    found = steps(spark, pipeline_of(cluster, topic, transform="SELECT raise_error('no, ' || id) AS x FROM orders"))
    assert [(name, each.problem) for name, each in found.items()][-1] == ("result", "no, o1")
    assert len(found["orders"].rows) == 1
    wrong = steps(spark, pipeline_of(cluster, topic, sink=ToTopic("out", key="nothing")))
    assert "nothing" in str(wrong["sink out"].problem)
    with pytest.raises(UnreadableError, match="cannot be read"):
        steps(spark, pipeline_of(cluster, f"{topic}-nowhere"))


def test_a_value_that_would_stop_the_pipeline_is_an_outcome_and_not_the_end_of_the_look(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    send(cluster, topic, ["no json", '{"id": "a"}'])
    pipeline = Pipeline(
        name="p", source=FromTopic(topic, Json("id string")), sink=ToTopic("o"), bootstrap=cluster.bootstrap_servers
    )

    found = steps(spark, pipeline)

    outcomes = {each["outcome"]: each["rows"] for each in found[f"{pipeline.sources[0].view}: outcomes"].rows}
    assert outcomes == {"goes on": 1, "stops the pipeline: the value cannot be decoded": 1}
    assert [each["id"] for each in found["result"].rows] == ["a"]


def graph_of(cluster: EmbeddedCluster, topic: str, **more: Any) -> Pipeline:
    given = {
        "views": [
            View("dear", "SELECT * FROM clean WHERE price >= 5", expect={"few": Expect("price < 7", "fail")}),
            View("clean", "SELECT id, product, price FROM orders WHERE id <> 'o0'"),
        ],
        "transform": "SELECT product, count(*) AS n FROM clean GROUP BY product",
        "sink": [ToTopic("dear", of="dear", key="id", where="price < 8"), ToTable("t", format="delta")],
        **more,
    }
    source = FromTopic(topic, ORDER, name="orders")
    return Pipeline(name=f"g-{topic}", source=source, bootstrap=cluster.bootstrap_servers, **given)


def test_each_view_is_a_step_behind_all_that_it_takes_from_with_its_outcomes(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    send(cluster, topic, [order(n, float(n), second=n) for n in range(9)])
    before = traces(cluster)

    found = steps(spark, graph_of(cluster, topic), rows=10)

    assert list(found) == [
        *("orders", "orders: outcomes", "clean", "dear", "dear: outcomes", "result", "sink dear", "sink t")
    ]
    assert sorted(each["id"] for each in found["clean"].rows) == [f"o{n}" for n in range(1, 9)]
    assert found["dear"].columns == ("id", "product", "price")
    assert {each["outcome"]: each["rows"] for each in found["dear: outcomes"].rows} == {
        "goes on": 2,
        "stops the pipeline: few": 2,
    }
    assert sorted(each["key"] for each in found["sink dear"].rows) == ["o5", "o6"]
    assert sorted((each["product"], each["n"]) for each in found["sink t"].rows) == [("p0", 4), ("p1", 4)]
    assert traces(cluster) == before


def test_a_view_that_is_wrong_says_so_and_those_that_do_not_take_from_it_are_shown(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    send(cluster, topic, [order(n, 6.0, second=n) for n in range(3)])
    fails = [
        View("clean", "SELECT id, product, price FROM orders WHERE id <> 'o0'"),
        View("dear", "SELECT raise_error('no, ' || id) AS id, price FROM clean"),
        View("dearer", "SELECT * FROM dear"),
    ]
    unknown = [fails[0], View("dear", "SELECT nothing FROM clean"), fails[2]]
    sinks = [ToTopic("dear", of="dearer", key="id"), ToTable("t", format="delta")]

    for views, problem in ((fails, "^no, o[12]$"), (unknown, "nothing")):
        found = steps(spark, graph_of(cluster, topic, views=views, sink=sinks))
        assert list(found) == ["orders", "orders: outcomes", "clean", "dear", "result", "sink t"]
        assert re.search(problem, str(found["dear"].problem))
        assert [each.problem for name, each in found.items() if name != "dear"] == [None] * 5
        assert len(found["sink t"].rows) == 2
