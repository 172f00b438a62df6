"""Our Spark sink beside Spark's own Kafka connector, on Tidelog and on Apache Kafka: the same records, and ours exactly once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.compat.spark_connector import connector_jars
from tests.spark.topics import fill, local_session, options, stopped, stream
from tests.spark.written import committed_numbers, committed_rows, transactional_ids
from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, MissingProgramError, Node
from tests.support.spark_cluster import SparkCluster
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin

pytestmark = pytest.mark.compat

SINKS = ["kafka", "tidelog"]
DEADLINE_S = 240


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    try:
        jars = connector_jars()
    except MissingProgramError as error:
        pytest.exit(str(error), returncode=1)
    session = local_session(tmp_path_factory.mktemp("spark"), *jars)
    yield session
    session.stop()


@pytest.fixture(scope="module", params=["Tidelog", "Apache Kafka"])
def bootstrap(
    request: pytest.FixtureRequest, kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("node")
    if request.param == "Tidelog":
        ours = TidelogNode.at(directory)
        with ours.running():
            yield ours.bootstrap
    else:
        with Node(kafka, directory, SMALL_NODE) as node:
            yield node.bootstrap


def create(bootstrap: str, partitions: int = 3) -> str:
    name = f"t-{uuid4().hex[:12]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=partitions)
    return name


def test_both_write_the_same_records(spark: SparkSession, bootstrap: str) -> None:
    rows = spark.range(0, 200, 1, 3).selectExpr(
        "concat('k', id) key",
        "if(id % 7 = 0, null, cast(id as string)) value",
        "if(id % 5 = 0, cast(id % 3 as int), null) partition",
        "if(id % 2 = 0, array(named_struct('key', 'n', 'value', encode(cast(id as string), 'utf-8'))), null) headers",
        "id as left_out",
    )
    topics = {}
    for sink in SINKS:
        topics[sink] = create(bootstrap)
        to = {"kafka.bootstrap.servers": bootstrap, "topic": topics[sink]}
        rows.write.format(sink).options(**to).mode("append").save()

    ours, theirs = (
        sorted(
            (row.partition, row.key or b"", row.value or b"", row.headers) for row in committed_rows(bootstrap, topic)
        )
        for topic in (topics["tidelog"], topics["kafka"])
    )

    assert len(ours) == 200
    assert ours == theirs


@pytest.mark.parametrize("sink", SINKS)
def test_both_stream_to_topics_that_rows_name(spark: SparkSession, bootstrap: str, tmp_path: Path, sink: str) -> None:
    source, even, odd = create(bootstrap), create(bootstrap), create(bootstrap)
    fill(bootstrap, source, range(40))
    rows = stream(spark, options(bootstrap, source, startingOffsets="earliest", maxOffsetsPerTrigger="15")).selectExpr(
        "key", "value", f"if(cast(cast(value as string) as int) % 2 = 0, '{even}', '{odd}') topic"
    )

    stopped(
        rows.writeStream.format(sink)
        .options(**{"kafka.bootstrap.servers": bootstrap, "checkpointLocation": str(tmp_path / "checkpoint")})
        .trigger(availableNow=True)
        .start()
    )

    assert committed_numbers(bootstrap, even) == list(range(0, 40, 2))
    assert committed_numbers(bootstrap, odd) == list(range(1, 40, 2))


def test_a_replayed_batch_counts_once(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    source, target = create(bootstrap), create(bootstrap)
    checkpoint = tmp_path / "checkpoint"
    fill(bootstrap, source, range(20))

    def run() -> None:
        given = options(bootstrap, source, startingOffsets="earliest", maxOffsetsPerTrigger="15")
        to = {"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": str(checkpoint)}
        rows = stream(spark, given).select("key", "value")
        stopped(rows.writeStream.format("tidelog").options(**to).trigger(availableNow=True).start())

    run()
    # As if the driver had died after its last commit to the cluster and before Spark's own.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    fill(bootstrap, source, range(20, 30))
    run()

    assert committed_numbers(bootstrap, target) == list(range(30))
    assert not transactional_ids(bootstrap)


def test_a_version_is_written_once_and_a_failed_write_not_at_all(spark: SparkSession, bootstrap: str) -> None:
    target, name = create(bootstrap), f"app-{uuid4().hex[:8]}"

    def write(rows: DataFrame, version: int) -> None:
        to = {"kafka.bootstrap.servers": bootstrap, "topic": target, "txnAppId": name, "txnVersion": str(version)}
        rows.write.format("tidelog").options(**to).mode("append").save()

    rows = spark.range(0, 100, 1, 2)
    good = rows.selectExpr("cast(id as string) value")
    with pytest.raises(Exception, match="the last row"):
        write(rows.selectExpr("if(id = 99, raise_error('the last row'), cast(id as string)) value"), 1)
    assert committed_numbers(bootstrap, target) == []
    for version in (1, 1, 2):
        write(good, version)

    assert committed_numbers(bootstrap, target) == sorted([*range(100), *range(100)])
    assert not transactional_ids(bootstrap)


def test_a_speculative_copy_of_a_task_counts_once(bootstrap: str, tmp_path: Path) -> None:
    target = create(bootstrap)
    with SparkCluster(tmp_path / "cluster") as cluster:
        command = [
            sys.executable,
            "-m",
            "tests.compat.speculated_write",
            cluster.master,
            bootstrap,
            target,
            str(tmp_path),
        ]
        ran = subprocess.run(
            command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )

    assert ran.returncode == 0, ran.stderr[-4000:]
    assert committed_numbers(bootstrap, target) == list(range(400))
    written = committed_rows(bootstrap, target, isolation_level="read_uncommitted")
    assert len(written) > 400, "the copy has written as well"
    assert not transactional_ids(bootstrap)
