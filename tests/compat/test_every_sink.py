"""One pipeline on a real Spark that writes to every kind of sink at once, with the servers that they need, while its driver is
killed by SIGKILL: every row is everywhere once, as programs that nobody here wrote find it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg
import pyarrow.parquet as pq
import pymysql
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from tests.compat.iceberg_programs import rest_catalog
from tests.spark.written import committed_rows, transactional_ids
from tests.support.command_process import command, environment
from tests.support.database_outputs.servers import PASSWORD, ServerProcess, start_mariadb, start_postgresql
from tidelog import Producer
from tidelog.testing import EmbeddedCluster

pytestmark = [pytest.mark.compat, pytest.mark.timeout(1800)]

ROWS = 2000
BATCH = 200
DEADLINE_S = 400.0
JOB = """
import os

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToDatabase, ToFiles, ToTable, ToTopic

MARKED = {"batch_column": "of_batch"}
password = "${env:DATABASE_PASSWORD}"
pipeline = Pipeline(
    name="everywhere",
    source=FromTopic("numbers", Json("n bigint, name string"), options={"maxOffsetsPerTrigger": 200}),
    sink=[
        ToTable("delta", format="delta", name="delta"),
        ToTable(
            name="shop.local", format="iceberg", catalog={"uri": "sqlite:///catalog.db", "warehouse": "warehouse"}
        ),
        ToTable(name="shop.rest", format="iceberg", catalog={"type": "rest", "uri": os.environ["ICEBERG_REST"]}),
        ToDatabase(
            f"postgresql://tidelog:{password}@127.0.0.1:{os.environ['POSTGRESQL_PORT']}/postgres",
            table="numbers",
            name="postgresql",
            options=MARKED,
        ),
        ToDatabase(
            f"mariadb://tidelog:{password}@127.0.0.1:{os.environ['MARIADB_PORT']}/shop",
            table="numbers",
            name="mariadb",
            options=MARKED,
        ),
        ToDatabase("sqlite:///shop.db", table="numbers", name="sqlite", options=MARKED),
        ToFiles("files", partition_by=["name"]),
        ToTopic("copy"),
    ],
)
"""


class Servers(NamedTuple):
    rest: str
    postgresql_port: int
    mariadb_port: int

    @property
    def variables(self) -> dict[str, str]:
        return {
            "DATABASE_PASSWORD": PASSWORD,
            "ICEBERG_REST": self.rest,
            "POSTGRESQL_PORT": str(self.postgresql_port),
            "MARIADB_PORT": str(self.mariadb_port),
        }


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with (
        rest_catalog(tmp_path / "rest") as rest,
        closing_server(start_postgresql) as first,
        closing_server(start_mariadb) as second,
    ):
        connection = pymysql.connect(host="127.0.0.1", port=second, user="tidelog", password=PASSWORD)
        with closing(connection), connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        yield Servers(rest, first, second)


@contextmanager
def closing_server(start: Callable[[], ServerProcess]) -> Iterator[int]:
    server = start()
    try:
        yield server.port
    finally:
        server.stop()


class Place:
    """Where the pipeline lies, and what others find in its sinks."""

    def __init__(self, directory: Path, servers: Servers, bootstrap: str) -> None:
        self.directory = directory
        self._servers = servers
        self._bootstrap = bootstrap
        (directory / "jobs.py").write_text(JOB)

    def start(self, *more: str) -> subprocess.Popen[str]:
        """In a session of its own: its Java and its workers die with it."""
        settings = ("spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.sql.shuffle.partitions=2")
        arguments = [word for each in settings for word in ("--conf", each)]
        with (self.directory / "run.log").open("a") as log:
            return subprocess.Popen(
                command(
                    *("pipeline", "run", self.directory / "jobs.py", "--bootstrap", self._bootstrap),
                    *("--master", "local[2]", *arguments, *more),
                ),
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment(self._servers.variables),
                start_new_session=True,
            )

    def killed_when(self, is_time: Callable[[], bool]) -> None:
        process = self.start()
        try:
            deadline = time.monotonic() + DEADLINE_S
            while not is_time():
                assert process.poll() is None, self.log
                assert time.monotonic() < deadline, self.log
                time.sleep(0.002)
        finally:
            kill(process)

    def run_to_the_end(self) -> None:
        process = self.start("--until-caught-up")
        try:
            assert process.wait(DEADLINE_S) == 0, self.log
        finally:
            kill(process)

    def verified(self) -> list[dict[str, object]]:
        """The account of each batch, all of it read again."""
        arguments = ("pipeline", "audit", "everywhere", "--verify", "--json", "--bootstrap", self._bootstrap)
        done = subprocess.run(
            command(*arguments),
            capture_output=True,
            text=True,
            check=False,
            env=environment(self._servers.variables),
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    @property
    def log(self) -> str:
        return (self.directory / "run.log").read_text()[-5000:]

    @property
    def delta_version(self) -> int:
        return len(list((self.directory / "delta" / "_delta_log").glob("*.json"))) - 1

    @property
    def complete_batches(self) -> int:
        """Of the directory of files."""
        return len(list((self.directory / "files").glob("_manifest-*")))

    @property
    def sqlite_batch(self) -> int:
        """The last one that the database has."""
        if not (self.directory / "shop.db").exists():
            return -1
        with (
            closing(sqlite3.connect(self.directory / "shop.db", timeout=0)) as connection,
            # Its tables are not made yet, or somebody writes.
            suppress(sqlite3.OperationalError),
        ):
            return int(connection.execute("SELECT coalesce(max(batch_id), -1) FROM tidelog_batches").fetchone()[0])
        return -1

    def numbers(self) -> dict[str, list[int]]:
        catalogs = {
            "local": {"type": "sql", "uri": f"sqlite:///{self.directory}/catalog.db"},
            "rest": {"type": "rest", "uri": self._servers.rest},
        }
        found: dict[str, list[Any]] = {
            "delta": DeltaTable(str(self.directory / "delta")).to_pyarrow_table().column("n").to_pylist()
        }
        for name, properties in catalogs.items():
            catalog = load_catalog("default", **properties)
            found[name] = catalog.load_table(f"shop.{name}").scan().to_arrow().column("n").to_pylist()
            catalog.close()
        postgresql = (
            f"postgresql://tidelog:{quote(PASSWORD, safe='')}@127.0.0.1:{self._servers.postgresql_port}/postgres"
        )
        with psycopg.connect(postgresql) as connection:
            found["postgresql"] = [row[0] for row in connection.execute("SELECT n FROM numbers").fetchall()]
        mariadb = pymysql.connect(
            host="127.0.0.1", port=self._servers.mariadb_port, user="tidelog", password=PASSWORD, database="shop"
        )
        with closing(mariadb), mariadb.cursor() as cursor:
            cursor.execute("SELECT n FROM numbers")
            found["mariadb"] = [row[0] for row in cursor.fetchall()]
        with closing(sqlite3.connect(self.directory / "shop.db")) as database:
            found["sqlite"] = [row[0] for row in database.execute("SELECT n FROM numbers")]
        found["files"] = pq.read_table(self.directory / "files").column("n").to_pylist()
        found["topic"] = [json.loads(row.value or b"")["n"] for row in committed_rows(self._bootstrap, "copy")]
        return {name: sorted(each) for name, each in found.items()}


def kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def test_every_sink_has_every_row_once_however_often_the_driver_is_killed(tmp_path: Path, servers: Servers) -> None:
    with EmbeddedCluster() as cluster:
        for topic in ("numbers", "copy"):
            cluster.create_topic(topic, partitions=2)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for n in range(ROWS):
                producer.send("numbers", json.dumps({"n": n, "name": "ab"[n % 2]}).encode(), partition=n % 2)
        place = Place(tmp_path, servers, cluster.bootstrap_servers)

        # The first sink has the batch, and the others may not.
        place.killed_when(lambda: place.delta_version >= 2)
        # Most of them have it.
        last = place.sqlite_batch
        place.killed_when(lambda: place.sqlite_batch >= last + 2)
        # All have it, but for the topic, and nobody has written down that it is finished.
        complete = place.complete_batches
        place.killed_when(lambda: place.complete_batches >= complete + 2)
        place.run_to_the_end()

        numbers = place.numbers()
        batches = place.verified()
        assert transactional_ids(cluster.bootstrap_servers) == []
    assert {name: len(each) for name, each in numbers.items()} == dict.fromkeys(numbers, ROWS)
    assert all(each == list(range(ROWS)) for each in numbers.values())
    assert len(numbers) == 8
    assert [each["batch_id"] for each in batches] == list(range(ROWS // BATCH))
