"""`spark.read.format("tidelog")` by a real Spark against a real cluster."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.topics import fill, numbers, options, read
from tests.support.kafka_fixtures import KafkaFixture
from tidelog import Admin
from tidelog.testing import EmbeddedCluster


def test_a_topic_has_the_columns_of_the_connector(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    fill(cluster.bootstrap_servers, topic, [0, 1], timestamp_ms=1_700_000_000_123)
    fill(
        cluster.bootstrap_servers,
        topic,
        [3],
        headers=[("shop", b"north"), ("empty", None)],
        timestamp_ms=1_700_000_000_123,
    )

    frame = read(spark, options(cluster.bootstrap_servers, topic, includeHeaders="true"))
    rows = {int(bytes(row["value"])): row for row in frame.collect()}

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    assert sorted(rows) == [0, 1, 3]
    last = rows[3]
    assert (bytes(last["key"]), last["topic"], last["partition"], last["offset"]) == (b"k3", topic, 0, 1)
    assert last["timestamp"].replace(tzinfo=UTC) == datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert last["timestampType"] == 0
    assert [(each["key"], each["value"]) for each in last["headers"]] == [("shop", b"north"), ("empty", None)]
    assert rows[0]["headers"] is None, "null where there is none, as the connector has it"


def test_columns_narrow_the_read(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    fill(cluster.bootstrap_servers, topic, range(6))

    frame = read(spark, options(cluster.bootstrap_servers, topic, columns="offset,value"))

    assert frame.columns == ["offset", "value"]
    assert sorted((row["offset"], int(bytes(row["value"]))) for row in frame.collect()) == [
        (value // 3, value) for value in range(6)
    ]


def test_offsets_bound_the_read_and_decide_how_it_is_divided(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    fill(cluster.bootstrap_servers, topic, range(30), partition=1)
    start = json.dumps({topic: {"0": -2, "1": 5, "2": -2}})
    end = json.dumps({topic: {"0": -1, "1": 25, "2": -1}})

    frame = read(
        spark, options(cluster.bootstrap_servers, topic, startingOffsets=start, endingOffsets=end, minPartitions="4")
    )

    assert numbers(frame) == list(range(5, 25))
    assert frame.rdd.getNumPartitions() == 4


def test_times_bound_the_read(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    for value in range(9):
        fill(cluster.bootstrap_servers, topic, [value], timestamp_ms=1_000_000 + value * 1000)
    common = {"columns": "value"}

    assert numbers(
        read(
            spark,
            options(cluster.bootstrap_servers, topic, startingTimestamp="1002000", endingTimestamp="1005000", **common),
        )
    ) == [2, 3, 4]
    by_partition = json.dumps({topic: {"0": 1_003_000, "1": 1_000_000, "2": 1_008_000}})
    assert numbers(
        read(spark, options(cluster.bootstrap_servers, topic, startingOffsetsByTimestamp=by_partition, **common))
    ) == [
        1,
        3,
        4,
        6,
        7,
        8,
    ]


def test_a_time_after_the_last_record_is_an_error_or_the_end(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    fill(cluster.bootstrap_servers, topic, range(3), timestamp_ms=1_000)
    late = options(cluster.bootstrap_servers, topic, startingTimestamp="2000")

    with pytest.raises(PySparkException, match=r"no record of .*-0 is as young as the starting time 2000"):
        read(spark, late).count()
    assert read(spark, {**late, "startingOffsetsByTimestampStrategy": "latest"}).count() == 0


def test_topics_may_be_chosen_by_pattern_and_by_partition(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    fill(cluster.bootstrap_servers, topic, range(9))

    assert numbers(
        read(spark, options(cluster.bootstrap_servers, subscribePattern=f"{topic[:-1]}.", columns="value"))
    ) == list(range(9))
    assert numbers(
        read(spark, options(cluster.bootstrap_servers, assign=json.dumps({topic: [0, 2]}), columns="value"))
    ) == [
        0,
        2,
        3,
        5,
        6,
        8,
    ]


def test_an_empty_topic_is_an_empty_table(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    assert read(spark, options(cluster.bootstrap_servers, topic)).collect() == []


def test_deleted_records_are_a_loss_only_where_they_were_asked_for(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    fill(cluster.bootstrap_servers, topic, range(30))
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_records({(topic, 0): 4})

    assert numbers(read(spark, options(cluster.bootstrap_servers, topic, columns="value"))) == [
        value for value in range(30) if value % 3 or value >= 12
    ]
    asked = options(
        cluster.bootstrap_servers,
        topic,
        startingOffsets=json.dumps({topic: {"0": 2, "1": 9, "2": 10}}),
        columns="value",
    )
    with pytest.raises(PySparkException, match=r"offsets 2 to 3 of .*-0 are deleted: it begins at 4; .*failOnDataLoss"):
        read(spark, asked).count()
    assert numbers(read(spark, {**asked, "failOnDataLoss": "false"})) == [12, 15, 18, 21, 24, 27, 28]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"startingOffset": "earliest"}, "there is no option startingoffset; did you mean startingOffsets?"),
        ({"assign": '{"t":[0]}'}, "subscribe and assign are both given"),
        ({"kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
    ],
)
def test_a_wrong_option_is_told_when_the_table_is_named(
    spark: SparkSession, cluster: EmbeddedCluster, more: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        read(spark, {**options(cluster.bootstrap_servers, "orders"), **more})

    assert sentence in str(raised.value)


def test_what_a_batch_cannot_do_is_told_before_it_runs(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    with pytest.raises(PySparkException, match="startingOffsets is latest: a batch has nothing to read from there"):
        read(spark, options(cluster.bootstrap_servers, topic, startingOffsets="latest")).count()
    with pytest.raises(PySparkException, match="topic no-such-topic cannot be read: there is no topic no-such-topic"):
        read(spark, options(cluster.bootstrap_servers, "no-such-topic")).count()
    with pytest.raises(PySparkException, match="the schema of records is given, and cannot be set to a"):
        spark.read.format("tidelog").options(**options(cluster.bootstrap_servers, topic)).schema("a int").load().count()


def test_a_directory_is_read_without_a_cluster(spark: SparkSession, tmp_path: Path) -> None:
    kafka = KafkaFixture.unpack("clean", tmp_path)
    records = kafka.records("transactional-0")

    rows = spark.read.format("tidelog").options(subscribe="transactional").load(str(kafka.data)).collect()
    committed = (
        spark.read.format("tidelog")
        .options(**{"path": str(kafka.data / "transactional-0"), "kafka.isolation.level": "read_committed"})
        .load()
        .collect()
    )

    mine = {row["offset"]: row["value"] for row in rows if row["partition"] == 0}
    assert mine == {each.offset: each.value for each in records}
    assert [row["offset"] for row in committed] == kafka.expected["partitions"]["transactional-0"]["committed_offsets"]
    with pytest.raises(PySparkException, match="a path can be read as a batch only"):
        spark.readStream.format("tidelog").load(str(kafka.data)).writeStream.format("noop").start().awaitTermination(60)
