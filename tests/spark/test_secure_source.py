"""Spark reads and writes over TLS and a login, and shows the password to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.topics import numbers, read, stream
from tests.support.sasl_node import PASSWORD, USER
from tests.support.secure_node import SASL_SSL, SecureNode
from tidelog import Producer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with SecureNode(tmp_path_factory.mktemp("node")) as running:
        yield running


def login(node: SecureNode, password: str = PASSWORD) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": node.bootstrap(SASL_SSL),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": str(node.truststore),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": USER,
        "kafka.sasl.password": password,
    }


def test_rows_go_in_and_out_over_a_login_and_the_password_is_in_no_plan(
    spark: SparkSession, node: SecureNode, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD + "\n")
    given = login(node, f"${{directory:{tmp_path}:password}}")
    rows = spark.range(10).selectExpr("CAST(id AS STRING) AS value")

    rows.write.format("tidelog").mode("append").options(**given, topic="out").save()
    frame = read(spark, {**given, "subscribe": "out"})
    query = (
        stream(spark, {**given, "subscribe": "out", "startingOffsets": "earliest"})
        .select("value")
        .writeStream.format("tidelog")
        .options(**given, topic="again", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)

    assert sorted(numbers(frame)) == list(range(10))
    assert sorted(numbers(read(spark, {**given, "subscribe": "again"}))) == list(range(10))
    assert query.exception() is None
    plans = frame._jdf.queryExecution().toString() + query._jsq.explainInternal(True)
    assert PASSWORD not in plans
    for each in (tmp_path / "checkpoint").rglob("*"):
        assert each.is_dir() or PASSWORD.encode() not in each.read_bytes()


def test_a_password_that_is_given_as_it_is_is_in_no_plan_either(spark: SparkSession, node: SecureNode) -> None:
    with Producer(bootstrap_servers=node.bootstrap()) as producer:
        producer.send("plain", b"1").result(30)

    given = {**login(node), "subscribe": "plain"}
    frame = read(spark, given)

    assert numbers(frame) == [1]
    streamed = stream(spark, given)
    for each in (frame, streamed):
        execution = each._jdf.queryExecution()
        assert PASSWORD not in execution.logical().toString() + execution.analyzed().toString()
        if each is frame:
            assert PASSWORD not in execution.toString()


def test_a_wrong_password_is_the_clusters_own_sentence_without_it(spark: SparkSession, node: SecureNode) -> None:
    with pytest.raises(Exception, match="invalid credentials with SASL mechanism SCRAM-SHA-512") as caught:
        read(spark, {**login(node, "wr0ng"), "subscribe": "plain"}).collect()

    assert "wr0ng" not in str(caught.value)
