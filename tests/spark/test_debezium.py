"""Debezium() in pipelines: recorded events out of topics into tables, compared with the tables that they were recorded of."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.debezium.recordings import Recorded, recorded, truth
from tests.spark.written import committed_rows
from tidelog import Producer
from tidelog.spark.pipelines import Debezium, FromTopic, Pipeline, ToDatabase, ToTopic
from tidelog.spark.pipelines.errors import QueryFailedError
from tidelog.spark.pipelines.pipeline_file import PipelineFile
from tidelog.spark.pipelines.pipeline_run import PipelineRun
from tidelog.spark.pipelines.query_plan import plan_pipeline
from tidelog.spark.pipelines.validation import problems_of
from tidelog.testing import EmbeddedCluster

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
    cleared = Debezium("id int, name string", table="public.cleared")
    pipelines = [
        Pipeline(
            name=f"{topic}-customers",
            source=FromTopic(topic, decode, name="events"),
            transform="SELECT id, name, email, phone, __op AS op, __position AS position FROM events",
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


def test_a_record_that_is_no_event_stops_a_pipeline_without_dead_letters(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    send(cluster, topic, [Recorded(topic, 0, None, b'{"id": 1}', ())])
    pipeline = Pipeline(
        name=topic,
        source=FromTopic(topic, Debezium("id int"), name="events"),
        transform="SELECT id FROM events",
        sink=ToDatabase("sqlite:///shop.db", table="t"),
        bootstrap=cluster.bootstrap_servers,
    )

    with pytest.raises(QueryFailedError, match=f"{topic} at 0: the value is no change event: it has no op and source"):
        run_to_the_end(spark, tmp_path, pipeline)
