"""What is wrong with a pipeline shows without Spark and without a cluster, all of it at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tidelog.spark.outputs.staged import Changes, Target
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
from tidelog.spark.pipelines.query_options import (
    dead_letter_options,
    decisions_bootstrap,
    sink_options,
    source_options,
)
from tidelog.spark.pipelines.schema_text import unknown_types
from tidelog.spark.pipelines.sink_targets import cluster_target, staged_sinks
from tidelog.spark.pipelines.validation import problems_of

ORDERS = FromTopic("orders", Json("id bigint, price double"))
REVENUE = Pipeline(
    name="revenue", source=ORDERS, transform="SELECT id, price FROM orders", sink=ToTopic("revenue", key="id")
)
LOGIN = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "u"}


def problems(**changes: Any) -> list[str]:
    return problems_of([replace(REVENUE, **changes)])


def with_source(**changes: Any) -> list[str]:
    return problems(source=replace(ORDERS, **changes))


def test_a_pipeline_that_can_run_has_no_problem() -> None:
    assert problems_of([REVENUE]) == []
    assert problems_of([REVENUE, replace(REVENUE, name="copy", sink=ToTable("tables/copy"))]) == []
    assert problems(trigger="1 minute 30 seconds", checkpoint="s3a://bucket/revenue") == []
    assert problems(trigger="available_now", output_mode="complete") == []
    assert problems(transform=lambda orders: orders) == []
    assert problems(transform=None) == []
    everything = [
        ToTopic("a", key="id", where="price > 1"),
        ToTopic("b", key="id", bootstrap="b:1"),
        ToTable("t", format="delta", merge_on=["id"], sequence_by="at", deletes="price < 0", history=True),
        ToTable(name="shop.t", format="iceberg", catalog={"type": "rest", "uri": "http://h"}, merge_on=["id"]),
        ToDatabase("postgresql://u:${env:PW}@h/d", table="orders", merge_on=["id"]),
    ]
    assert problems(sink=everything, output_mode="update") == []
    assert problems(sink=[*everything, ToFiles("files")]) == []


def test_targets_have_all_that_an_end_needs_and_end_in_their_order() -> None:
    pipeline = replace(
        REVENUE,
        storage={"AWS_REGION": "here"},
        sink=[
            ToTopic("other", bootstrap="b:1", options={"kafka.linger.ms": 5}),
            ToFiles("s3://bucket/f", partition_by=["day"]),
            ToDatabase("sqlite:///d/a.db", table="t"),
            ToTable(
                "t", format="Delta", merge_on=["id"], sequence_by="at", widen=False, storage={"AWS_REGION": "there"}
            ),
            ToTable(name="shop.t", format="iceberg", catalog={"uri": "sqlite:///c", "warehouse": "w"}),
            ToTopic("own"),
        ],
    )

    found = staged_sinks(pipeline, "/c/revenue", lambda path: path if "://" in path else f"/jobs/{path}")

    assert [(each.label, each.staging) for each in found] == [
        (name, f"/c/revenue/staging/{name}") for name in ("t", "shop.t", "t", "f")
    ]
    # Pipelines of one team stage in one place, and sweep what is theirs.
    shared = [staged_sinks(replace(pipeline, name=name, staging="s3://b/staging/"), "/c", str) for name in ("a", "b")]
    assert [each[-1].staging for each in shared] == ["s3://b/staging/a/f", "s3://b/staging/b/f"]
    assert [each.target for each in found] == [
        Target("delta", "/jobs/t", changes=Changes(("id",), "at"), widens=False, storage={"AWS_REGION": "there"}),
        Target(
            "iceberg",
            "sqlite:////jobs/c",
            table="shop.t",
            options={"uri": "sqlite:////jobs/c", "warehouse": "/jobs/w"},
            storage={"AWS_REGION": "here"},
        ),
        Target("sqlite", "sqlite:////jobs/d/a.db", table="t"),
        Target("files", "s3://bucket/f", partition_by=("day",), storage={"AWS_REGION": "here"}),
    ]
    other, _, *_ = pipeline.sinks
    assert isinstance(other, ToTopic)
    assert cluster_target(pipeline, other) == Target("topic", "b:1", options={"linger.ms": "5"})
    assert cluster_target(REVENUE, ToTopic("x")) is None
    # A topic alone has its decisions beside it, as before there were several sinks.
    assert decisions_bootstrap(replace(REVENUE, sink=other)) == "b:1"
    assert decisions_bootstrap(pipeline) == "127.0.0.1:9092"


@pytest.mark.parametrize(
    "catalog",
    [
        {"type": "rest", "uri": "http://h:8181", "warehouse": "w"},
        {"uri": "https://h:8181", "warehouse": "w"},
        {"type": "rest", "uri": "${env:CATALOG}", "warehouse": "w"},
        {"uri": "postgresql+psycopg://h/c", "warehouse": "s3://b/w"},
        {"uri": "sqlite:///${env:CATALOG}", "warehouse": "${env:WAREHOUSE}"},
        {"uri": "sqlite:///:memory:", "warehouse": "file:///w"},
    ],
)
def test_a_catalog_that_lies_in_no_files_is_named_as_it_is(catalog: dict[str, str]) -> None:
    table = ToTable(name="shop.t", format="iceberg", catalog=catalog)

    (found,) = staged_sinks(replace(REVENUE, sink=table), "/c", lambda path: path if "://" in path else f"/jobs/{path}")

    assert (found.target.place, found.target.options) == (catalog["uri"], catalog)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "a b"}, "a b: 'a b' cannot be the name of a pipeline: letters"),
        ({"name": ".."}, "cannot be the name"),
        ({"source": []}, "revenue: there is no source"),
        ({"sink": None}, "revenue: there is no sink"),
        ({"source": "orders"}, "revenue: source: expected FromTopic, not str"),
        ({"source": [ORDERS, ORDERS]}, "2 sources have the name orders: give one of them name="),
        ({"source": [ORDERS, replace(ORDERS, name="o")], "transform": None}, "several sources need a transform"),
        ({"transform": " "}, "transform is empty"),
        ({"transform": 5}, "transform is SQL or a function, not int"),
        ({"transform": lambda: None}, "transform is given 1 DataFrames, one for each source"),
        ({"sink": "revenue"}, "sink: expected ToTopic, ToTable, ToFiles or ToDatabase, not str"),
        ({"sink": ToTopic("no topic")}, "sink: 'no topic' cannot be the name of a topic"),
        ({"sink": ToTopic("x", encode="xml")}, "encode is 'xml'; it can be json or columns"),
        ({"sink": ToTopic("x", encode="columns", key="id")}, "with encode='columns' a column key says it"),
        ({"sink": ToTopic("x", key="")}, "key is empty"),
        ({"sink": ToTopic("x", delivery="twice")}, "delivery is 'twice'; it can be exactly_once or at_least_once"),
        (
            {"sink": ToTopic("x", delivery="at_least_once", by_partition=True)},
            "by_partition is for the transactions of a batch: it needs delivery='exactly_once'",
        ),
        ({"sink": ToTopic("x", by_partition="yes")}, "by_partition is 'yes'; it is True or False"),  # type: ignore[arg-type]
        ({"sink": ToTopic("x", options={"Topic": "y"})}, "the option Topic is said by the topic: leave it out"),
        ({"sink": ToTopic("x", options={"kafka.acks": "7"})}, "sink: an option that begins with kafka. is wrong"),
        ({"sink": ToTopic("x", options={"subscribe": "y"})}, "the option subscribe is for reading"),
        ({"sink": ToTopic("orders")}, "sink writes to orders, which the pipeline reads"),
        ({"sink": ToTable()}, "sink: give the path of a directory or the name of a table, one of them"),
        ({"sink": ToTable("t", name="t")}, "one of them"),
        ({"sink": ToTable("t", partition_by="day")}, "partition_by is a list of columns: ['day']"),
        ({"sink": ToTable("t"), "output_mode": "update"}, "files are only added"),
        ({"sink": []}, "revenue: there is no sink"),
        ({"sink": [ToTopic("a"), "b"]}, "sink 2: expected ToTopic, ToTable, ToFiles or ToDatabase, not str"),
        ({"sink": [ToTopic("a"), ToFiles("x/a")]}, "2 sinks have the name a: give each name= of its own"),
        (
            {"sink": [ToTopic("a"), ToTable("t")]},
            "the sink t is of format parquet, which Spark itself writes, and so stands",
        ),
        (
            {"sink": [ToTopic("a", delivery="at_least_once"), ToFiles("t")]},
            "the sink a delivers at least once, and so stands",
        ),
        ({"sink": ToTopic("a", where=" ")}, "sink: where is empty"),
        ({"sink": ToFiles("a b")}, "'a b' cannot be the name of a sink: give name="),
        (
            {"sink": ToFiles("t"), "output_mode": "update"},
            "files are only added: output_mode update needs a table with",
        ),
        ({"sink": ToTopic("a"), "output_mode": "complete"}, "records of a have no key: give key="),
        ({"sink": ToTable("t", format="delta"), "output_mode": "update"}, "changes rows of t: give merge_on="),
        ({"sink": ToTable("t", merge_on=["id"])}, "merge_on= needs format='delta' or 'iceberg', or a database"),
        ({"sink": ToTable("t", format="delta", merge_on="id")}, "merge_on is a list of columns: ['id']"),
        ({"sink": ToTable("t", format="delta", deletes="x")}, "deletes= needs merge_on="),
        ({"sink": ToTable("t", format="delta", merge_on=["id"], history=True)}, "history=True needs sequence_by="),
        ({"sink": ToTable("t", format="delta", merge_on=["id"], sequence_by="id")}, "which is part of the key"),
        ({"sink": ToTable(name="t", format="delta")}, "a Delta table needs the path of its directory"),
        ({"sink": ToTable("gs://b/t", format="delta")}, "gs://b/t is neither a directory nor s3://BUCKET/..."),
        ({"sink": ToTable(name="t", format="iceberg")}, "as in name='shop.orders'"),
        ({"sink": ToTable(name="a.t", format="iceberg")}, "an Iceberg table needs catalog="),
        (
            {"sink": ToTable(name="a.t", format="iceberg", catalog={"uri": "postgresql://u:pw@h/d", "token": "x"})},
            "catalog holds a password in uri, which every decision would show",
        ),
        ({"sink": ToFiles("t", storage={"AWS_SECRET_ACCESS_KEY": "x"})}, "holds AWS_SECRET_ACCESS_KEY itself"),
        ({"sink": ToDatabase("oracle://h", table="t")}, "url is of no database that is known here"),
        ({"sink": ToDatabase("postgresql://u:pw@h/d", table="t")}, "url holds a password"),
        ({"sink": ToDatabase("sqlite:///a.db")}, "sink: ToDatabase needs table="),  # type: ignore[call-arg]
        ({"sink": ToFiles("t"), "checkpoint": "hdfs://n/c"}, "give staging= that is one of them"),
        ({"sink": ToFiles("t"), "staging": " "}, "staging is empty"),
        (
            {"sink": [ToTopic("a", options={"kafka.linger.ms": 5}), ToTopic("b")]},
            "the sink b has other options than another topic of its cluster",
        ),
        (
            {"sink": [ToTopic("a"), ToTopic("b", bootstrap="b:1", options={"kafka.sasl.password": "x", **LOGIN})]},
            "the sink b holds kafka.sasl.password itself, which every decision would show",
        ),
        ({"sink": ToTable(name="t"), "output_mode": "complete"}, "files are only added"),
        (
            {"sink": ToTopic("a", delivery="at_least_once"), "output_mode": "update"},
            "Spark writes no updates to a topic",
        ),
        ({"output_mode": "upsert"}, "output_mode is 'upsert'; it can be append, update, complete"),
        ({"trigger": "often"}, "trigger is 'often'; it is a time such as '10 seconds', or available_now"),
        ({"checkpoint": " "}, "checkpoint is empty"),
        ({"master": ""}, "master is empty"),
        ({"bootstrap": "host:x"}, "revenue: source: an option that begins with kafka. is wrong"),
    ],
)
def test_each_mistake_has_its_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in "\n".join(problems(**changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"topic": None}, "give a topic or a pattern, one of them"),
        ({"pattern": "o.*"}, "give a topic or a pattern, one of them"),
        ({"topic": None, "pattern": "o.*"}, "a pattern is no name for a table: give name= as well"),
        ({"topic": "1st"}, "'1st' cannot be the name of a table in SQL: give name="),
        ({"decode": Json("")}, "the schema of Json is empty"),
        ({"decode": Avro("{")}, "the schema of Avro is wrong"),
        ({"decode": Avro('"string"', registry="http://r")}, "Avro needs framed=True"),
        ({"decode": Text("a b")}, "'a b' cannot be the name of Text's column"),
        ({"decode": None, "dead_letters": "dead"}, "dead_letters without decode="),
        ({"decode": None, "expect": {"x": "y"}, "dead_letters": "dead"}, "expect is about columns"),
        ({"expect": {"it is cheap": "price < 5"}}, "expect needs dead_letters="),
        ({"expect": {"it is cheap": ""}, "dead_letters": "d"}, "expect 'it is cheap' has no condition"),
        ({"dead_letters": "orders"}, "dead_letters writes to orders, which the pipeline reads"),
        ({"dead_letters": ""}, "'' cannot be the name of a topic"),
        ({"watermark": Watermark("record.timestamp", "1 minute")}, "An expression can make one"),
        ({"watermark": Watermark("record", "1 minute")}, "the watermark cannot be record"),
        ({"watermark": Watermark("at", "soon")}, "the watermark's delay is 'soon'"),
        ({"options": {"startingOffset": "earliest"}}, "no option startingoffset; did you mean startingOffsets?"),
        ({"options": {"endingOffsets": "latest"}}, "a stream has no end"),
        ({"options": {"kafka.group.id": "g"}}, "the option kafka.group.id is said by the name of the pipeline"),
        ({"options": {"columns": "value"}}, "columns would take away from record"),
    ],
)
def test_each_mistake_of_a_source_has_its_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in "\n".join(with_source(**changes))


@pytest.mark.parametrize(
    ("made", "sentences"),
    [
        (lambda: FromTopic(5), ["topic is 5; it is text, or None"]),  # type: ignore[arg-type]
        (
            lambda: FromTopic("orders", "json"),  # type: ignore[arg-type]
            ["decode is 'json'; it is Json, Avro, Protobuf, Text or Debezium, or None"],
        ),
        (
            lambda: FromTopic("orders", expect=["price > 0"]),  # type: ignore[arg-type]
            ["expect is ['price > 0']; it is a dictionary of conditions, texts or Expect"],
        ),
        (lambda: FromTopic("orders", Json(5)), ["schema is 5; it is text or a StructType"]),  # type: ignore[arg-type]
        (
            lambda: FromTopic("orders", Json("id int", frame=True)),  # type: ignore[call-arg]
            ["Json has no argument frame; did you mean framed? (line N)"],
        ),
        (lambda: FromTopic("orders", watermark="1 minute"), ["watermark is '1 minute'; it is a Watermark, or None"]),  # type: ignore[arg-type]
        (
            lambda: FromTopic("orders", watermark=Watermark("at", 5, 6)),  # type: ignore[arg-type]
            ["delay is 5; it is text", "expression is 6; it is text, or None"],
        ),
        (
            lambda: FromTopic("orders", Json("id int, at timestmp"), "o", nam="x"),  # type: ignore[call-arg]
            [
                "FromTopic is given 3 arguments without names, and takes 2 such (line N)",
                "FromTopic has no argument nam; did you mean name? (line N)",
                "the schema of Json is wrong: there is no type timestmp; did you mean timestamp?",
            ],
        ),
        (lambda: FromTopic("orders", topic="o"), ["FromTopic is given topic twice (line N)"]),  # type: ignore[misc]
    ],
)
def test_arguments_that_are_none_or_of_a_wrong_type_have_their_sentences(
    made: Callable[[], FromTopic], sentences: list[str]
) -> None:
    found = problems_of([replace(REVENUE, source=made(), transform=None)])

    assert [re.sub(r"line \d+", "line N", each) for each in found] == [f"revenue: source: {each}" for each in sentences]


def test_wrong_types_elsewhere_hide_nothing() -> None:
    sink = ToTopic(7, key=8, delivery=None, options={"acks": None})  # type: ignore[arg-type,dict-item]
    table = ToTable(b"t", partition_by=5)  # type: ignore[arg-type]
    pipeline = Pipeline(name=None, source=None, sink=sink, trigger=5, output_mode="x")  # type: ignore[arg-type]

    assert problems_of([pipeline, replace(REVENUE, sink=table)]) == [
        "a pipeline without a name: name is None; it is text",
        "a pipeline without a name: trigger is 5; it is text, or None",
        "a pipeline without a name: there is no source",
        "a pipeline without a name: sink: topic is 7; it is text",
        "a pipeline without a name: sink: key is 8; it is text, or None",
        "a pipeline without a name: sink: delivery is None; it is text",
        """a pipeline without a name: sink: options is {'acks': None}; it is a dictionary, as in {"name": "value"}""",
        "a pipeline without a name: output_mode is 'x'; it can be append, update, complete",
        "revenue: sink: path is b't'; it is text, or None",
        "revenue: sink: partition_by is 5; it is a list of columns",
    ]


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ("id bigint, price double", []),
        ("id: BIGINT NOT NULL COMMENT 'a, b', `a b` decimal(10, 2)", []),
        ("a array<map<string, struct<b: int, c: strin>>>, d interval day to second, e doubl", ["strin", "doubl"]),
        ("s string COLLATE UTF8_BINARY, t timestamp_ntz", []),
        # Wrong in another way, of which Spark knows more.
        ("id bigint price double", []),
        ("a array<int", []),
        ("id", []),
        ("a int,, b strin", []),
        ("a strin, b (", ["strin"]),
    ],
)
def test_types_that_spark_does_not_have_are_found_in_a_schema(schema: str, wrong: list[str]) -> None:
    assert [each.split(";")[0] for each in unknown_types(schema)] == [f"there is no type {name}" for name in wrong]


def test_all_mistakes_are_told_at_once() -> None:
    found = problems_of(
        [
            replace(REVENUE, trigger="often", output_mode="upsert", master="local[2]"),
            replace(REVENUE, checkpoint="c", spark={"spark.ui.enabled": False}),
            replace(REVENUE, name="other", checkpoint="c", spark={"spark.ui.enabled": True}),
        ]
    )

    assert [each.split(";")[0].split(":", 1)[1].strip()[:45] for each in found] == [
        "output_mode is 'upsert'",
        "trigger is 'often'",
        "2 pipelines have this name: each needs a name",
        "2 pipelines have this checkpoint",
        "local[*], local[2]",
        "another pipeline of the file sets spark.ui.en",
    ]


def test_the_source_is_read_whole_and_committed_and_shows_in_a_group() -> None:
    assert source_options(REVENUE, ORDERS, group_id="revenue") == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "kafka.group.id": "revenue",
        "subscribe": "orders",
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    chosen = replace(
        ORDERS,
        dead_letters="dead",
        bootstrap="b:1",
        options={"startingTimestamp": 5, "kafka.isolation.level": "read_uncommitted", "failOnDataLoss": False},
    )
    assert source_options(REVENUE, chosen, group_id="g") == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.group.id": "g",
        "subscribe": "orders",
        "includeHeaders": "true",
        "startingTimestamp": "5",
        "kafka.isolation.level": "read_uncommitted",
        "failOnDataLoss": "false",
    }


def test_dead_letters_go_where_the_rows_go_and_each_says_its_topic() -> None:
    sink = ToTopic("revenue", delivery="at_least_once", bootstrap="b:1", options={"kafka.linger.ms": 5})
    pipeline = replace(REVENUE, sink=sink, bootstrap="a:1")

    assert sink_options(pipeline, sink) == {
        "kafka.bootstrap.servers": "b:1",
        "topic": "revenue",
        "delivery": "at_least_once",
        "kafka.linger.ms": "5",
    }
    assert dead_letter_options(pipeline) == {
        "kafka.bootstrap.servers": "b:1",
        "delivery": "at_least_once",
        "kafka.linger.ms": "5",
    }
    assert dead_letter_options(replace(REVENUE, sink=ToTable("t"))) == {"kafka.bootstrap.servers": "127.0.0.1:9092"}
