"""Values that a change leaves out because they stay as they are: folded within a batch, and kept by every kind of table."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, strategies as st

from tests.spark import delta_batches
from tests.support import iceberg_sink
from tests.support.database_outputs import staging
from tests.support.left_out import HISTORY, SCHEMA, UPSERTS, Row, Story, as_a_task_writes, batches, change, story
from tidelog.spark.outputs.database_dialect import SQLITE
from tidelog.spark.outputs.database_statements import Merge, create_table, merge_statements
from tidelog.spark.outputs.kept_values import kept_in_rows
from tidelog.spark.outputs.kind import OutputKind, OutputRefusedError, kind_of
from tidelog.spark.outputs.staged import UNCHANGED, Changes, StagedBatch, Target

STAGE: dict[str, Callable[..., StagedBatch]] = {
    "delta": lambda kind, number, rows: delta_batches.staged(kind, number, SCHEMA, rows),
    "sqlite": lambda kind, number, rows: staging.stage(kind, number, rows, SCHEMA, tasks=1),
    "iceberg": lambda kind, number, rows: iceberg_sink.staged(kind, number, SCHEMA, rows),
}


def sink(name: str, place: Path, changes: Changes) -> OutputKind:
    match name:
        case "delta":
            target = Target("delta", str(place / "table"), changes=changes)
        case "sqlite":
            target = Target("sqlite", f"sqlite://{place}/t.db", "t", changes=changes)
        case _:
            options = {"warehouse": f"file://{place}/warehouse"}
            target = Target("iceberg", f"sqlite:///{place}/catalog.db", "s.t", changes=changes, options=options)
    made = kind_of(target, str(place / "staging"), {})
    made.prepare(SCHEMA)
    return made


def rows_in(kind: OutputKind) -> list[Row]:
    match kind.target.kind:
        case "delta":
            found: list[Row] = DeltaTable(kind.target.place).to_pyarrow_table().to_pylist()
            return found
        case "sqlite":
            with closing(sqlite3.connect(kind.target.place.removeprefix("sqlite://"))) as database:
                database.row_factory = sqlite3.Row
                return [dict(each) for each in database.execute("SELECT * FROM t")]
    with iceberg_sink.table_of(kind) as table:
        return table.scan().to_arrow().to_pylist()


def merge(kind: OutputKind, number: int, changes: list[Row]) -> None:
    assert kind.target.changes is not None
    batch = STAGE[kind.target.kind](kind, number, as_a_task_writes(changes, kind.target.changes))
    kind.check(batch)
    kind.end(batch)


def outcome(kind: OutputKind, told: Story) -> tuple[list[Any], list[Any]]:
    """What the table has, and what it should have."""
    found = rows_in(kind)
    if kind.target.changes != HISTORY:
        return sorted((row["id"], row["a"], row["b"]) for row in found), told.rows
    counting = [row for row in found if row["valid_from"] != row["valid_to"]]
    versions = [(row["id"], row["a"], row["b"], row["valid_from"], row["valid_to"]) for row in counting]
    return sorted(versions, key=lambda each: (each[0], each[3])), told.versions


@pytest.mark.parametrize("how", [UPSERTS, HISTORY], ids=["upserts", "history"])
@pytest.mark.parametrize("name", ["delta", "sqlite", "iceberg"])
def test_a_table_has_the_values_that_changes_leave_out(name: str, how: Changes, tmp_path: Path) -> None:
    told = story(seed=7, count=70)
    kind = sink(name, tmp_path, how)

    for number, batch in enumerate(batches(told.changes, seed=7)):
        merge(kind, number, batch)

    found, expected = outcome(kind, told)
    assert found == expected
    assert UNCHANGED not in rows_in(kind)[0]


@pytest.mark.parametrize("name", ["delta", "sqlite", "iceberg"])
def test_a_value_that_nobody_knows_is_null(name: str, tmp_path: Path) -> None:
    kind = sink(name, tmp_path, UPSERTS)

    merge(kind, 0, [change(1, 1, "x", None, unchanged="b"), change(2, 1, "x", "y")])
    merge(kind, 1, [change(2, 2, None, None, deleted=True), change(2, 3, "z", None, unchanged="b")])
    merge(kind, 2, [change(1, 0, None, None, unchanged="ab")])

    assert sorted((row["id"], row["a"], row["b"]) for row in rows_in(kind)) == [(1, "x", None), (2, "z", None)]


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5))
def test_of_one_batch_every_value_is_taken_from_the_last_change_that_has_it(seed: int, size: int, keys: int) -> None:
    told = story(seed, 30, keys)

    left = as_a_task_writes(told.changes, UPSERTS, size)

    # Each key begins with an insert: nothing is left for a table to know.
    assert [row[UNCHANGED] for row in left] == [None] * len(left)
    assert [(row["id"], row["a"], row["b"]) for row in left if not row["_tidelog_deleted"]] == told.rows
    every = as_a_task_writes(told.changes, HISTORY, size)
    assert len(every) == len(told.changes)
    kept = [row for row in every if not row["_tidelog_deleted"]]
    assert [(row["id"], row["a"], row["b"], row["at"]) for row in kept] == [each[:4] for each in told.versions]


@given(st.integers(0, 10**6), st.integers(1, 12), st.booleans())
def test_statements_of_a_database_leave_what_a_replay_leaves(seed: int, size_max: int, has_history: bool) -> None:
    told, how = story(seed, 40), HISTORY if has_history else UPSERTS
    into = Merge(SQLITE, "t", "temp.staged", ("id", "at", "a", "b"), how, leaves_out=True)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute(create_table(into, pa.schema([SCHEMA.field(name) for name in into.columns])))
        database.execute(
            "CREATE TABLE temp.staged (id, at, a, b, _tidelog_attempt, _tidelog_deleted, "
            "_tidelog_unchanged TEXT, _tidelog_row)"
        )
        for batch in batches(told.changes, seed, size_max):
            database.execute("DELETE FROM temp.staged")
            rows = as_a_task_writes(batch, how)
            staged = [
                (*list(row.values())[:4], 7, row["_tidelog_deleted"], row[UNCHANGED], n) for n, row in enumerate(rows)
            ]
            database.executemany(f"INSERT INTO temp.staged VALUES ({', '.join('?' * 8)})", staged)
            # Whoever ends it again changes nothing.
            for _ in range(2):
                for statement in merge_statements(into, [7], ""):
                    database.execute(statement)
        if has_history:
            query = "SELECT id, a, b, valid_from, valid_to FROM t WHERE valid_to IS NULL OR valid_from < valid_to"
            assert sorted(database.execute(query), key=lambda each: (each[0], each[3])) == told.versions
        else:
            assert sorted(database.execute("SELECT id, a, b FROM t")) == told.rows


def test_a_column_that_must_not_be_null_takes_a_value_that_stays_and_none_that_nobody_knows(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as database:
        database.execute("CREATE TABLE t (id INTEGER, at INTEGER, a TEXT NOT NULL, b TEXT, PRIMARY KEY (id))")
    kind = sink("sqlite", tmp_path, UPSERTS)
    merge(kind, 0, [change(1, 1, "x", "y")])
    merge(kind, 1, [change(1, 2, None, "z", unchanged="a")])

    with pytest.raises(OutputRefusedError, match="no value in a, which must not be null"):
        merge(kind, 2, [change(2, 1, None, "z", unchanged="a")])

    assert [(row["a"], row["b"]) for row in rows_in(kind)] == [("x", "z")]


def test_marks_count_columns_without_what_is_internal() -> None:
    rows = pa.RecordBatch.from_pylist(
        [change(1, 1, None, "b", unchanged="a"), change(2, 1, "a", "b"), change(3, 1, None, None, unchanged="ab")],
        schema=SCHEMA,
    )

    assert kept_in_rows(rows) == {0: ("a",), 2: ("a", "b")}
    assert kept_in_rows(rows.drop_columns([UNCHANGED])) == {}
