"""An Iceberg table as a sink, and as another program sees it: over any catalog that a target names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.table import Table
from sqlalchemy.orm import Session

from tidelog.spark.outputs.iceberg_catalog import OneTry
from tidelog.spark.outputs.kind import OutputKind
from tidelog.spark.outputs.manifest_store import manifest_of, write_manifest
from tidelog.spark.outputs.staged import AttemptName, StagedBatch, StagedPart, app_id

APP = app_id("orders", "archive", "generation")
ROWS: list[dict[str, Any]] = [
    {"day": None, "n": 1, "text": "a"},
    {"day": dt.date(2026, 1, 1), "n": 2, "text": None},
    {"day": dt.date(2026, 1, 1), "n": 3, "text": "c"},
]


class KilledError(BaseException):
    """As a process that is gone: nothing catches it."""


def schema_of(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


SCHEMA = schema_of(day=pa.date32(), n=pa.int32(), text=pa.string())


def staged(
    kind: OutputKind, batch_id: int, schema: pa.Schema = SCHEMA, rows: list[dict[str, Any]] = ROWS
) -> StagedBatch:
    """By two tasks, of which the first has one row."""
    parts: list[StagedPart] = []
    for task, some in enumerate((rows[:1], rows[1:])):
        attempt = kind.open_attempt(AttemptName("run", batch_id, task, 0, 0), schema)
        attempt.write(pa.RecordBatch.from_pylist(some, schema=schema))
        parts.append(attempt.hand_over())
    manifest = manifest_of("archive", APP, batch_id, schema, parts)
    return write_manifest(kind.target, kind.staging, {}, manifest, run="run")


@contextmanager
def catalog_of(kind: OutputKind) -> Iterator[Catalog]:
    """As another program has it."""
    properties = dict(kind.target.options)
    catalog = load_catalog(properties.pop("catalog-name", "default"), uri=kind.target.place, **properties)
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def table_of(kind: OutputKind) -> Iterator[Table]:
    with catalog_of(kind) as catalog:
        yield catalog.load_table(kind.target.table)


def numbers(kind: OutputKind) -> list[int]:
    with table_of(kind) as table:
        return sorted(int(each["n"]) for each in table.scan().to_arrow().to_pylist())


def append_row(kind: OutputKind, number: int) -> None:
    """As another program does."""
    with table_of(kind) as table:
        table.append(pa.Table.from_pylist([{"day": None, "n": number, "text": "other"}], schema=SCHEMA))


def before_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], *, times: int = 1) -> None:
    """Have something done between what an end has seen and what it asks of the catalog."""
    commit = OneTry.commit_table
    left = [times]

    def late(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            act()
        return commit(*arguments)

    monkeypatch.setattr(OneTry, "commit_table", late)


def refused_once_done(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the catalog make the next commit and answer that it conflicts, as one does that is asked a second time by something in
    between. What comes back counts the commits."""
    commit = SqlCatalog.commit_table
    count = [0]

    def twice(*arguments: Any) -> Any:
        done = commit(*arguments)
        count[0] += 1
        if count[0] == 1:
            raise CommitFailedException("the branch main has changed")
        return done

    monkeypatch.setattr(SqlCatalog, "commit_table", twice)
    return count


def cut_at(patch: pytest.MonkeyPatch, effect: int) -> list[int]:
    """Die at the nth effect, of which each file and each commit of the database is one, before and after it. What comes back
    counts them."""
    count = [0]

    def step() -> None:
        count[0] += 1
        if count[0] - 1 == effect:
            raise KilledError

    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        def cut(*arguments: Any, **more: Any) -> Any:
            step()
            done = function(*arguments, **more)
            step()
            return done

        return cut

    patch.setattr(PyArrowFile, "create", around(PyArrowFile.create))
    patch.setattr(Session, "commit", around(Session.commit))
    return count
