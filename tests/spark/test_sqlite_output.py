"""SQLite as a sink: staged as Parquet, loaded by the driver, and there once, wherever its end is cut."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.support.database_outputs import scenarios
from tests.support.database_outputs.replay import versioned
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
from tests.support.database_outputs.staging import APP, stage
from tidelog.spark.outputs.kind import OutputRefusedError, OutputUnreachableError, kind_of
from tidelog.spark.outputs.sqlite_table import SqliteKind
from tidelog.spark.outputs.staged import Changes, Target


class SqliteDatabase:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "some file.db"

    def sink(self, table: str, changes: Changes | None = None, *, staging: str = "staging", **more: Any) -> SqliteKind:
        target = Target("sqlite", f"sqlite://{str(self.file).replace(' ', '%20')}", table, changes=changes, **more)
        kind = kind_of(target, str(self.directory / staging), {})
        assert isinstance(kind, SqliteKind)
        return kind

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.file) as connection:
            found = connection.execute(statement).fetchall()
        connection.close()
        return found


@pytest.fixture
def database(tmp_path: Path) -> SqliteDatabase:
    return SqliteDatabase(tmp_path)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_as_every_database(database: SqliteDatabase, scenario: Scenario) -> None:
    scenario(database)


@pytest.mark.parametrize(
    ("how", "changes"),
    [("after", None), ("before", UPSERTS), ("before", HISTORY), ("lost", HISTORY)],
    ids=["appended", "upserted", "history", "history-lost"],
)
def test_every_cut_of_an_end_has_one_outcome(database: SqliteDatabase, how: str, changes: Changes | None) -> None:
    scenarios.every_cut_of_an_end_has_one_outcome(database, how, changes)


def test_every_type_comes_back_as_it_was(database: SqliteDatabase) -> None:
    scenarios.every_type_comes_back_as_it_was(database, has_nan=False, has_infinity=True)


@pytest.mark.parametrize("what", REFUSED)
def test_what_an_end_would_be_refused_for_is_refused_before(database: SqliteDatabase, what: str) -> None:
    scenarios.what_an_end_would_be_refused_for_is_refused_before(database, *REFUSED[what])


@pytest.mark.parametrize("what", UNFIT)
def test_a_table_that_does_not_fit_is_refused_by_validate(database: SqliteDatabase, what: str) -> None:
    scenarios.a_table_that_does_not_fit_is_refused_by_validate(database, *UNFIT[what])


def test_validate_makes_nothing(database: SqliteDatabase) -> None:
    assert database.sink("orders").validate(SCHEMA) == []
    assert list(database.directory.iterdir()) == []


def test_a_number_that_is_none_is_refused_in_the_task(database: SqliteDatabase) -> None:
    schema = pa.schema({"x": pa.float64()})
    kind = database.sink("orders")
    kind.prepare(schema)

    with pytest.raises(OutputRefusedError, match="has NaN in x, which SQLite does not hold"):
        stage(kind, 0, [{"x": float("nan")}], schema, tasks=1)


def test_a_database_that_somebody_else_writes_to_may_be_tried_again(database: SqliteDatabase) -> None:
    kind = database.sink("orders", options={"lock_timeout_s": "0.05"})
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, scenarios.rows(0, 2), SCHEMA)
    other = sqlite3.connect(database.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(OutputUnreachableError, match="locked"):
        kind.end(batch)
    other.execute("ROLLBACK")
    other.close()
    kind.end(batch)

    assert len(scenarios.stored(database)) == 2


def test_a_database_that_was_removed_after_the_decision_is_refused(database: SqliteDatabase) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, scenarios.rows(0, 2), SCHEMA)
    database.file.unlink()

    with pytest.raises(OutputRefusedError, match=r"no database at .*some file\.db: it was removed, or never made"):
        kind.end(batch)
    assert not database.file.exists()


def test_a_batch_whose_staged_rows_go_while_it_is_merged_does_not_count(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = database.sink("orders")
    kind.prepare(SCHEMA)
    batch = stage(kind, 0, scenarios.rows(0, 2), SCHEMA)
    statements = kind._end_statements
    with monkeypatch.context() as patch:
        # As a sweep does on a server, between the count and the merge.
        swept = "DELETE FROM temp.tidelog_staged"
        patch.setattr(kind, "_end_statements", lambda *given: [swept, *statements(*given)])
        with pytest.raises(OutputRefusedError, match="that were staged of batch 0 went from temp"):
            kind.end(batch)
    assert (kind.last_batch(APP), scenarios.stored(database)) == (None, [])

    kind.end(batch)
    assert len(scenarios.stored(database)) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"place": "sqlite:orders.db"}, "absolute path"),
        ({"place": "sqlite://host/orders.db"}, "absolute path"),
        ({"place": "oracle:///orders.db"}, "scheme oracle, expected sqlite"),
        ({"place": "sqlite:///no/such/directory/orders.db"}, "no directory /no/such/directory"),
        ({"place": "sqlite:///tmp/orders.db?mode=ro"}, "no setting mode"),
        ({"table": ""}, "has no table"),
        ({"table": "schema.orders"}, "no schema"),
        ({"options": {"batchcolumn": "x"}}, "no option batchcolumn"),
        ({"options": {"batch_column": "text"}}, "which is a column of the rows"),
        ({"options": {"lock_timeout_s": "soon"}}, "expected seconds"),
        ({"options": {"lock_timeout_s": "inf"}}, "at most 3600"),
        ({"partition_by": ("id",)}, "partition_by"),
        ({"storage": {"AWS_REGION": "x"}}, "leave storage out"),
        ({"changes": Changes(("nothing",))}, "no column nothing"),
        ({"changes": Changes(("id",), history=True)}, "history needs sequence_by"),
    ],
)
def test_words_that_make_no_sense_get_one_sentence(tmp_path: Path, words: dict[str, Any], says: str) -> None:
    target = msgspec.structs.replace(Target("sqlite", f"sqlite://{tmp_path}/orders.db", "orders"), **words)
    kind = kind_of(target, str(tmp_path / "staging"), {})

    assert [says in each for each in kind.validate(SCHEMA)] == [True], kind.validate(SCHEMA)
    with pytest.raises(OutputRefusedError, match=says):
        kind.prepare(SCHEMA)


def test_columns_that_no_database_holds_get_one_sentence(database: SqliteDatabase) -> None:
    kind = database.sink("orders")

    assert kind.validate(pa.schema({"x": pa.list_(pa.int64())})) == [
        "SQLite has no column for the type list<item: int64>: to_json() makes text of it"
    ]
    assert kind.validate(pa.schema({"a": pa.int64(), "A": pa.int64()})) == ["the rows have the column a twice"]
    assert kind.validate(pa.schema({"_tidelog_x": pa.int64()})) == [
        "the column _tidelog_x has a name that is Tidelog's own"
    ]


def test_a_process_that_is_killed_in_the_middle_of_an_end_leaves_it_to_the_next(database: SqliteDatabase) -> None:
    kind = database.sink("orders", HISTORY)
    kind.prepare(CHANGED)
    batch = stage(kind, 0, scenarios.as_rows(scenarios.BATCHES[0]), CHANGED, tasks=1)
    (database.directory / "output.json").write_bytes(msgspec.json.encode(batch.output))
    program = textwrap.dedent("""
        import os, signal, sys, msgspec
        from tidelog.spark.outputs.manifest_store import kind_of_output, read_manifest
        from tidelog.spark.outputs.sqlite_table import SqliteSession
        from tidelog.spark.outputs.staged import StagedOutput

        execute = SqliteSession.execute
        def dying(self, statement, parameters=()):
            if statement == "COMMIT" and "advanced" in seen:
                os.kill(os.getpid(), signal.SIGKILL)
            if statement.startswith("UPDATE") and "tidelog_batches" in statement:
                seen.add("advanced")
            return execute(self, statement, parameters)
        seen = set()
        SqliteSession.execute = dying
        batch = read_manifest(msgspec.json.decode(open(sys.argv[1], "rb").read(), type=StagedOutput))
        kind_of_output(batch.output).end(batch)
    """)
    ended = subprocess.run(
        [sys.executable, "-c", program, str(database.directory / "output.json")],
        env=os.environ | {"PYTHONPATH": "src"},
        check=False,
        timeout=60,
    )

    assert ended.returncode == -signal.SIGKILL
    assert kind.last_batch(APP) is None
    kind.end(batch)
    assert scenarios.versions(database) == versioned(scenarios.BATCHES[0])
