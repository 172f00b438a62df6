"""Debezium() in pipelines: recorded events out of topics into tables, compared with the tables that they were recorded of."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tests.spark.debezium.recordings import COLUMNS, Recorded, as_postgresql, of_topic, recorded, schemas, truth
from tests.spark.test_debezium_events import by_key
from tests.spark.written import committed_rows
from tests.support.command_line import tidelog
from tests.support.schema_registry import schema_registry
from tidelog import Producer
from tidelog.spark.formats.registry_framing import frame
from tidelog.spark.outputs.staged import UNCHANGED
from tidelog.spark.pipelines import Debezium, FromTopic, Pipeline, Registry, ToDatabase, ToTable, ToTopic
from tidelog.spark.pipelines.batch_rows import rows_of, rows_to_write
from tidelog.spark.pipelines.errors import QueryFailedError
from tidelog.spark.pipelines.pipeline_file import PipelineFile, load_pipelines
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.pipelines.query_plan import plan_pipeline
from tidelog.spark.pipelines.validation import problems_of
from tidelog.testing import EmbeddedCluster

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pipelines"
ORDERS = (
    "id bigint, customer string, price decimal(10,2), placed timestamp_ntz, notes string, body binary, tags array<string>, "
    "numbers array<int>, more string"
)


def send(cluster: EmbeddedCluster, topic: str, records: Iterable[Recorded], partition: int | None = None) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        sent = [producer.send(topic, each.value, key=each.key, partition=partition) for each in records]
        for each in sent:
            each.result(30)


def run_to_the_end(spark: SparkSession, directory: Path, *pipelines: Pipeline) -> None:
    run = PipelineRun(spark, PipelineFile(directory / "jobs.py", list(pipelines), []), until_caught_up=True)
    run.start()
    run.follow(lambda _: None)


def problems(decoder: Debezium) -> list[str]:
    return problems_of([Pipeline(name="p", source=FromTopic("orders", decoder), sink=ToTopic("out"))])


@pytest.mark.parametrize(
    ("decoder", "sentence"),
    [
        (Debezium(""), "the schema of Debezium is empty"),
        (Debezium("id bigint, price decmal"), "there is no type decmal; did you mean decimal?"),
        (Debezium("id int", table=" "), "table is empty"),
        (Debezium("id int", key="id"), "key is a list of columns: ['id']"),
        (Debezium("id int", order="time"), "order is 'time'; it can be source or offset"),
        (Debezium("id int", truncates="ignore"), "truncates is 'ignore'; it can be refuse or row"),
        (Debezium("id int", flat=True, truncates="row"), "ExtractNewRecordState leaves truncated tables out"),
        (Debezium("id int", unavailable=""), "unavailable is empty"),
        (Debezium("id int", registry="localhost:8081"), "is not the address of a schema registry"),
        (Debezium("id int", registry=Registry("http://r", token="t")), "Registry holds the token itself"),
        (Debezium("id int", registry=5), "registry is a int; it is an address"),  # type: ignore[arg-type]
        (Debezium("id int", unchanged="drop"), "unchanged is 'drop'; it can be keep, refuse, null"),
        (Debezium("id int", registry="http://r", avro='"int"'), "give one of them"),
        (Debezium("id int", avro="{"), "the schema of avro is wrong"),
        (Debezium("id int", types={"id": "Decimals"}), "types has 'Decimals' for id, which is none of string, "),
        (Debezium("id int", registry="http://r", types={"id": "Time"}), "types is for JSON without schemas"),
        (Debezium("id int", tables="a"), "Debezium has no argument tables; did you mean table?"),  # type: ignore[call-arg]
        (Debezium("id int", flat="yes"), "flat is 'yes'; it is True or False"),  # type: ignore[arg-type]
    ],
)
def test_each_mistake_of_a_decoder_has_its_sentence(decoder: Debezium, sentence: str) -> None:
    assert sentence in "\n".join(problems(decoder))


def test_a_decoder_without_mistakes() -> None:
    types = {"price": "Decimal", "placed": "io.debezium.time.MicroTimestamp", "tags": "string"}
    assert problems(Debezium(ORDERS, table="public.orders", key=["id"], truncates="row", types=types)) == []


@pytest.mark.parametrize(
    ("decoder", "sentence"),
    [
        (Debezium("id int, __op string"), "the column __op is one that Debezium() makes itself"),
        (Debezium("id int, v variant"), "the column v cannot be variant: take it as string"),
        (Debezium("id int", key=["number"]), "key names the column number, which is not in the schema"),
        (Debezium("id int", types={"no": "Time"}), "types names the column no, which is not in the schema"),
    ],
)
def test_columns_that_there_cannot_be(decoder: Debezium, sentence: str, spark: SparkSession) -> None:
    pipeline = Pipeline(name="p", source=FromTopic("orders", decoder), sink=ToTopic("out"))
    with pytest.raises(ValueError, match="source") as caught:
        plan_pipeline(spark, pipeline)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("transform", "sentence"),
    [
        ("SELECT id, notes FROM orders", "what comes out has no column __unchanged"),
        (
            "SELECT id, notes, size(__unchanged) AS __unchanged FROM orders",
            "the column __unchanged is int; it is an array",
        ),
    ],
)
def test_a_pipeline_that_would_lose_values_is_refused(transform: str, sentence: str, spark: SparkSession) -> None:
    table = ToTable("orders", format="delta", merge_on=["id"])
    pipeline = Pipeline(name="p", source=FromTopic("orders", Debezium(ORDERS)), transform=transform, sink=table)
    with pytest.raises(ValueError, match="__unchanged") as caught:
        plan_pipeline(spark, pipeline)
    assert sentence in str(caught.value)
    told = replace(pipeline, source=FromTopic("orders", Debezium(ORDERS, unchanged="null")))
    assert plan_pipeline(spark, replace(told, transform="SELECT id, notes FROM orders"))


def test_values_are_left_out_by_the_names_that_columns_have_in_the_end(spark: SparkSession) -> None:
    columns = "id int, Notes string, __unchanged array<string>"
    rows = spark.createDataFrame([(1, None, ["notes"]), (2, "x", []), (3, "x", None)], columns)
    table = ToTable("orders", format="delta", merge_on=["id"])

    written = rows_to_write(rows, [rows_of(rows, table)]).collect()

    assert {each["s0"]["id"]: each["s0"][UNCHANGED] for each in written} == {1: "01", 2: None, 3: None}
    assert "__unchanged" not in written[0]["s0"].asDict()
    renamed = rows.withColumnRenamed("Notes", "remarks")
    with pytest.raises(
        PySparkException, match="a row leaves out the value of notes, which is no column of what comes out"
    ):
        rows_to_write(renamed, [rows_of(renamed, table)]).collect()
    # To whom rows are only added it is a column.
    assert [name for name, _ in rows_of(rows, replace(table, merge_on=())).fields] == rows.columns


# What no database has a type for is text; all sinks get the same rows.
MERGED = (
    "SELECT id, customer, price, placed, notes, body, to_json(tags) AS tags, to_json(numbers) AS numbers, more,"
    " __op AS op, __position AS position, __unchanged FROM orders"
)


def test_every_table_keeps_the_values_that_events_leave_out(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    send(cluster, topic, of_topic("precise.plain", "orders"), partition=0)
    changes: dict[str, Any] = {"merge_on": ["id"], "sequence_by": "position", "deletes": "op = 'd'"}
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    pipeline = Pipeline(
        name=topic,
        source=FromTopic(
            topic,
            Debezium(ORDERS, types={"price": "Decimal", "placed": "MicroTimestamp"}),
            name="orders",
            # Some events that leave a value out are in the batch of the one that has it, and some are not.
            options={"maxOffsetsPerTrigger": 20},
        ),
        transform=MERGED,
        sink=[
            ToTable("delta", format="delta", **changes),
            ToTable(name="shop.orders", format="iceberg", catalog=catalog, **changes),
            ToDatabase("sqlite:///shop.db", table="orders", **changes),
        ],
        bootstrap=cluster.bootstrap_servers,
    )

    run_to_the_end(spark, tmp_path, pipeline)

    right = by_key("orders", truth()["orders"])
    assert by_key("orders", as_written(DeltaTable(str(tmp_path / "delta")).to_pyarrow_table().to_pylist())) == right
    with closing(load_catalog("default", **catalog)) as shop:
        assert by_key("orders", as_written(shop.load_table("shop.orders").scan().to_arrow().to_pylist())) == right
    names = tuple(COLUMNS["orders"])
    assert by_key("orders", as_written(sqlite_rows(tmp_path / "shop.db", "orders", names))) == right


def as_written(rows: Iterable[dict[str, Any]]) -> list[dict[str, str | None]]:
    """Rows of a sink of orders as PostgreSQL writes them."""
    read: dict[str, Callable[[Any], Any]] = {
        "price": lambda value: Decimal(str(value)),
        "placed": lambda value: datetime.fromisoformat(str(value)),
        "tags": json.loads,
        "numbers": json.loads,
    }
    return [
        {
            name: as_postgresql(None if row[name] is None else read.get(name, lambda value: value)(row[name]), kind)
            for name, kind in COLUMNS["orders"].items()
        }
        for row in rows
    ]


def sqlite_rows(path: Path, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as database:
        found = database.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {columns[0]}").fetchall()
    return [dict(zip(columns, each, strict=True)) for each in found]


def test_one_table_of_a_topic_that_has_all_and_what_cannot_be_read_apart(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    send(cluster, topic, recorded("double.plain"), partition=0)
    decode = Debezium("id int, name string, email string, phone string", table="public.customers")
    # The truncate of another table is passed over, and that of its own is not.
    cleared = Debezium("id int, name string", table="public.cleared", unchanged="refuse")
    pipelines = [
        Pipeline(
            name=f"{topic}-customers",
            source=FromTopic(topic, decode, name="events"),
            transform="SELECT id, name, email, phone, __op AS op, __position AS position, __unchanged FROM events",
            sink=ToDatabase(
                "sqlite:///shop.db", table="customers", merge_on=["id"], sequence_by="position", deletes="op = 'd'"
            ),
            bootstrap=cluster.bootstrap_servers,
        ),
        Pipeline(
            name=f"{topic}-cleared",
            source=FromTopic(topic, cleared, name="events", dead_letters=f"{topic}-dead"),
            transform="SELECT id, name FROM events",
            sink=ToTopic(f"{topic}-out"),
            bootstrap=cluster.bootstrap_servers,
        ),
    ]
    for each in ("dead", "out"):
        cluster.create_topic(f"{topic}-{each}", partitions=1)

    run_to_the_end(spark, tmp_path, *pipelines)

    columns = ("id", "name", "email", "phone")
    found = [
        {name: None if value is None else str(value) for name, value in row.items()}
        for row in sqlite_rows(tmp_path / "shop.db", "customers", columns)
    ]
    assert found == [{name: row[name] for name in columns} for row in truth()["customers"]]
    (dead,) = committed_rows(cluster.bootstrap_servers, f"{topic}-dead")
    assert json.loads(dead.value or b"")["op"] == "t"
    assert dict(dead.headers)["tidelog.dead-letter.reason"] == (
        b"the value cannot be decoded: the table public.cleared was truncated: truncates='row' makes a row of it"
    )


def test_the_example_makes_a_table_of_the_events_that_come_with_it(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    (declared,) = load_pipelines(EXAMPLES / "customers.py").pipelines
    topic, events = "shop.public.customers", EXAMPLES / "customers.events.jsonl"
    for name in (topic, "customers.dead"):
        cluster.create_topic(name, partitions=1)
    bootstrap = ["--bootstrap", cluster.bootstrap_servers]
    assert tidelog("produce", topic, "--from-json", "--partition", "0", *bootstrap, events).exit_code == 0

    run_to_the_end(spark, tmp_path, declared.moved_to(cluster.bootstrap_servers, {}))

    columns = ("id", "name", "email", "phone")
    found = sqlite_rows(tmp_path / "customers.db", "customers", columns)
    emails = {1: "back", 2: "last", 3: "second", 4: "third", 5: "fourth"}
    assert found == [
        {
            "id": number,
            "name": f"name {number}",
            "email": f"{emails[number]}@example.com" if number in emails else None,
            "phone": f"0{number}" if number > 5 else None,
        }
        for number in range(1, 9)
    ]
    lake = DeltaTable(str(tmp_path / "tables" / "customers")).to_pyarrow_table(columns=list(columns))
    assert lake.sort_by("id").to_pylist() == found


def test_a_record_that_becomes_two_rows_is_one_dead_letter(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    events = of_topic("precise.plain", "loose")
    send(cluster, topic, events, partition=0)
    source = FromTopic(
        topic,
        Debezium("id int, name string", key=["id"]),
        name="events",
        dead_letters=f"{topic}-dead",
        expect={"the id is large": "id > 2"},
    )
    for each in ("dead", "out"):
        cluster.create_topic(f"{topic}-{each}", partitions=1)
    pipeline = Pipeline(name=topic, source=source, sink=ToTopic(f"{topic}-out"), bootstrap=cluster.bootstrap_servers)

    run_to_the_end(spark, tmp_path, pipeline)

    letters = committed_rows(cluster.bootstrap_servers, f"{topic}-dead")
    offsets = [int(dict(each.headers)["tidelog.dead-letter.offset"] or b"") for each in letters]
    # The update of a key from 2 to 3 among them, one of whose rows is as it should be.
    assert offsets == [each.offset for each in events if each.value is not None]
    (out,) = committed_rows(cluster.bootstrap_servers, f"{topic}-out")
    assert (json.loads(out.value or b"")["id"], json.loads(out.value or b"")["__unchanged"]) == (3, [])


def test_events_in_avro_are_read_by_what_a_registry_tells_those_who_may_ask(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("secret")
    form = "precise.avro"
    with schema_registry(user="ada:secret") as server:
        for number, text in enumerate(schemas(form), 1):
            assert server.add(f"subject-{number}", text) == number
        unknown = frame(len(schemas(form)) + 1) + b"\2"
        records = [(each.topic, each.offset, each.key, each.value) for each in of_topic(form, "customers")]
        rows = spark.createDataFrame(
            [*records, ("t", 99, None, unknown)], "topic string, offset bigint, key binary, value binary"
        )
        registry = Registry(server.url, user="ada", password=f"${{directory:{tmp_path}:password}}")
        decoder = Debezium("id int, name string", registry=registry)

        decoded = decoder.decoded(F.col("value"), keeps_broken=True)
        assert decoded.reason is not None
        found = rows.select(decoded.columns.alias("rows"), decoded.reason.alias("reason")).collect()

    assert {each["reason"] for each in found} == {None, f"{server.url} has no schema {len(schemas(form)) + 1}"}
    last = {row["id"]: row["name"] for each in found for row in each["rows"] if row is not None and row["__op"] != "d"}
    assert {(str(row["id"]), row["name"]) for row in truth()["customers"]} <= {(str(k), v) for k, v in last.items()}
    # One worker's task asks once for each.
    assert len(server.asked) <= len(schemas(form)) + 1


def test_a_record_that_is_no_event_stops_a_pipeline_without_dead_letters(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    send(cluster, topic, [Recorded(topic, 0, None, b'{"id": 1}', ())])
    pipeline = Pipeline(
        name=topic,
        source=FromTopic(topic, Debezium("id int", unchanged="null"), name="events"),
        transform="SELECT id FROM events",
        sink=ToDatabase("sqlite:///shop.db", table="t"),
        bootstrap=cluster.bootstrap_servers,
    )

    with pytest.raises(QueryFailedError, match=f"{topic} at 0: the value is no change event: it has no op and source"):
        run_to_the_end(spark, tmp_path, pipeline)
