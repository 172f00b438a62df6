"""Two versions of a pipeline over the same records: what differs, by key and as a multiset, and what cannot be compared."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.test_pipeline_run import ORDER, order, send
from tests.support.command_line import tidelog
from tidelog.cli.pipeline.batch_session import row_as_json
from tidelog.cli.pipeline.pipeline_diff import lines_of
from tidelog.spark.pipelines import FromTopic, Pipeline, ToTopic, View, Watermark
from tidelog.spark.pipelines.errors import DefinitionError, DiffError
from tidelog.spark.pipelines.version_diff import Difference, VersionDiff, diff_versions
from tidelog.spark.source.offset_bounds import Earliest, Latest
from tidelog.testing import EmbeddedCluster


class Versions:
    def __init__(self, spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
        self._spark = spark
        self._cluster = cluster
        self.topic = topic

    def version(self, transform: Any, **more: Any) -> Pipeline:
        source = FromTopic(self.topic, ORDER, name="orders", **more)
        bootstrap = self._cluster.bootstrap_servers
        return Pipeline(name="p", source=source, transform=transform, sink=ToTopic("o"), bootstrap=bootstrap)

    def diff(self, old: Any, new: Any, **more: Any) -> VersionDiff:
        versions = [each if isinstance(each, Pipeline) else self.version(each) for each in (old, new)]
        return diff_versions(self._spark, versions[0], versions[1], (Earliest(), Latest()), **more)


@pytest.fixture
def versions(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> Versions:
    send(cluster, topic, [order(n, n / 2, second=n) for n in range(10)])
    return Versions(spark, cluster, topic)


def changes(found: VersionDiff) -> list[tuple[Any, list[Any], list[Any]]]:
    return [
        (
            None if each.key is None else json.loads(each.key),
            [json.loads(row) for row in each.old],
            [json.loads(row) for row in each.new],
        )
        for each in found.shown
    ]


def test_versions_that_make_the_same_rows_are_the_same_in_whatever_order_and_columns(versions: Versions) -> None:
    found = versions.diff(
        "SELECT product, sum(price) AS revenue FROM orders GROUP BY product",
        "SELECT sum(price) AS revenue, upper(product) AS product FROM orders GROUP BY 2",
    )
    assert (found.is_same, found.old_rows, found.new_rows, found.same_rows) == (False, 2, 2, 0)
    same = versions.diff(
        "SELECT product, sum(price) AS revenue FROM orders GROUP BY product",
        "SELECT sum(price) AS revenue, product FROM (SELECT * FROM orders ORDER BY price DESC) GROUP BY product",
        key=["product"],
    )
    assert (same.is_same, same.records, same.same_rows, same.shown) == (True, 10, 2, ())


def test_rows_of_one_key_are_told_side_by_side(versions: Versions) -> None:
    found = versions.diff(
        "SELECT id, price FROM orders WHERE price > 0",
        "SELECT id, if(id = 'o3', 99D, price) AS price FROM orders WHERE price < 4",
        key=["id"],
    )

    assert (found.differences, found.old_rows, found.new_rows, found.same_rows) == (4, 9, 8, 6)
    assert changes(found) == [
        ({"id": "o0"}, [], [{"id": "o0", "price": 0.0}]),
        ({"id": "o3"}, [{"id": "o3", "price": 1.5}], [{"id": "o3", "price": 99.0}]),
        ({"id": "o8"}, [{"id": "o8", "price": 4.0}], []),
        ({"id": "o9"}, [{"id": "o9", "price": 4.5}], []),
    ]
    short = versions.diff("SELECT id FROM orders", "SELECT id FROM orders WHERE false", shown=3)
    assert (len(short.shown), short.differences) == (3, 10)


def test_without_a_key_rows_count_as_often_as_they_are_there(versions: Versions) -> None:
    found = versions.diff("SELECT product FROM orders", "SELECT product FROM orders WHERE id <> 'o1' AND id <> 'o3'")

    assert (found.differences, found.same_rows) == (1, 8)
    assert changes(found) == [(None, [{"product": "p1"}] * 2, [])]


def test_columns_that_only_one_version_has_and_types_that_differ_are_a_difference(versions: Versions) -> None:
    found = versions.diff("SELECT id, 1 AS a, price FROM orders", "SELECT id, 1L AS a, product FROM orders")

    assert not found.is_same
    assert found.same_rows == 10
    assert list(found.columns) == [
        "only OLD has the column price",
        "only NEW has the column product",
        "the column a is int in OLD and bigint in NEW",
    ]


def test_windows_are_compared_and_functions_with_state_are_not(versions: Versions) -> None:
    def counted(orders: DataFrame) -> DataFrame:
        def count(_key: Any, _batches: Any, _state: Any) -> Iterator[Any]:
            yield from ()

        return orders.groupBy("product").applyInPandasWithState(count, "n int", "n int", "append", "NoTimeout")

    def once(orders: DataFrame) -> DataFrame:
        return orders.dropDuplicatesWithinWatermark(["id"])

    late = Watermark("at", "1 second")
    windows = "SELECT window.start AS s, count(*) AS n FROM orders GROUP BY window(at, '5 seconds')"
    both = [versions.version(windows, watermark=late), versions.version(windows)]
    assert versions.diff(*both, key=["s"]).is_same
    for function in (counted, once):
        with pytest.raises(DiffError, match=r"^NEW has .*: what comes out of it depends on batches"):
            versions.diff(both[0], versions.version(function, watermark=late))


def test_one_sink_of_a_graph_is_compared_by_its_name_behind_its_views_and_its_condition(versions: Versions) -> None:
    def graph(dear: str, where: str) -> Pipeline:
        views = [View("clean", "SELECT id, product, price FROM orders WHERE id <> 'o9'"), View("dear", dear)]
        sinks = [ToTopic("dear", of="dear", where=where), ToTopic("sums", of="sums")]
        sums = View("sums", "SELECT product, sum(price) AS total FROM clean GROUP BY product")
        return replace(versions.version(None), views=[*views, sums], sink=sinks)

    old = graph("SELECT id, price FROM clean WHERE price > 1", "price < 4")
    new = graph("SELECT id, price * 2 AS price FROM clean WHERE price > 3", "price < 9")

    assert versions.diff(old, new, sink="sums").is_same
    found = versions.diff(old, new, sink="dear", key=["id"])
    assert changes(found) == [
        *(({"id": f"o{n}"}, [{"id": f"o{n}", "price": n / 2}], []) for n in range(3, 7)),
        ({"id": "o7"}, [{"id": "o7", "price": 3.5}], [{"id": "o7", "price": 7.0}]),
        ({"id": "o8"}, [], [{"id": "o8", "price": 8.0}]),
    ]
    for name, sentence in (
        (None, "p: its sinks take from different tables: choose one of dear, sums with --sink"),
        ("minutes", "p has no sink minutes: it has dear, sums"),
    ):
        with pytest.raises(DefinitionError) as raised:
            versions.diff(old, new, sink=name)
        assert raised.value.problems == [sentence]


def test_what_cannot_be_compared_is_refused_in_a_sentence(versions: Versions) -> None:
    for old, new, more, sentence in (
        (
            "SELECT id FROM orders",
            "SELECT price FROM orders",
            {},
            "the versions have no column in common: id and price",
        ),
        (
            "SELECT id FROM orders",
            "SELECT id FROM orders",
            {"key": ["x"]},
            "the key names the column x, which not both have",
        ),
        ("SELECT id FROM orders", "SELECT nothing FROM orders", {}, "NEW: .*nothing"),
        (
            "SELECT id FROM orders",
            "SELECT id FROM orders",
            {"records_max": 9},
            "there are 10 records between the two: 9 are",
        ),
        ("SELECT id FROM orders", "SELECT raise_error('no') AS id FROM orders", {}, "^no$"),
    ):
        with pytest.raises(DiffError, match=sentence):
            versions.diff(old, new, **more)


def test_questions_without_an_answer_have_another_exit_code_than_a_difference(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    head = "from tidelog.spark.pipelines import FromTopic, Pipeline, ToTopic\n"
    one.write_text(f"{head}p = Pipeline(name='a', source=FromTopic('t'), sink=ToTopic('o', encode='columns'))\n")
    two.write_text(
        f"{head}ps = [Pipeline(name=n, source=FromTopic('t'), sink=ToTopic('o', encode='xml')) for n in 'ab']\n"
    )

    found = [
        tidelog("pipeline", "diff", one, one, "--from", "soon"),
        tidelog("pipeline", "diff", one, two, "--only", "a"),
        tidelog("pipeline", "diff", one, tmp_path / "none.py"),
        tidelog("pipeline", "preview", two, "--only", "b"),
        tidelog("pipeline", "preview", one, "--master", "sc://spark:15002"),
        tidelog("pipeline", "run", one, "--master", "sc://127.0.0.1:1"),
        tidelog("pipeline", "run", one, "--master", "sc://spark:15002", "--package", "x.zip"),
    ]

    assert [(each.exit_code, each.stderr.removeprefix("tidelog pipeline: ")) for each in found] == [
        (
            2,
            "'soon' is not a time: expected one as in 2026-11-16T08:00:00Z, milliseconds since 1970, or -1h for an hour ago\n",
        ),
        (2, "a: sink: encode is 'xml'; it can be json or columns\n"),
        (2, f"there is no file {tmp_path / 'none.py'}\n"),
        (2, "b: sink: encode is 'xml'; it can be json or columns\n"),
        (
            1,
            (
                "this command looks at Spark's plans, which nobody sees over Spark Connect: give it a Spark of its own, as in"
                " --master 'local[*]'\n"
            ),
        ),
        (1, "no Spark Connect server answers at 127.0.0.1:1: Connection refused\n"),
        (
            1,
            (
                "--package does not go over Spark Connect: the Python of the server and its workers needs Tidelog"
                " installed\n"
            ),
        ),
    ]


def test_a_difference_reads_as_one_of_texts_and_with_a_key_as_what_has_changed() -> None:
    assert lines_of(Difference('{"id":1}', ('{"id":1,"a":2,"b":3}',), ('{"id":1,"a":2,"b":null}',))) == [
        '~ {"id":1}: b 3 -> null'
    ]
    assert lines_of(Difference('{"id":1}', (), ('{"id":1}',))) == ['+ {"id":1}']
    assert lines_of(Difference(None, ('{"a":1}', '{"a":1}'), ())) == ['- {"a":1}', '- {"a":1}']


def test_rows_are_shown_as_json_has_them() -> None:
    at = dt.datetime(2026, 11, 16, 8, tzinfo=dt.UTC)
    row = {"n": float("nan"), "b": b"\xff", "t": at, "d": Decimal("1.50"), "l": [{"k": b"x"}]}

    assert row_as_json(row) == {
        "n": "nan",
        "b": {"base64": "/w=="},
        "t": "2026-11-16T08:00:00+00:00",
        "d": "1.50",
        "l": [{"k": "x"}],
    }
