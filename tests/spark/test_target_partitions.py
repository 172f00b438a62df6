"""`by_target_partition`: each partition of the topic is written by one task, and every row goes where it would have gone."""

from __future__ import annotations

from collections import defaultdict

import pytest
from pyspark.sql import SparkSession, functions as sf

from tests.spark.topics import fill, options, stopped, stream
from tests.spark.written import committed_numbers, committed_rows
from tidelog.client.errors import RefusedError
from tidelog.client.producer.murmur2 import partition_of
from tidelog.spark.errors import OptionError
from tidelog.spark.target_partitions import by_target_partition
from tidelog.testing import EmbeddedCluster


def test_each_partition_is_written_by_one_task(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, checkpoint: str
) -> None:
    target = f"{topic}-out"
    cluster.create_topic(target, partitions=6)
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": target}
    rows = spark.range(0, 300, 1, 4).selectExpr(
        "if(id % 3 = 0, null, concat('k', id)) key",
        "cast(id as string) value",
        "if(id % 5 = 0, int(id % 6), null) partition",
    )

    divided = by_target_partition(rows, given, tasks=3)
    by_task = divided.withColumn("task", sf.spark_partition_id()).collect()
    divided.write.format("tidelog").options(**given, delivery="exactly_once").mode("append").save()

    tasks: dict[int, set[int]] = defaultdict(set)
    planned: dict[str, int] = {}
    for row in by_task:
        keyed = None if row.key is None else partition_of(row.key.encode(), 6)
        placed = int(row.value) % 6 if int(row.value) % 5 == 0 else keyed
        assert row.partition == (
            int(row.value) % 6 if int(row.value) % 5 == 0 else None if keyed is not None else row.partition
        )
        planned[row.value] = row.partition if placed is None else placed
        tasks[planned[row.value]].add(row.task)
    assert all(len(each) == 1 for each in tasks.values()), tasks
    assert sorted(task for each in tasks.values() for task in each) == [0, 0, 1, 1, 2, 2]
    written = {(row.value or b"").decode(): row.partition for row in committed_rows(cluster.bootstrap_servers, target)}
    assert written == planned
    assert len(written) == 300

    fill(cluster.bootstrap_servers, topic, range(20))
    source = stream(spark, options(cluster.bootstrap_servers, topic, startingOffsets="earliest"))
    other = f"{topic}-stream"
    cluster.create_topic(other, partitions=2)
    streamed = by_target_partition(source.select("key", "value"), {**given, "topic": other})
    sink = streamed.writeStream.format("tidelog").options(**{**given, "topic": other}, checkpointLocation=checkpoint)
    stopped(sink.trigger(availableNow=True).start())
    assert committed_numbers(cluster.bootstrap_servers, other) == list(range(20))


def test_what_cannot_be_divided_is_told(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    rows = spark.range(3).selectExpr("cast(id as string) value", "'a' topic")
    with pytest.raises(OptionError, match="the option topic is missing"):
        by_target_partition(rows, given)
    with pytest.raises(OptionError, match="tasks is 0"):
        by_target_partition(rows, {**given, "topic": "a"}, tasks=0)
    with pytest.raises(OptionError, match="the column value is missing"):
        by_target_partition(spark.range(3), {**given, "topic": "a"})
    with pytest.raises(RefusedError):
        by_target_partition(rows, {**given, "topic": "nobody-made-this"})
