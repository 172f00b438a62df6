"""PostgreSQL as a sink, with Debian's server: the scenarios of all databases, and what takes real processes."""

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
import psycopg
import pyarrow as pa
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
from tests.support.database_outputs.servers import PASSWORD, ServerProcess, start_postgresql
from tests.support.database_outputs.staging import APP, decided, stage
from tests.support.tls_files import new_authority
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError, kind_of
from tidelog.spark.outputs.postgresql_table import PostgresqlKind
from tidelog.spark.outputs.staged import AttemptName, Changes, Target

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    started = start_postgresql()
    yield started
    started.stop()


class PostgresqlDatabase:
    def __init__(self, server: ServerProcess, directory: Path, user: str = "tidelog") -> None:
        self.server = server
        self.directory = directory
        self.name = f"d{uuid.uuid4().hex}"
        self.user = user
        self._own("postgres", f"CREATE DATABASE {self.name}")

    def url(self, user: str) -> str:
        return f"postgresql://{user}:${{env:TIDELOG_TEST_PASSWORD}}@127.0.0.1:{self.server.port}/{self.name}?sslmode=disable"

    def sink(
        self, table: str, changes: Changes | None = None, *, staging: str = "staging", **more: Any
    ) -> PostgresqlKind:
        place = more.pop("place", self.url(self.user))
        kind = kind_of(Target("postgresql", place, table, changes=changes, **more), str(self.directory / staging), {})
        assert isinstance(kind, PostgresqlKind)
        return kind

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self._own(self.name, statement)

    def _own(self, database: str, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(
            host="127.0.0.1",
            port=self.server.port,
            user="tidelog",
            password=PASSWORD,
            dbname=database,
            autocommit=True,
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def database(server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PostgresqlDatabase:
    monkeypatch.setenv("TIDELOG_TEST_PASSWORD", PASSWORD)
    return PostgresqlDatabase(server, tmp_path)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_as_every_database(database: PostgresqlDatabase, scenario: Scenario) -> None:
    scenario(database)


@pytest.mark.parametrize("changes", [None, UPSERTS, HISTORY], ids=["appended", "upserted", "history"])
@pytest.mark.parametrize("how", ["before", "after", "lost"])
def test_every_cut_of_an_end_has_one_outcome(database: PostgresqlDatabase, how: str, changes: Changes | None) -> None:
    scenarios.every_cut_of_an_end_has_one_outcome(database, how, changes)


def test_every_type_comes_back_as_it_was(database: PostgresqlDatabase) -> None:
    scenarios.every_type_comes_back_as_it_was(database, has_nan=True, has_infinity=True)


@pytest.mark.parametrize("what", REFUSED)
def test_what_an_end_would_be_refused_for_is_refused_before(database: PostgresqlDatabase, what: str) -> None:
    scenarios.what_an_end_would_be_refused_for_is_refused_before(database, *REFUSED[what])


@pytest.mark.parametrize("what", UNFIT)
def test_a_table_that_does_not_fit_is_refused_by_validate(database: PostgresqlDatabase, what: str) -> None:
    scenarios.a_table_that_does_not_fit_is_refused_by_validate(database, *UNFIT[what])


def test_many_rows_are_staged_by_copy_and_are_all_there(database: PostgresqlDatabase) -> None:
    kind = database.sink("orders", options={"batch_column": "of_batch"})
    kind.prepare(SCHEMA)
    whole = pa.table({"id": range(100_000), "at": range(100_000), "text": [f"row {n}" for n in range(100_000)]}, SCHEMA)
    parts = []
    for task in range(2):
        attempt = kind.open_attempt(AttemptName("run", 0, task, 0, 0), SCHEMA)
        for each in whole.slice(task * 50_000, 50_000).to_batches(max_chunksize=10_000):
            attempt.write(each)
        parts.append(attempt.hand_over())
    batch = decided(kind, 0, SCHEMA, parts)
    kind.check(batch)
    kind.end(batch)

    assert database.query("SELECT count(*), sum(id), count(DISTINCT text) FROM orders") == [
        (100_000, 4999950000, 100_000)
    ]
    assert kind.read_back(batch) == (100_000, batch.output.checksum)
    staged = database.query("SELECT tablename FROM pg_tables WHERE tablename LIKE 'tidelog_staged_%'")
    assert [database.query(f"SELECT count(*) FROM {name}") for (name,) in staged] == [[(0,)]]


@pytest.mark.parametrize(
    ("column", "kind_of_rows", "value", "says"),
    [
        ("smallint", pa.int64(), 70_000, "out of range for type smallint"),
        ("numeric(5,2)", pa.decimal128(10, 2), 12345.67, "numeric field overflow"),
        ("varchar(3)", pa.string(), "abcd", "too long"),
        ("text", pa.string(), "a\0b", "0x00"),
        ("uuid", pa.string(), "no uuid", "invalid input syntax for type uuid"),
        ("mood", pa.string(), "sad", "invalid input value for enum mood"),
        ("positive", pa.int32(), -1, "violates check constraint"),
    ],
)
def test_a_value_that_the_column_does_not_hold_is_refused_in_the_task(
    database: PostgresqlDatabase, column: str, kind_of_rows: pa.DataType, value: Any, says: str
) -> None:
    database.query("CREATE TYPE mood AS ENUM ('glad')")
    database.query("CREATE DOMAIN positive AS integer CHECK (VALUE > 0)")
    database.query(f"CREATE TABLE orders (x {column})")
    schema = pa.schema([pa.field("x", kind_of_rows)])
    kind = database.sink("orders")
    kind.prepare(schema)
    rows = pa.RecordBatch.from_arrays([pa.array([value]).cast(kind_of_rows)], schema=schema)
    attempt = kind.open_attempt(AttemptName("run", 0, 0, 0, 0), schema)

    with pytest.raises(OutputRefusedError, match=says):
        attempt.write(rows)
    with pytest.raises(OutputUnreachableError, match="has failed"):
        attempt.hand_over()
    attempt.abort()

    assert database.query("SELECT count(*) FROM tidelog_attempts") == [(0,)]


@pytest.mark.parametrize(
    "column", ["numeric(10,1)", "timestamp(3) with time zone", "real", "integer", "character(10)", "timestamp"]
)
def test_a_column_that_would_round_or_pad_is_refused(database: PostgresqlDatabase, column: str) -> None:
    database.query(f"CREATE TABLE orders (x {column})")
    kinds = {
        "numeric(10,1)": pa.decimal128(10, 2),
        "real": pa.float64(),
        "integer": pa.string(),
        "character(10)": pa.string(),
    }
    schema = pa.schema([pa.field("x", kinds.get(column, pa.timestamp("us", "UTC")))])

    assert "does not hold all of" in database.sink("orders").validate(schema)[0]


def test_what_is_no_table_is_refused(database: PostgresqlDatabase) -> None:
    database.query("CREATE VIEW orders AS SELECT 1::bigint AS id, 1::bigint AS at, 'x'::text AS text")

    assert "is no table of its own" in database.sink("orders").validate(SCHEMA)[0]


def test_rights_that_are_missing_are_found_before_the_decision(database: PostgresqlDatabase) -> None:
    """A user who may stage, and not write to the table."""
    user = f"u{uuid.uuid4().hex}"
    database.query(f"CREATE USER {user} PASSWORD '{PASSWORD.replace('%', '%%').replace('%%', '%')}'")
    database.query("CREATE SCHEMA own")
    database.query(f"GRANT ALL ON SCHEMA own TO {user}")
    database.query("CREATE TABLE orders (id bigint, at bigint, text text)")
    database.user = user
    kind = database.sink("orders", options={"schema": "own"})
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, scenarios.rows(0, 2), SCHEMA)

    with pytest.raises(OutputRefusedError, match="permission denied for table orders"):
        kind.check(batch)
    database.query(f"GRANT SELECT, INSERT ON orders TO {user}")
    kind.check(batch)
    kind.end(batch)

    assert len(scenarios.stored(database)) == 2
    no_place = database.sink("others")
    with pytest.raises(OutputRefusedError, match="permission denied"):
        no_place.prepare(SCHEMA)


def test_a_table_in_a_schema_has_ours_beside_it(database: PostgresqlDatabase) -> None:
    database.query('CREATE SCHEMA "Sales"')
    kind = database.sink("Sales.orders", UPSERTS)
    kind.prepare(CHANGED)
    batch = stage(kind, 0, scenarios.as_rows([Change(1, 1, "a")]), CHANGED)
    kind.check(batch)
    kind.end(batch)

    assert scenarios.state(database, '"Sales".orders') == {1: (1, "a")}
    assert database.query('SELECT batch_id FROM "Sales".tidelog_batches') == [(0,)]


@pytest.mark.parametrize("changes", [None, HISTORY], ids=["appended", "history"])
def test_queries_that_start_at_once_make_the_tables_once(database: PostgresqlDatabase, changes: Changes | None) -> None:
    start = threading.Barrier(4)
    failures: list[BaseException] = []

    def prepare() -> None:
        start.wait(timeout=30)
        try:
            database.sink("orders", changes).prepare(CHANGED if changes else SCHEMA)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=prepare) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(timeout=60)

    assert not failures


def test_a_lock_that_somebody_holds_may_be_tried_again(database: PostgresqlDatabase) -> None:
    kind = database.sink("orders", UPSERTS, options={"lock_timeout_s": "0.2"})
    kind.prepare(CHANGED)
    kind.end(stage(kind, 0, scenarios.as_rows([Change(1, 1, "a")]), CHANGED))
    batch = stage(kind, 1, scenarios.as_rows([Change(1, 2, "b")]), CHANGED)
    with psycopg.connect(
        host="127.0.0.1", port=database.server.port, user="tidelog", password=PASSWORD, dbname=database.name
    ) as other:
        other.execute("UPDATE orders SET text = 'theirs' WHERE id = 1")
        with pytest.raises(OutputUnreachableError, match="lock timeout"):
            kind.end(batch)
        other.rollback()
    kind.end(batch)

    assert scenarios.state(database) == {1: (2, "b")}


def test_a_row_that_somebody_adds_in_between_is_merged_with(database: PostgresqlDatabase) -> None:
    kind = database.sink("orders", UPSERTS)
    kind.prepare(CHANGED)
    batch = stage(kind, 0, scenarios.as_rows([Change(1, 2, "ours")]), CHANGED)
    with psycopg.connect(
        host="127.0.0.1", port=database.server.port, user="tidelog", password=PASSWORD, dbname=database.name
    ) as other:
        other.execute("INSERT INTO orders VALUES (1, 1, 'theirs')")
        ending = threading.Thread(target=kind.end, args=(batch,))
        ending.start()
        _until(database, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", 1)
        other.commit()
        ending.join(timeout=30)

    assert scenarios.state(database) == {1: (2, "ours")}


_DYING = textwrap.dedent("""
    import os, signal, sys, msgspec
    from tidelog.spark.outputs import postgresql_table
    from tidelog.spark.outputs.manifest_store import kind_of_output, read_manifest
    from tidelog.spark.outputs.staged import StagedOutput

    execute = postgresql_table.PostgresqlSession.execute
    def dying(self, statement, parameters=()):
        if sys.argv[2] == "before" and statement == "COMMIT":
            os.kill(os.getpid(), signal.SIGKILL)
        found = execute(self, statement, parameters)
        if sys.argv[2] == "after" and statement == "COMMIT":
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    postgresql_table.PostgresqlSession.execute = dying
    batch = read_manifest(msgspec.json.decode(open(sys.argv[1], "rb").read(), type=StagedOutput))
    kind_of_output(batch.output).end(batch)
""")


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_process_that_is_killed_in_the_end_leaves_it_to_the_next(database: PostgresqlDatabase, how: str) -> None:
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


def test_an_attempt_that_is_killed_in_the_middle_of_copy_is_swept(database: PostgresqlDatabase) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    (database.directory / "target.json").write_bytes(msgspec.json.encode(kind.target))
    program = textwrap.dedent("""
        import os, signal, sys, msgspec, psycopg, pyarrow as pa
        from tidelog.spark.outputs.kind import kind_of
        from tidelog.spark.outputs.staged import AttemptName, Target
        kind = kind_of(msgspec.json.decode(open(sys.argv[1], "rb").read(), type=Target), sys.argv[2], {})
        types = {"id": pa.int64(), "at": pa.int64(), "text": pa.string()}
        attempt = kind.open_attempt(AttemptName("dead", 0, 0, 0, 0), pa.schema(types))
        rows = pa.RecordBatch.from_pylist([{"id": n, "at": n, "text": "x" * 100} for n in range(5000)], pa.schema(types))
        attempt.write(rows)
        write = psycopg.Copy.write
        def dying(self, content):
            write(self, content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        psycopg.Copy.write = dying
        attempt.write(rows)
    """)
    ended = subprocess.run(
        [sys.executable, "-c", program, str(database.directory / "target.json"), kind.staging],
        env=os.environ | {"PYTHONPATH": "src"},
        check=False,
        timeout=60,
    )
    assert ended.returncode == -signal.SIGKILL
    batch = stage(kind, 0, scenarios.rows(0, 4), SCHEMA)
    # The server notices by itself that nobody is there any more.
    _until(
        database,
        f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database.name}' AND application_name = 'tidelog'",
        0,
    )

    swept = kind.sweep(frozenset(each.attempt for each in batch.manifest.parts), older_than_s=0.0)

    assert swept.rows == 5000
    kind.check(batch)
    kind.end(batch)
    assert len(scenarios.stored(database)) == 4


def test_a_zombie_attempt_adds_no_rows_once_it_was_swept(database: PostgresqlDatabase) -> None:
    scenarios.a_zombie_attempt_adds_no_rows_once_it_was_swept(database)


def test_a_server_that_was_killed_has_what_was_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_TEST_PASSWORD", PASSWORD)
    # One of its own: a server that recovers syncs the files of all databases.
    server = start_postgresql()
    try:
        _killed_and_started(PostgresqlDatabase(server, tmp_path))
    finally:
        server.stop()


def _killed_and_started(database: PostgresqlDatabase) -> None:
    kind = database.sink("orders", UPSERTS)
    kind.prepare(CHANGED)
    kind.end(stage(kind, 0, scenarios.as_rows([Change(1, 1, "a")]), CHANGED))
    batch = stage(kind, 1, scenarios.as_rows([Change(1, 2, "b"), Change(2, 1, "c")]), CHANGED)
    database.server.kill()
    with pytest.raises(OutputUnreachableError):
        kind.end(batch)
    with pytest.raises(OutputUnreachableError):
        kind.last_batch(APP)
    assert "refused" in kind.validate(CHANGED)[0]
    _start_again(database.server)
    kind.check(batch)
    kind.end(batch)

    assert scenarios.state(database) == {1: (2, "b"), 2: (1, "c")}


def test_a_connection_that_the_server_ends_in_the_middle_is_settled(database: PostgresqlDatabase) -> None:
    scenarios.a_connection_that_the_server_ends_is_settled(
        database, "SELECT pg_backend_pid()", lambda pid: f"SELECT pg_terminate_backend({pid}, 10000)"
    )


def test_a_password_is_in_no_message(
    database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    kind = database.sink("orders")
    told = [repr(kind), str(kind.target), kind.place]
    monkeypatch.setenv("TIDELOG_TEST_PASSWORD", "wrong-s3cret")
    told += kind.validate(SCHEMA)
    monkeypatch.delenv("TIDELOG_TEST_PASSWORD")
    told += kind.validate(SCHEMA)
    plain = kind_of(Target("postgresql", "postgresql://u:wrong-s3cret@127.0.0.1/d", "orders"), "/nowhere", {})
    told += plain.validate(SCHEMA)

    assert "password authentication failed" in told[3]
    assert "the variable TIDELOG_TEST_PASSWORD, which is not set" in told[4]
    assert "write a reference" in told[5]
    assert not [each for each in [*told, caplog.text] if "s3cret" in each]


def test_the_server_is_who_it_says_by_tls(database: PostgresqlDatabase) -> None:
    ours, other = database.server.directory / "ca.pem", database.directory / "other.pem"
    other.write_bytes(new_authority().certificate_pem)
    place = database.url("tidelog").replace("sslmode=disable", f"sslmode=verify-full&sslrootcert={ours}")
    kind = database.sink("orders", place=place)
    kind.prepare(SCHEMA)
    with kind.session() as session:
        assert session.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").rows == [(True,)]

    stranger = database.sink("orders", place=place.replace(str(ours), str(other)))
    assert "certificate verify failed" in stranger.validate(SCHEMA)[0]


def _start_again(server: ServerProcess) -> None:
    """Its children may hold the memory for a moment longer than the server."""
    deadline = time.monotonic() + 60
    while True:
        try:
            server.start()
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def _until(database: PostgresqlDatabase, query: str, value: int) -> None:
    deadline = time.monotonic() + 30
    while database.query(query) != [(value,)]:
        assert time.monotonic() < deadline, query
        time.sleep(0.02)
