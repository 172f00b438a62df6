"""MariaDB as a sink, with Debian's server: the scenarios of all databases, and what takes real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pymysql
import pytest

from tests.support.database_outputs import scenarios
from tests.support.database_outputs.replay import Change, versioned
from tests.support.database_outputs.scenarios import (
    CHANGED,
    HISTORY,
    REFUSED,
    SCENARIOS,
    SCHEMA,
    UNFIT,
    UPSERTS,
    Scenario,
)
from tests.support.database_outputs.servers import PASSWORD, ServerProcess, start_mariadb
from tests.support.database_outputs.staging import APP, decided, stage
from tests.support.tls_files import new_authority
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError, kind_of
from tidelog.spark.outputs.mariadb_table import MariaDbKind
from tidelog.spark.outputs.staged import AttemptName, Changes, Target

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    started = start_mariadb()
    yield started
    started.stop()


class MariaDbDatabase:
    def __init__(self, server: ServerProcess, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.name = f"d{uuid.uuid4().hex}"
        self.user = "tidelog"
        self._own(None, f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")

    def sink(self, table: str, changes: Changes | None = None, *, staging: str = "staging", **more: Any) -> MariaDbKind:
        url = f"mariadb://{self.user}:${{env:TIDELOG_TEST_PASSWORD}}@127.0.0.1:{self.server.port}/{self.name}"
        url += more.pop("settings", "")
        kind = kind_of(Target("mariadb", url, table, changes=changes, **more), str(self.directory / staging), {})
        assert isinstance(kind, MariaDbKind)
        return kind

    def connect(self, database: str | None = "") -> Any:
        return pymysql.connect(
            host="127.0.0.1",
            port=self.server.port,
            user="tidelog",
            password=PASSWORD,
            database=self.name if database == "" else database,
            sql_mode="STRICT_ALL_TABLES,ANSI_QUOTES",
        )

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self._own("", statement)

    def _own(self, database: str | None, statement: str) -> list[tuple[Any, ...]]:
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            connection.commit()
            return list(cursor.fetchall())


@pytest.fixture
def database(server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MariaDbDatabase:
    monkeypatch.setenv("TIDELOG_TEST_PASSWORD", PASSWORD)
    return MariaDbDatabase(server, tmp_path)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_as_every_database(database: MariaDbDatabase, scenario: Scenario) -> None:
    scenario(database)


@pytest.mark.parametrize("changes", [None, UPSERTS, HISTORY], ids=["appended", "upserted", "history"])
@pytest.mark.parametrize("how", ["before", "after", "lost"])
def test_every_cut_of_an_end_has_one_outcome(database: MariaDbDatabase, how: str, changes: Changes | None) -> None:
    scenarios.every_cut_of_an_end_has_one_outcome(database, how, changes)


def test_every_type_comes_back_as_it_was(database: MariaDbDatabase) -> None:
    scenarios.every_type_comes_back_as_it_was(database, has_nan=False, has_infinity=False)


@pytest.mark.parametrize("what", REFUSED)
def test_what_an_end_would_be_refused_for_is_refused_before(database: MariaDbDatabase, what: str) -> None:
    scenarios.what_an_end_would_be_refused_for_is_refused_before(database, *REFUSED[what])


@pytest.mark.parametrize("what", UNFIT)
def test_a_table_that_does_not_fit_is_refused_by_validate(database: MariaDbDatabase, what: str) -> None:
    scenarios.a_table_that_does_not_fit_is_refused_by_validate(database, *UNFIT[what])


def test_many_rows_are_all_there(database: MariaDbDatabase) -> None:
    kind = database.sink("orders", options={"batch_column": "of_batch"})
    kind.prepare(SCHEMA)
    whole = pa.table({"id": range(20_000), "at": range(20_000), "text": [f"row {n}" for n in range(20_000)]}, SCHEMA)
    attempt = kind.open_attempt(AttemptName("run", 0, 0, 0, 0), SCHEMA)
    for each in whole.to_batches(max_chunksize=10_000):
        attempt.write(each)
    batch = decided(kind, 0, SCHEMA, [attempt.hand_over()])
    kind.check(batch)
    kind.end(batch)

    assert kind.read_back(batch) == (20_000, batch.output.checksum)


@pytest.mark.parametrize(
    ("column", "kind_of_rows", "value", "says"),
    [
        ("smallint", pa.int64(), 70_000, "Out of range value for column 'x'"),
        ("int unsigned", pa.int64(), -1, "Out of range value for column 'x'"),
        ("decimal(5,2)", pa.decimal128(10, 2), 12345.67, "Out of range value for column 'x'"),
        ("varchar(3)", pa.string(), "abcd", "too long"),
        ("text CHARACTER SET latin1", pa.string(), "🌊", "Incorrect string value"),
        ("double", pa.float64(), float("nan"), "NaN in x"),
        ("double", pa.float64(), float("inf"), "infinite x"),
    ],
)
def test_a_value_that_the_column_does_not_hold_is_refused_in_the_task(
    database: MariaDbDatabase, column: str, kind_of_rows: pa.DataType, value: Any, says: str
) -> None:
    database.query(f"CREATE TABLE orders (x {column})")
    schema = pa.schema([pa.field("x", kind_of_rows)])
    kind = database.sink("orders")
    kind.prepare(schema)
    attempt = kind.open_attempt(AttemptName("run", 0, 0, 0, 0), schema)

    with pytest.raises(OutputRefusedError, match=says):
        attempt.write(pa.RecordBatch.from_arrays([pa.array([value]).cast(kind_of_rows)], schema=schema))
    attempt.abort()

    assert database.query("SELECT count(*) FROM tidelog_attempts") == [(0,)]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("CREATE TABLE orders (id bigint, at bigint, text text) ENGINE=MyISAM", "no table of InnoDB"),
        ("CREATE TABLE orders (id varchar(20) PRIMARY KEY, at bigint, text text)", "takes different keys for one"),
        ("CREATE VIEW orders AS SELECT 1 AS id, 1 AS at, 'x' AS text", "no table of InnoDB"),
    ],
)
def test_tables_that_cannot_be_a_target_are_refused(database: MariaDbDatabase, statement: str, says: str) -> None:
    database.query(statement)

    assert says in database.sink("orders", UPSERTS).validate(CHANGED)[0]


def test_keys_are_told_apart_byte_by_byte(database: MariaDbDatabase) -> None:
    types: dict[str, pa.DataType] = {"id": pa.string(), "bytes": pa.binary(), "at": pa.int64()}
    schema = pa.schema(types)
    kind = database.sink("orders", Changes(("id", "bytes"), "at"))
    kind.prepare(schema)
    keys = [("a", b"\x00"), ("A", b"\x00"), ("a ", b"\x00"), ("ä", b"\x00"), ("a", b"\x00\x00")]
    batch = stage(kind, 0, [{"id": text, "bytes": more, "at": 1} for text, more in keys], schema)
    kind.check(batch)
    kind.end(batch)

    assert sorted(database.query("SELECT id, bytes FROM orders")) == sorted(keys)


def test_rights_that_are_missing_are_found_before_the_decision(database: MariaDbDatabase) -> None:
    user = f"u{uuid.uuid4().hex[:20]}"
    database.query(f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}'")
    database.query(f"CREATE DATABASE own_{database.name}")
    database.query(f"GRANT ALL ON own_{database.name}.* TO {user}@'%'")
    database.query("CREATE TABLE orders (id bigint, at bigint, text text)")
    database.query(f"GRANT SELECT ON {database.name}.orders TO {user}@'%'")
    database.user = user
    kind = database.sink("orders", options={"schema": f"own_{database.name}"})
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, scenarios.rows(0, 2), SCHEMA)

    with pytest.raises(OutputRefusedError, match="INSERT command denied"):
        kind.check(batch)
    database.query(f"GRANT INSERT ON {database.name}.orders TO {user}@'%'")
    kind.check(batch)
    kind.end(batch)

    assert len(scenarios.stored(database)) == 2


def test_a_lock_that_somebody_holds_may_be_tried_again(database: MariaDbDatabase) -> None:
    kind = database.sink("orders", UPSERTS, options={"lock_timeout_s": "1"})
    kind.prepare(CHANGED)
    kind.end(stage(kind, 0, scenarios.as_rows([Change(1, 1, "a")]), CHANGED))
    batch = stage(kind, 1, scenarios.as_rows([Change(1, 2, "b")]), CHANGED)
    with database.connect() as other, other.cursor() as cursor:
        cursor.execute("UPDATE orders SET text = 'theirs' WHERE id = 1")
        with pytest.raises(OutputUnreachableError, match="Lock wait timeout"):
            kind.end(batch)
        other.rollback()
    kind.end(batch)

    assert scenarios.state(database) == {1: (2, "b")}


def test_a_row_that_somebody_adds_in_between_is_merged_with(database: MariaDbDatabase) -> None:
    kind = database.sink("orders", UPSERTS)
    kind.prepare(CHANGED)
    batch = stage(kind, 0, scenarios.as_rows([Change(1, 2, "ours")]), CHANGED)
    with database.connect() as other, other.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (1, 1, 'theirs')")
        ending = threading.Thread(target=kind.end, args=(batch,))
        ending.start()
        _until(database, "SELECT count(*) > 0 FROM information_schema.innodb_lock_waits", 1)
        other.commit()
        ending.join(timeout=30)

    assert scenarios.state(database) == {1: (2, "ours")}


_DYING = textwrap.dedent("""
    import os, signal, sys, msgspec
    from tidelog.spark.outputs import mariadb_table
    from tidelog.spark.outputs.manifest_store import kind_of_output, read_manifest
    from tidelog.spark.outputs.staged import StagedOutput

    execute = mariadb_table.MariaDbSession.execute
    def dying(self, statement, parameters=()):
        if sys.argv[2] == "before" and statement == "COMMIT":
            os.kill(os.getpid(), signal.SIGKILL)
        found = execute(self, statement, parameters)
        if sys.argv[2] == "after" and statement == "COMMIT":
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    mariadb_table.MariaDbSession.execute = dying
    batch = read_manifest(msgspec.json.decode(open(sys.argv[1], "rb").read(), type=StagedOutput))
    kind_of_output(batch.output).end(batch)
""")


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_process_that_is_killed_in_the_end_leaves_it_to_the_next(database: MariaDbDatabase, how: str) -> None:
    kind = database.sink("orders", HISTORY)
    kind.prepare(CHANGED)
    everything: list[Change] = []
    for batch_id, changed in enumerate(scenarios.BATCHES):
        batch = stage(kind, batch_id, scenarios.as_rows(changed), CHANGED, tasks=1)
        (database.directory / "output.json").write_bytes(msgspec.json.encode(batch.output))
        ended = subprocess.run(
            [sys.executable, "-c", _DYING, str(database.directory / "output.json"), how],
            env=os.environ | {"PYTHONPATH": "src"},
            check=False,
            timeout=60,
        )
        assert ended.returncode == -signal.SIGKILL
        assert kind.last_batch(APP) == (batch_id if how == "after" else batch_id - 1 if batch_id else None)
        kind.end(batch)
        everything += changed
        assert scenarios.versions(database) == versioned(everything)


def test_a_zombie_attempt_adds_no_rows_once_it_was_swept(database: MariaDbDatabase) -> None:
    scenarios.a_zombie_attempt_adds_no_rows_once_it_was_swept(database)


def test_a_connection_that_the_server_ends_in_the_middle_is_settled(database: MariaDbDatabase) -> None:
    scenarios.a_connection_that_the_server_ends_is_settled(
        database, "SELECT connection_id()", lambda number: f"KILL CONNECTION {number}"
    )


def test_a_server_that_was_killed_has_what_was_handed_over(database: MariaDbDatabase) -> None:
    kind = database.sink("orders", UPSERTS)
    kind.prepare(CHANGED)
    kind.end(stage(kind, 0, scenarios.as_rows([Change(1, 1, "a")]), CHANGED))
    batch = stage(kind, 1, scenarios.as_rows([Change(1, 2, "b"), Change(2, 1, "c")]), CHANGED)
    database.server.kill()
    try:
        with pytest.raises(OutputUnreachableError):
            kind.end(batch)
        with pytest.raises(OutputUnreachableError):
            kind.last_batch(APP)
    finally:
        database.server.start()
    kind.check(batch)
    kind.end(batch)

    assert scenarios.state(database) == {1: (2, "b"), 2: (1, "c")}


def test_a_password_is_in_no_message(database: MariaDbDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = database.sink("orders")
    told = [repr(kind), str(kind.target), kind.place]
    monkeypatch.setenv("TIDELOG_TEST_PASSWORD", "wrong-s3cret")
    told += kind.validate(SCHEMA)

    assert "Access denied" in told[3]
    assert not [each for each in told if "s3cret" in each]


def test_the_server_is_who_it_says_by_tls(database: MariaDbDatabase) -> None:
    other = database.directory / "other.pem"
    other.write_bytes(new_authority().certificate_pem)
    kind = database.sink("orders", settings=f"?ssl_ca={database.server.directory}/ca.pem")
    kind.prepare(SCHEMA)
    with kind.session() as session:
        assert session.execute("SHOW SESSION STATUS LIKE 'Ssl_version'").rows[0][1] in {"TLSv1.2", "TLSv1.3"}

    nobody = database.sink("orders", settings="?ssl_ca=/not/there.pem")
    assert nobody.validate(SCHEMA) == ["a file of ssl_ca cannot be read: No such file or directory"]
    stranger = database.sink("orders", settings=f"?ssl_ca={other}")
    assert "certificate verify failed" in stranger.validate(SCHEMA)[0]


def _until(database: MariaDbDatabase, query: str, value: int) -> None:
    deadline = time.monotonic() + 30
    while database.query(query) != [(value,)]:
        assert time.monotonic() < deadline, query
        time.sleep(0.1)
