"""The fixture `tidelog_pipeline`: pipelines of files and of objects, with rows that tests give, in Spark and on a cluster."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import DataFrame

from tidelog.spark.pipelines import (
    Avro,
    FromTopic,
    Json,
    Pipeline,
    Text,
    ToDatabase,
    ToFiles,
    ToTable,
    ToTopic,
    Watermark,
)
from tidelog.spark.pipelines.errors import DefinitionError, QueryFailedError
from tidelog.spark.testing_kit.errors import PipelineTestError, RowsDifferError
from tidelog.spark.testing_kit.given_records import Record
from tidelog.spark.testing_kit.pipeline_test import PipelineTest

Make: TypeAlias = Callable[..., PipelineTest]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pipelines"
ORDER = Json("id string, product string, price double, at timestamp")


def order(number: int, minute: int, price: float = 1.5) -> dict[str, Any]:
    return {"id": f"o{number}", "product": "apples", "price": price, "at": f"2026-11-18T08:{minute:02}:00Z"}


def revenue(minute: int, orders: int) -> dict[str, Any]:
    at = dt.datetime(2026, 11, 18, 8, minute, tzinfo=dt.UTC)
    return {"product": "apples", "minute": at, "orders": orders, "revenue": 1.5 * orders}


def test_a_file_counts_what_it_was_given_once_time_has_gone_on(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "revenue.py")
    pipeline.given("orders", [order(1, 1), order(2, 1), order(3, 2), "nine apples"])

    pipeline.run()
    before = pipeline.result("revenue")
    pipeline.advance_time("10 minutes")
    pipeline.run()

    assert before == []
    pipeline.expect("revenue", [revenue(1, 2), revenue(2, 1)])
    (letter,) = pipeline.dead_letters()
    assert (letter.text, letter.reason, letter.topic) == ("nine apples", "the value cannot be decoded", "orders")


def test_what_comes_behind_the_watermark_is_late(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(EXAMPLES / "revenue.py")
    pipeline.given("orders", [order(1, 1)])
    pipeline.advance_time(dt.timedelta(minutes=10))
    pipeline.run()
    pipeline.given("orders", [order(2, 1), order(3, 10)])
    pipeline.advance_time("1 hour")
    pipeline.run()

    with pytest.raises(RowsDifferError) as raised:
        pipeline.expect("revenue", [revenue(1, 2), revenue(10, 1)])

    assert str(raised.value).splitlines() == [
        "revenue: 1 row is expected and not there, 1 row is there and not expected",
        '  missing  {"product": "apples", "minute": "2026-11-18T08:01:00.000000Z", "orders": 2, "revenue": 3}',
        '  surplus  {"product": "apples", "minute": "2026-11-18T08:01:00.000000Z", "orders": 1, "revenue": 1.5}',
    ]


def test_sinks_of_all_kinds_are_the_tests_own(tidelog_pipeline: Make, tmp_path: Path) -> None:
    pipeline = tidelog_pipeline(
        Pipeline(
            name="everywhere",
            source=FromTopic("orders", ORDER, bootstrap="orders.example.com:9092"),
            transform="SELECT id, product, price FROM orders",
            sink=[
                ToTable("/var/lib/tables/orders", format="delta"),
                ToTable(name="shop.orders", format="iceberg", catalog={"type": "rest", "uri": "http://127.0.0.1:1"}),
                ToDatabase("postgresql://shop@db.example.com/shop", table="latest", merge_on=["id"]),
                ToFiles("s3://bucket/cheap", where="price < 2", partition_by=["product"]),
                ToTopic("checked", key="id"),
            ],
            kafka={"security.protocol": "SSL", "ssl.truststore.location": "/etc/kafka/trust.pem"},
        )
    )
    pipeline.given("orders", [order(1, 1), order(2, 2, price=7.0)])

    pipeline.run()

    rows = [{"id": "o1", "product": "apples", "price": 1.5}, {"id": "o2", "product": "apples", "price": 7.0}]
    for sink in ("orders", "shop.orders", "latest", "checked"):
        pipeline.expect(sink, rows)
    pipeline.expect("cheap", rows[:1])
    assert [record.key for record in pipeline.records("checked")] == [b"o1", b"o2"]


def only_dear(orders: DataFrame) -> DataFrame:
    return orders.where("price > 2").select("id")


def test_a_function_of_the_test_and_a_format_of_sparks_own(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(
        Pipeline(name="dear", source=FromTopic("orders", ORDER), transform=only_dear, sink=ToTable("tables/dear")),
        partitions=2,
    )
    pipeline.given("orders", [order(1, 1), order(2, 2, price=7.0)])
    pipeline.run()
    pipeline.given("orders", [order(3, 1, price=9.0)])

    pipeline.run()

    pipeline.expect("dear", [{"id": "o2"}, {"id": "o3"}])


def test_what_one_pipeline_writes_the_next_one_reads(tidelog_pipeline: Make) -> None:
    second = Pipeline(name="second", source=FromTopic("checked", Json("id string")), sink=ToTopic("last"))
    first = Pipeline(
        name="first", source=FromTopic("orders", ORDER), transform="SELECT id FROM orders", sink=ToTopic("checked")
    )
    pipeline = tidelog_pipeline([second, first])
    pipeline.given("orders", [order(1, 1)])

    pipeline.run()

    pipeline.expect("last", [{"id": "o1"}])


def test_the_time_of_a_record_is_event_time_where_the_watermark_says_so(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(
        Pipeline(
            name="lines",
            source=FromTopic("lines", Text("line"), watermark=Watermark("at", "1 minute", "record.timestamp")),
            transform="SELECT window.start AS minute, count(*) AS lines FROM lines GROUP BY window(at, '1 minute')",
            sink=ToTopic("counts"),
        )
    )
    at = dt.datetime(2026, 11, 18, 8, 0, 30, tzinfo=dt.UTC)
    pipeline.given("lines", [Record("a", timestamp=at), Record(b"b", timestamp=at + dt.timedelta(seconds=5))])
    pipeline.advance_time("3 minutes")

    pipeline.run()

    pipeline.expect("counts", [{"minute": "2026-11-18T08:00:00Z", "lines": 2}])


def test_rows_are_encoded_as_the_source_decodes(tidelog_pipeline: Make) -> None:
    schema = """{"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "string"}, {"name": "price", "type": ["null", "double"], "default": null}]}"""
    pipeline = tidelog_pipeline(
        Pipeline(name="avro", source=FromTopic("orders", Avro(schema, framed=True)), sink=ToTopic("copies"))
    )
    pipeline.given("orders", [{"id": "o1", "price": 1.5}, {"id": "o2"}])

    pipeline.run()

    pipeline.expect("copies", [{"id": "o1", "price": 1.5}, {"id": "o2", "price": None}])


def test_mistakes_of_a_test_are_one_sentence(tidelog_pipeline: Make, tmp_path: Path) -> None:
    copy = Pipeline(name="copy", source=FromTopic("orders", ORDER), sink=ToTopic("copies"))
    pipeline = tidelog_pipeline(copy)

    with pytest.raises(PipelineTestError, match="no source reads the topic order; did you mean orders"):
        pipeline.given("order", [])
    with pytest.raises(PipelineTestError, match="the values of orders have no column prize; did you mean price"):
        pipeline.given("orders", [{"prize": 3}])
    with pytest.raises(PipelineTestError, match="no source has a watermark="):
        pipeline.advance_time("1 minute")
    with pytest.raises(PipelineTestError, match="there is no sink copy; did you mean copies"):
        pipeline.result("copy")
    with pytest.raises(PipelineTestError, match=r"^no source has dead_letters="):
        pipeline.dead_letters()
    with pytest.raises(PipelineTestError, match=r"there is no file nowhere\.py: it was looked for in .*tests/spark"):
        tidelog_pipeline("nowhere.py")
    with pytest.raises(DefinitionError, match="sink: 'two words' cannot be"):
        tidelog_pipeline(Pipeline(name="wrong", source=FromTopic("orders", ORDER), sink=ToTopic("two words")))
    revenue = tidelog_pipeline(EXAMPLES / "revenue.py")
    with pytest.raises(PipelineTestError, match="no row that orders could count has been given"):
        revenue.advance_time("1 minute")
    with pytest.raises(PipelineTestError, match="'soon' is no duration"):
        revenue.advance_time("soon")


def test_a_pipeline_that_stops_says_why(tidelog_pipeline: Make) -> None:
    pipeline = tidelog_pipeline(Pipeline(name="copy", source=FromTopic("orders", ORDER), sink=ToTopic("copies")))
    pipeline.given("orders", ["no json"])

    with pytest.raises(QueryFailedError, match="Unrecognized token 'no'"):
        pipeline.run()


def test_another_version_goes_on_with_the_state_of_the_first(tidelog_pipeline: Make) -> None:
    def counts(sql: str, sink: ToTopic | ToTable) -> Pipeline:
        source = FromTopic("orders", ORDER, watermark=Watermark("at", "2 minutes"))
        return Pipeline(name="counts", source=source, transform=sql, sink=sink)

    grouped = "count(*) AS orders FROM orders {} GROUP BY product, window(at, '1 minute')"
    first = counts(f"SELECT product, {grouped.format('')}", ToTopic("counts"))
    dear = counts(f"SELECT product, {grouped.format('WHERE price > 2')}", ToTopic("counts"))
    pipeline = tidelog_pipeline(first)
    pipeline.given("orders", [order(1, 1), order(2, 2)])
    pipeline.run()

    pipeline.upgrade(dear)
    pipeline.given("orders", [order(3, 2), order(4, 2, price=7.0)])
    pipeline.advance_time("10 minutes")
    pipeline.run()

    # By its own rule the second version would not have counted the first two.
    pipeline.expect("counts", [{"product": "apples", "orders": 1}, {"product": "apples", "orders": 2}])
    with pytest.raises(DefinitionError, match="sink: 'two words' cannot be"):
        pipeline.upgrade(counts("SELECT * FROM orders", ToTopic("two words")))
    with pytest.raises(PipelineTestError, match=r"there is no file nowhere\.py"):
        pipeline.upgrade("nowhere.py")
    with pytest.raises(PipelineTestError, match="there are none that could be sent again"):
        pipeline.replay_dead_letters()
    assert pipeline.declared == [dear], "a version that is refused changes nothing"
