"""Tables of Spark's catalog that are topics: `CREATE TABLE ... USING tidelog`, and all that can be done with one."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from tests.spark.topics import Output, numbers, options, read, stopped
from tidelog.spark.catalog_table import (
    DECLARED,
    METADATA,
    reading_options,
    reading_side,
    schema_of_new,
    writing_options,
    writing_side,
)
from tidelog.spark.errors import OptionError
from tidelog.testing import EmbeddedCluster

SERVERS = "127.0.0.1:9092"


def told(**options: str) -> dict[str, str]:
    """What Spark tells of a CREATE TABLE with these options."""
    named = {name.replace("__", "."): text for name, text in options.items()}
    return {"provider": "tidelog", "owner": "root", **named, **{f"option.{name}": each for name, each in named.items()}}


def test_the_options_of_a_table_go_with_its_schema_to_those_who_read() -> None:
    schema = schema_of_new(
        {
            **told(kafka__bootstrap__servers=SERVERS, subscribe="t", startingoffsets="earliest"),
            "comment": "orders",
            "subscribepattern": "a property of the table",
        }
    )

    assert schema.fieldNames() == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert reading_options({"Subscribe": "u"}, schema) == {
        "kafka.bootstrap.servers": SERVERS,
        "subscribe": "u",
        "startingoffsets": "earliest",
    }
    without = StructType([StructField(each.name, each.dataType) for each in schema.fields])
    with pytest.raises(OptionError, match=r"kafka.bootstrap.servers is missing: .* without AS SELECT"):
        reading_options({}, without)


def test_a_table_that_names_a_topic_is_written_by_rows_that_spark_has_fitted_to_it_alone() -> None:
    both = {"kafka.bootstrap.servers": SERVERS, "topic": "t", "delivery": "at_least_once"}
    schema = schema_of_new(
        told(kafka__bootstrap__servers=SERVERS, subscribe="t", topic="t", delivery="at_least_once", columns="value")
    )
    (field,) = schema.fields
    assert field.metadata[DECLARED] == "binary"
    assert reading_options({}, schema) == {"kafka.bootstrap.servers": SERVERS, "subscribe": "t", "columns": "value"}
    # Rows of this table, on their way into another one.
    with pytest.raises(OptionError, match="only where it has to fit the rows"):
        writing_options({}, schema)

    fitted = {name: each for name, each in field.metadata.items() if name != DECLARED}
    into = StructType([StructField("value", field.dataType, metadata=fitted)])
    assert writing_options({"Topic": "u"}, into) == {**both, "topic": "u"}
    only_read = schema_of_new(told(kafka__bootstrap__servers=SERVERS, subscribe="t"))
    with pytest.raises(OptionError, match="and the table names a topic"):
        writing_options({}, only_read)


def test_a_location_is_a_path() -> None:
    schema = schema_of_new({"provider": "tidelog", "location": "file:/a%20b", "path": "file:/a%20b", "owner": "root"})

    assert reading_options({}, schema) == {"path": "/a b"}
    assert json.loads(schema.fields[0].metadata[METADATA]) == {"path": "/a b"}


def test_each_side_of_a_view_takes_its_own_options() -> None:
    both = {"kafka.bootstrap.servers": SERVERS, "nobody": "knows"}
    options = {
        **both,
        "kafka.linger.ms": "5",
        "kafka.fetch.min.bytes": "1",
        "subscribe": "t",
        "topic": "t",
        "delivery": "at_least_once",
    }

    assert reading_side(options) == {**both, "kafka.fetch.min.bytes": "1", "subscribe": "t"}
    assert writing_side(options) == {**both, "kafka.linger.ms": "5", "topic": "t", "delivery": "at_least_once"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (told(kafka__bootstrap__servers=SERVERS), "no topics are chosen"),
        (told(subscribe="t"), "kafka.bootstrap.servers is missing"),
        (told(kafka__bootstrap__servers=SERVERS, subscibe="t"), "there is no option subscibe; did you mean subscribe?"),
        (told(kafka__bootstrap__servers=SERVERS, topic="t"), "the option topic is for writing"),
        (
            told(kafka__bootstrap__servers=SERVERS, subscribe="t", topic="t", delivery="once"),
            "delivery is 'once'",
        ),
        (told(kafka__bootstrap__servers=SERVERS, subscribe="t", kafka__sasl__password="x"), "for all to see: refer"),
        ({"provider": "tidelog", "location": "s3a://bucket/x"}, "a directory of this machine"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_when_it_is_created(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence.replace("?", "[?]")):
        schema_of_new(given)


def refused(statement: Callable[[], object], sentence: str) -> None:
    with pytest.raises(PySparkException, match=sentence):
        statement()


def test_a_table_is_read_by_its_name_and_written_with_its_options_named(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    said = f"kafka.bootstrap.servers '{cluster.bootstrap_servers}'"
    target = {**servers, "topic": topic}
    spark.sql(
        f"CREATE TABLE orders USING tidelog OPTIONS ({said}, subscribe '{topic}', columns 'value,key') "
        "COMMENT 'all of them' TBLPROPERTIES ('team' = 'shop')"
    )
    other: dict[str, Any] = {**servers, "subscribe": f"{topic}-2", "columns": "value,key"}
    spark.catalog.createTable("others", source="tidelog", **other)
    try:
        rows = spark.range(10, 12).selectExpr("binary(string(id)) AS value", "binary('k') AS key")
        rows.writeTo("orders").options(**target).append()
        named = ", ".join(f"`{name}` = '{each}'" for name, each in target.items())
        spark.sql(f"INSERT INTO orders WITH ({named}) VALUES (binary('0'), NULL)")
        rows.write.format("tidelog").options(**target).mode("append").saveAsTable("orders")
        written = [0, 10, 10, 11, 11]

        assert numbers(spark.table("orders")) == written
        assert [tuple(row) for row in spark.sql("SELECT key FROM orders WHERE value = binary('0')").collect()] == [
            (None,)
        ]
        assert numbers(spark.newSession().read.option("startingOffsets", "earliest").table("orders")) == written
        counted = spark.sql("SELECT count(*) FROM orders WITH (`endingOffsets` = 'latest')").collect()
        assert counted[0][0] == len(written)
        output = Output(spark, tmp_path)
        stream = spark.readStream.option("startingOffsets", "earliest").table("orders")
        stopped(output.of(stream).trigger(availableNow=True).start())
        assert output.numbers() == written
        stopped(
            stream.writeStream.options(**{**target, "topic": f"{topic}-2"})
            .option("checkpointLocation", str(tmp_path / "to-table"))
            .trigger(availableNow=True)
            .toTable("others")
        )
        assert numbers(spark.table("others")) == written

        # Those who write are told no options of a table, and rows that come from one bring its.
        refused(lambda: spark.sql("INSERT INTO orders VALUES (binary('0'), NULL)"), "INSERT INTO orders WITH")
        refused(lambda: spark.sql("INSERT INTO orders SELECT * FROM others"), "INSERT INTO orders WITH")
        refused(lambda: rows.writeTo("orders").append(), "CREATE TEMPORARY VIEW orders")
        refused(lambda: spark.sql(f"INSERT OVERWRITE orders WITH ({named}) SELECT * FROM orders"), "cannot be overwrit")
        refused(
            lambda: spark.sql(f"CREATE TABLE copied USING tidelog OPTIONS ({said}, topic 't') AS SELECT '1' AS value"),
            "kafka.bootstrap.servers is missing",
        )
        assert not spark.catalog.tableExists("copied")
        spark.sql(f"CREATE TABLE listed (value BINARY) USING tidelog OPTIONS ({said}, subscribe '{topic}')")
        refused(lambda: spark.table("listed").collect(), "CREATE TABLE without columns")
        refused(lambda: spark.sql("SELECT * FROM orders WITH (`endingOfsets` = 'latest')").collect(), "endingOffsets")
        assert numbers(spark.table("orders")) == written
    finally:
        for name in ("orders", "others", "listed", "copied"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_table_that_names_a_topic_is_written_by_its_name(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    other = f"{topic}-2"
    cluster.create_topic(other, partitions=1)
    for name, written in (("orders", topic), ("others", other)):
        spark.sql(
            f"CREATE TABLE {name} USING tidelog OPTIONS (kafka.bootstrap.servers '{cluster.bootstrap_servers}', "
            f"subscribe '{written}', topic '{written}', startingOffsets 'earliest')"
        )
    try:
        spark.sql("INSERT INTO orders (key, value) VALUES (binary('k'), binary('0'))")
        spark.sql("INSERT INTO orders (value) SELECT binary(string(id)) FROM range(1, 3)")
        spark.range(3, 5).selectExpr("binary(string(id)) AS value").writeTo("orders").append()
        rows = spark.range(5, 6).selectExpr("binary(string(id)) AS value", "binary('k') AS key")
        rows.write.format("tidelog").mode("append").saveAsTable("orders")
        assert numbers(spark.table("orders")) == list(range(6))

        # Into which of the two they go is not left to what rows bring with them.
        spark.sql("INSERT INTO others (key, value) SELECT key, value FROM orders WHERE value < binary('2')")
        assert numbers(spark.table("others")) == [0, 1]
        spark.table("orders").write.mode("overwrite").saveAsTable("copied")
        spark.table("orders").createOrReplaceTempView("seen")
        for name in ("orders", "copied", "seen"):
            refused(partial(spark.sql, f"INSERT INTO others SELECT * FROM {name}"), "leave a column out")
        refused(lambda: spark.table("orders").writeTo("others").append(), "leave a column out")
        assert numbers(spark.table("orders")) == list(range(6))
        assert numbers(spark.table("others")) == [0, 1]
    finally:
        for name in ("orders", "others", "copied"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.catalog.dropTempView("seen")


def test_a_view_is_read_and_written_by_its_options(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    spark.sql(
        f"CREATE TEMPORARY VIEW orders USING tidelog OPTIONS (kafka.bootstrap.servers '{cluster.bootstrap_servers}', "
        f"subscribe '{topic}', topic '{topic}', columns 'value,partition', kafka.linger.ms '0', includeTimestamp 'false')"
    )
    try:
        spark.sql("INSERT INTO orders VALUES (binary('7'), 2)")
        spark.sql("INSERT INTO orders SELECT * FROM orders")
        # Spark asks a view, as any DataFrame, once what there is to read: another read is another DataFrame.
        found = read(spark, options(cluster.bootstrap_servers, topic, columns="value,partition"))
        assert [(bytes(row[0]), row[1]) for row in found.collect()] == [(b"7", 2), (b"7", 2)]
    finally:
        spark.catalog.dropTempView("orders")
