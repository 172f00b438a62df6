"""Batches of a database sink as a pipeline would stage them, without Spark; and ends that are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from tidelog.spark.outputs.database_session import Result, Session
from tidelog.spark.outputs.database_table import DatabaseKind
from tidelog.spark.outputs.kind import OutputUnreachableError
from tidelog.spark.outputs.manifest_store import manifest_of, write_manifest
from tidelog.spark.outputs.staged import AttemptName, Changes, StagedBatch, StagedPart, app_id

APP = app_id("orders", "copy", "generation")
Row = dict[str, Any]


class Database(Protocol):
    """A database of one test, with nothing in it."""

    def sink(self, table: str, changes: Changes | None = None, **more: Any) -> DatabaseKind: ...

    def query(self, statement: str) -> list[tuple[Any, ...]]: ...


def stage(
    kind: DatabaseKind, batch_id: int, rows: Sequence[Row], schema: pa.Schema, *, run: str = "run", tasks: int = 2
) -> StagedBatch:
    """A batch whose rows are divided among tasks."""
    parts: list[StagedPart] = []
    for task in range(tasks):
        attempt = kind.open_attempt(AttemptName(run, batch_id, task, 0, 0), schema)
        mine = rows[task * len(rows) // tasks : (task + 1) * len(rows) // tasks]
        if mine:
            attempt.write(pa.RecordBatch.from_pylist(list(mine), schema=schema))
        parts.append(attempt.hand_over())
    return decided(kind, batch_id, schema, parts, run=run)


def decided(
    kind: DatabaseKind, batch_id: int, schema: pa.Schema, parts: Sequence[StagedPart], *, run: str = "run"
) -> StagedBatch:
    manifest = manifest_of("copy", APP, batch_id, schema, parts)
    return write_manifest(kind.target, kind.staging, {}, manifest, run=run)


class CutError(BaseException):
    """The process that ends a batch dies here."""


class CutSession:
    """A session that is cut at one statement: before it, after it, or after it with the answer lost."""

    def __init__(self, inner: Session, cut: Cut) -> None:
        self._inner = inner
        self._cut = cut

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Result:
        at = self._cut.seen
        self._cut.seen += 1
        if at == self._cut.at and self._cut.how == "before":
            raise CutError
        found = self._inner.execute(statement, parameters)
        if at == self._cut.at and self._cut.how == "after":
            raise CutError
        if at == self._cut.at and self._cut.how == "lost":
            raise OutputUnreachableError("the answer was lost")
        if at == self._cut.at and self._cut.then is not None:
            self._cut.then()
        return found

    def load(self, table: str, batch: pa.RecordBatch) -> int:
        return self._inner.load(table, batch)

    def read(self, statement: str) -> Iterator[list[tuple[object, ...]]]:
        return self._inner.read(statement)

    def close(self) -> None:
        self._inner.close()


class Cut:
    """Where a kind's sessions are cut, counted over all of its statements; it counts alone where `at` is none of them."""

    def __init__(
        self, kind: DatabaseKind, *, at: int = -1, how: str = "", then: Callable[[], None] | None = None
    ) -> None:
        self.seen = 0
        self.at = at
        self.how = how
        self.then = then
        connect = kind.connect
        object.__setattr__(kind, "connect", lambda: CutSession(connect(), self))
