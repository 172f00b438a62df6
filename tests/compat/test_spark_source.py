"""Our Spark source beside Spark's own Kafka connector: the same rows, and checkpoints that go on with the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from tests.compat.spark_connector import connector_jars
from tests.spark.topics import Output, fill, local_session, numbers, options, read, stopped, stream
from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, MissingProgramError, Node
from tests.support.tidelog_node import TidelogNode
from tidelog import Admin

pytestmark = pytest.mark.compat

SOURCES = ["kafka", "tidelog"]


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


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"t-{uuid4().hex[:12]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(name, partitions=3)
    return name


def test_both_read_the_same_rows(spark: SparkSession, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, range(50), headers=[("shop", b"north"), ("shop", None)])
    fill(bootstrap, topic, range(50, 100))
    given = options(bootstrap, topic, includeHeaders="true", minPartitions="7")

    theirs, ours = read(spark, given, "kafka"), read(spark, given)

    assert ours.schema == theirs.schema
    assert sorted(map(repr, ours.collect())) == sorted(map(repr, theirs.collect()))


def test_both_find_the_same_records_by_time(spark: SparkSession, bootstrap: str, topic: str) -> None:
    for value in range(9):
        fill(bootstrap, topic, [value], timestamp_ms=1_000_000 + value * 1000)
    given = options(bootstrap, topic, startingTimestamp="1002000", endingTimestamp="1005000")

    assert numbers(read(spark, given)) == numbers(read(spark, given, "kafka")) == [2, 3, 4]


@pytest.mark.parametrize(("first", "second"), [SOURCES, SOURCES[::-1]])
def test_a_checkpoint_goes_on_with_the_other_source(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, first: str, second: str
) -> None:
    fill(bootstrap, topic, range(20))
    output = Output(spark, tmp_path)
    given = options(bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger="15")
    stopped(output.of(stream(spark, given, first)).trigger(availableNow=True).start())
    assert output.numbers() == list(range(20))

    fill(bootstrap, topic, range(20, 40))
    stopped(output.of(stream(spark, given, second)).trigger(availableNow=True).start())

    assert output.numbers() == list(range(40)), "every record once"
