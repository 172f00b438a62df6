"""Recorded change events into tables of PostgreSQL and MariaDB, compared with the table that they were recorded of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from psycopg.rows import dict_row
from pyspark.sql import SparkSession

from tests.spark.debezium.recordings import of_topic, truth
from tests.spark.test_debezium import MERGED, ORDERS, as_written, run_to_the_end, send
from tests.spark.test_debezium_events import by_key
from tests.spark.topics import local_session
from tests.support.database_outputs.servers import PASSWORD, start_mariadb, start_postgresql
from tidelog.spark.pipelines import Debezium, FromTopic, Pipeline, ToDatabase
from tidelog.testing import EmbeddedCluster

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


class Postgresql:
    def __init__(self) -> None:
        self.server = start_postgresql()
        self.url = f"postgresql://tidelog:{{password}}@127.0.0.1:{self.server.port}/postgres?sslmode=disable"

    def rows(self) -> list[dict[str, Any]]:
        with psycopg.connect(
            host="127.0.0.1", port=self.server.port, user="tidelog", password=PASSWORD, dbname="postgres"
        ) as connection:
            return connection.cursor(row_factory=dict_row).execute("SELECT * FROM orders").fetchall()


class MariaDb:
    def __init__(self) -> None:
        self.server = start_mariadb()
        self.url = f"mariadb://tidelog:{{password}}@127.0.0.1:{self.server.port}/shop"
        self._query("CREATE DATABASE shop")

    def rows(self) -> list[dict[str, Any]]:
        return self._query("SELECT * FROM shop.orders")

    def _query(self, statement: str) -> list[dict[str, Any]]:
        with closing(
            pymysql.connect(host="127.0.0.1", port=self.server.port, user="tidelog", password=PASSWORD)
        ) as connection:
            cursor = connection.cursor(pymysql.cursors.DictCursor)
            cursor.execute(statement)
            return list(cursor.fetchall())


@pytest.mark.parametrize("kind", [Postgresql, MariaDb])
def test_a_table_keeps_the_values_that_events_leave_out(
    kind: type[Postgresql | MariaDb], spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    database = kind()
    try:
        with EmbeddedCluster() as cluster:
            cluster.create_topic("orders", partitions=1)
            send(cluster, "orders", of_topic("precise.plain", "orders"))
            pipeline = Pipeline(
                name="orders",
                source=FromTopic(
                    "orders",
                    Debezium(ORDERS, types={"price": "Decimal", "placed": "MicroTimestamp"}),
                    options={"maxOffsetsPerTrigger": 16},
                ),
                transform=MERGED,
                sink=ToDatabase(
                    database.url.format(password=f"${{directory:{tmp_path}:password}}"),
                    table="orders",
                    merge_on=["id"],
                    sequence_by="position",
                    deletes="op = 'd'",
                ),
                bootstrap=cluster.bootstrap_servers,
            )
            run_to_the_end(spark, tmp_path, pipeline)
        found = database.rows()
    finally:
        database.server.stop()

    assert by_key("orders", as_written(found)) == by_key("orders", truth()["orders"])
