"""Batches that are staged as tasks would, and a table's log whose effects can be cut or held back, for tests of the kind
`delta`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from tidelog.spark.outputs.delta_log import DeltaLog
from tidelog.spark.outputs.delta_merge import MergePlan
from tidelog.spark.outputs.delta_table import DeltaTableKind
from tidelog.spark.outputs.manifest_store import manifest_of, write_manifest
from tidelog.spark.outputs.staged import AttemptName, Changes, StagedBatch, StagedPart, Target, app_id

if TYPE_CHECKING:
    from deltalake.transaction import AddAction, CommitProperties

APP = app_id("orders", "table", "generation")
Row = Mapping[str, object]


def schema_of(**types: pa.DataType) -> pa.Schema:
    return pa.schema(types)


def delta_kind(
    place: Path,
    *,
    partition_by: Sequence[str] = (),
    changes: Changes | None = None,
    widens: bool = True,
) -> DeltaTableKind:
    target = Target("delta", str(place / "table"), partition_by=tuple(partition_by), changes=changes, widens=widens)
    return DeltaTableKind(target, str(place / "staging"), {})


def staged(
    kind: DeltaTableKind,
    batch_id: int,
    schema: pa.Schema,
    *tasks: Sequence[Row],
    run: str = "run",
) -> StagedBatch:
    """A batch of tasks with these rows, with its manifest."""
    parts: list[StagedPart] = []
    for task, rows in enumerate(tasks):
        attempt = kind.open_attempt(AttemptName(run, batch_id, task, 0, 0), schema)
        attempt.write(pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=schema))
        parts.append(attempt.hand_over())
    manifest = manifest_of("table", APP, batch_id, schema, parts)
    return write_manifest(kind.target, kind.staging, {}, manifest, run=run)


def table_rows(kind: DeltaTableKind, *, by: str = "n") -> list[dict[str, object]]:
    found: list[dict[str, object]] = DeltaTable(kind.target.place).to_pyarrow_table().sort_by(by).to_pylist()
    return found


class CutError(Exception):
    """The process is gone."""


class CutLog(DeltaLog):
    """A log that is cut before or after its nth effect."""

    def __init__(self, target: Target, at: int) -> None:
        super().__init__(target)
        self.left = at

    def load(self) -> DeltaTable | None:
        self._cut()
        found = super().load()
        self._cut()
        return found

    def add(self, table: DeltaTable, actions: Sequence[AddAction], properties: CommitProperties) -> None:
        self._cut()
        super().add(table, actions, properties)
        self._cut()

    def merge(
        self, table: DeltaTable, source: pa.RecordBatchReader, plan: MergePlan, properties: CommitProperties
    ) -> None:
        self._cut()
        super().merge(table, source, plan, properties)
        self._cut()

    def _cut(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise CutError


class SteppedLog(DeltaLog):
    """A log that waits for leave before each effect, so that a test chooses who goes next."""

    def __init__(self, target: Target, wait: Callable[[], None]) -> None:
        super().__init__(target)
        self._wait = wait

    def load(self) -> DeltaTable | None:
        self._wait()
        return super().load()

    def add(self, table: DeltaTable, actions: Sequence[AddAction], properties: CommitProperties) -> None:
        self._wait()
        super().add(table, actions, properties)

    def merge(
        self, table: DeltaTable, source: pa.RecordBatchReader, plan: MergePlan, properties: CommitProperties
    ) -> None:
        self._wait()
        super().merge(table, source, plan, properties)


class Turns:
    """Threads that take turns by a schedule; at its end all go on as they like."""

    def __init__(self, schedule: Sequence[int]) -> None:
        self._schedule = list(schedule)
        self._done: set[int] = set()
        self._changed = threading.Condition()

    def wait(self, who: int) -> None:
        """Until it is their turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._next() in {None, who}, timeout=30.0)
            if self._next() == who:
                self._schedule.pop(0)
            self._changed.notify_all()

    def finished(self, who: int) -> None:
        with self._changed:
            self._done.add(who)
            self._changed.notify_all()

    def _next(self) -> int | None:
        while self._schedule and self._schedule[0] in self._done:
            self._schedule.pop(0)
        return self._schedule[0] if self._schedule else None
