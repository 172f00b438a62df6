"""`spark.readStream.format("tidelog")` by a real Spark against a real cluster."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.topics import Output, fill, numbers, options, read, stopped, stream, wait_until
from tidelog import Admin, Producer
from tidelog.testing import EmbeddedCluster


@pytest.fixture
def output(spark: SparkSession, tmp_path: Path) -> Output:
    return Output(spark, tmp_path)


def committed(cluster: EmbeddedCluster, group_id: str) -> dict[tuple[str, int], int]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        found: Any = admin.list_group_offsets(group_id)
        return {tuple(partition): each.offset for partition, each in found.items() if each is not None}


def test_what_is_there_is_read_in_batches_and_its_progress_shown(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, output: Output
) -> None:
    fill(cluster.bootstrap_servers, topic, range(30))
    given = options(
        cluster.bootstrap_servers,
        topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="12",
        kafka__group__id=f"g-{topic}",
    )

    query = output.of(stream(spark, given)).trigger(availableNow=True).start()
    stopped(query)

    assert output.numbers() == list(range(30))
    assert [each.numInputRows for each in query.recentProgress if each.numInputRows] == [12, 12, 6]
    assert query.recentProgress[0].sources[0].latestOffset == f'{{"{topic}": {{"0": 10, "1": 10, "2": 10}}}}'
    assert committed(cluster, f"g-{topic}") == {(topic, index): 10 for index in range(3)}

    # The same checkpoint goes on with what has come since; nothing is read twice.
    fill(cluster.bootstrap_servers, topic, range(30, 33))
    stopped(output.of(stream(spark, given)).trigger(availableNow=True).start())
    assert output.numbers() == list(range(33))
    assert committed(cluster, f"g-{topic}") == {(topic, index): 11 for index in range(3)}


def test_a_running_query_reads_what_comes_and_finds_new_topics(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, output: Output
) -> None:
    given = options(cluster.bootstrap_servers, subscribePattern=f"{topic}.*")
    query = output.of(stream(spark, given)).trigger(processingTime="100 milliseconds").start()
    try:
        written = Path(output.checkpoint) / "offsets" / "0"
        wait_until(query, written.exists)
        assert f'{{"{topic}": {{"0": 0, "1": 0, "2": 0}}, ' in written.read_text(), "where it began is written down"
        fill(cluster.bootstrap_servers, topic, range(6))
        wait_until(query, lambda: output.numbers() == list(range(6)))
        cluster.create_topic(f"{topic}-too", partitions=3)
        fill(cluster.bootstrap_servers, f"{topic}-too", range(6, 9))
        wait_until(query, lambda: output.numbers() == list(range(9)))
    finally:
        query.stop()


def test_once_takes_all_whatever_the_limits(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, output: Output
) -> None:
    fill(cluster.bootstrap_servers, topic, range(9))
    given = options(cluster.bootstrap_servers, topic, startingOffsets="earliest", maxOffsetsPerTrigger="3")

    query = output.of(stream(spark, given)).trigger(once=True).start()
    stopped(query)

    assert [each.numInputRows for each in query.recentProgress] == [9]
    assert output.numbers() == list(range(9))


def test_records_that_were_deleted_before_they_were_read_stop_a_query(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, output: Output
) -> None:
    fill(cluster.bootstrap_servers, topic, range(9))
    given = options(cluster.bootstrap_servers, topic, startingOffsets="earliest")
    stopped(output.of(stream(spark, given)).trigger(availableNow=True).start())
    fill(cluster.bootstrap_servers, topic, range(9, 18))
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_records({(topic, 0): 5})

    query = output.of(stream(spark, given)).trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match=r"offsets 3 to 4 of .*-0 are deleted: it begins at 5; .*failOnDataLoss"):
        stopped(query)

    stopped(output.of(stream(spark, {**given, "failOnDataLoss": "false"})).trigger(availableNow=True).start())
    assert output.numbers() == [value for value in range(18) if value not in {9, 12}]


def test_a_topic_that_was_created_again_stops_a_query_or_is_read_from_its_beginning(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, output: Output
) -> None:
    fill(cluster.bootstrap_servers, topic, range(3))
    given = options(cluster.bootstrap_servers, topic, startingOffsets="earliest", fetchOffset__retryIntervalMs="10")
    stopped(output.of(stream(spark, given)).trigger(availableNow=True).start())
    cluster.delete_topic(topic)
    cluster.create_topic(topic, partitions=3)
    # More than there were: by offsets alone it would be read from the second record on.
    fill(cluster.bootstrap_servers, topic, range(100, 109))

    query = output.of(stream(spark, given)).trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match=rf"topic {topic} was deleted and created again: .*failOnDataLoss"):
        stopped(query)
    assert output.numbers() == [0, 1, 2]

    given["failOnDataLoss"] = "false"
    stopped(output.of(stream(spark, given)).trigger(availableNow=True).start())
    assert output.numbers() == [0, 1, 2, *range(100, 109)]
    fill(cluster.bootstrap_servers, topic, range(109, 112))
    given["failOnDataLoss"] = "true"
    stopped(output.of(stream(spark, given)).trigger(availableNow=True).start())
    assert output.numbers() == [0, 1, 2, *range(100, 112)]


def test_what_only_a_batch_can_do_is_told_before_the_query_runs(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, output: Output
) -> None:
    writer = output.of(stream(spark, options(cluster.bootstrap_servers, topic, endingOffsets="latest"))).trigger(
        once=True
    )
    with pytest.raises(PySparkException, match="a stream has no end: leave out endingOffsets") as raised:
        stopped(writer.start())
    assert "UnboundLocalError" not in str(raised.value), "it is the last word"


def test_only_what_is_committed_is_read_and_markers_are_no_loss(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, output: Output
) -> None:
    given = options(
        cluster.bootstrap_servers, topic, startingOffsets="earliest", kafka__isolation__level="read_committed"
    )

    def run() -> list[int]:
        stopped(output.of(stream(spark, given)).trigger(availableNow=True).start())
        return output.numbers()

    def send(producer: Producer, values: Iterable[int]) -> None:
        for value in values:
            producer.send(topic, b"%d" % value, partition=value % 3)
        producer.flush()

    with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=f"x-{topic}") as producer:
        producer.init_transactions()
        with producer.transaction():
            send(producer, range(6))
        producer.begin_transaction()
        send(producer, range(6, 9))
        producer.abort_transaction()
        producer.begin_transaction()
        send(producer, range(9, 12))
        assert run() == list(range(6)), "neither the aborted nor the open ones"
        producer.commit_transaction()
    assert run() == [*range(6), *range(9, 12)]
    assert numbers(read(spark, {**given, "kafka.isolation.level": "read_uncommitted"})) == list(range(12))
