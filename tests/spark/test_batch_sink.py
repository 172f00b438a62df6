"""`df.write.format("tidelog")` by a real Spark against a real cluster."""

from __future__ import annotations

import datetime as dt
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.written import committed_numbers, committed_rows, transactional_ids
from tidelog.client.producer.murmur2 import partition_of
from tidelog.testing import EmbeddedCluster


def write(rows: DataFrame, bootstrap: str, **more: Any) -> None:
    given = {
        "kafka.bootstrap.servers": bootstrap,
        **{name.replace("__", "."): str(each) for name, each in more.items()},
    }
    rows.write.format("tidelog").options(**given).mode("append").save()


def test_keys_choose_partitions_as_every_client_does(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    write(
        spark.range(300).selectExpr("cast(id as string) key", "encode(cast(-id as string), 'utf-8') value"),
        cluster.bootstrap_servers,
        topic=topic,
    )

    found = committed_rows(cluster.bootstrap_servers, topic)

    assert sorted(int(row.key or b"") for row in found) == list(range(300))
    assert all(int(row.value or b"") == -int(row.key or b"") for row in found)
    assert all(row.partition == partition_of(row.key or b"", 3) for row in found)


def test_every_column_counts(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    other = f"{topic}-too"
    cluster.create_topic(other, partitions=2)
    rows = spark.sql(
        f"""
        select * from values
            ('{topic}', 'a', 'one', 2, array(named_struct('key', 'h', 'value', X'01'), named_struct('key', 'h', 'value', null)),
             timestamp'2026-01-02 03:04:05.678Z'),
            ('{other}', null, 'two', null, null, null),
            ('{topic}', 'b', null, 0, array(), timestamp'2026-01-02 03:04:06Z')
        as rows(topic, key, value, partition, headers, timestamp)
        """
    ).selectExpr("*", "'left out' as offset")
    moment_ms = int(dt.datetime(2026, 1, 2, 3, 4, 5, 678000, dt.UTC).timestamp() * 1000)

    write(rows.coalesce(1), cluster.bootstrap_servers, includeTimestamp=True)

    assert [tuple(row)[1:] for row in sorted(committed_rows(cluster.bootstrap_servers, topic))] == [
        (0, b"b", None, moment_ms + 322, []),
        (2, b"a", b"one", moment_ms, [("h", b"\x01"), ("h", None)]),
    ]
    (second,) = committed_rows(cluster.bootstrap_servers, other)
    assert (second.key, second.value, second.headers) == (None, b"two", [])
    assert second.timestamp_ms > moment_ms


def test_the_option_names_the_topic_and_timestamps_count_only_where_asked(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    rows = spark.sql("select 'nowhere' topic, 'x' value, timestamp'2000-01-01 00:00:00Z' timestamp")

    write(rows, cluster.bootstrap_servers, topic=topic)

    (found,) = committed_rows(cluster.bootstrap_servers, topic)
    assert found.value == b"x"
    assert found.timestamp_ms > 1_500_000_000_000


def test_a_version_is_written_once(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    name = f"app-{uuid4().hex[:8]}"

    def run(version: int, first: int) -> None:
        rows = spark.range(first, first + 100, 1, 4).selectExpr("cast(id as string) value")
        write(rows, cluster.bootstrap_servers, topic=topic, txnAppId=name, txnVersion=version)

    run(1, 0)
    run(1, 0)
    run(2, 100)
    run(5, 200)
    with pytest.raises(PySparkException, match="BatchOrderError"):
        run(4, 300)

    assert committed_numbers(cluster.bootstrap_servers, topic) == list(range(300))
    assert not transactional_ids(cluster.bootstrap_servers, name)


def test_a_batch_without_a_version_is_all_or_nothing(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    rows = spark.range(0, 100, 1, 2)
    good = rows.selectExpr("cast(id as string) value")
    # The second task fails with its last row, when the first has long handed over.
    bad = rows.selectExpr("if(id = 99, raise_error('the last row'), cast(id as string)) value")

    with pytest.raises(PySparkException, match="the last row"):
        write(bad, cluster.bootstrap_servers, topic=topic, delivery="exactly_once")
    assert committed_rows(cluster.bootstrap_servers, topic) == []
    assert not transactional_ids(cluster.bootstrap_servers)
    write(good, cluster.bootstrap_servers, topic=topic, delivery="exactly_once")

    assert committed_numbers(cluster.bootstrap_servers, topic) == list(range(100))
    assert not transactional_ids(cluster.bootstrap_servers)


def test_no_rows_open_no_transaction(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    name = uuid4().hex

    write(
        spark.range(0).selectExpr("cast(id as string) value"),
        cluster.bootstrap_servers,
        topic=topic,
        txnAppId=name,
        txnVersion=0,
    )

    assert committed_rows(cluster.bootstrap_servers, topic) == []
    assert transactional_ids(cluster.bootstrap_servers, name, is_open=False) == [
        f"tidelog-spark.{name}~{topic}.decider"
    ]


@pytest.mark.parametrize(
    ("columns", "more", "sentence"),
    [
        ("id", {}, "the column value is missing"),
        ("cast(id as string) value", {}, "no topic is named"),
        ("id as value", {"topic": "t"}, "the column value is of type bigint"),
        ("cast(id as string) value", {"topic": "t", "txnAppId": "a"}, "txnAppId and txnVersion belong together"),
        ("cast(id as string) value", {"topic": "t", "columns": "value"}, "columns is for reading"),
    ],
)
def test_what_cannot_be_is_told_before_any_job(
    spark: SparkSession, cluster: EmbeddedCluster, columns: str, more: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException, match=sentence):
        write(spark.range(1).selectExpr(columns), cluster.bootstrap_servers, **more)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_row_that_cannot_be_written_fails_the_write(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, delivery: str
) -> None:
    with pytest.raises(PySparkException, match="a row has no topic"):
        write(spark.sql("select cast(null as string) topic, 'x' value"), cluster.bootstrap_servers, delivery=delivery)
    with pytest.raises(PySparkException, match="there is no partition 3: the topic has 3"):
        write(spark.sql("select 3 partition, 'x' value"), cluster.bootstrap_servers, topic=topic, delivery=delivery)

    assert committed_rows(cluster.bootstrap_servers, topic) == []
    assert not transactional_ids(cluster.bootstrap_servers)


def test_a_topic_is_not_overwritten(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    writer = spark.sql("select 'x' value").write.format("tidelog").option("topic", topic)
    with pytest.raises(PySparkException, match="a topic cannot be overwritten"):
        writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers).mode("overwrite").save()
