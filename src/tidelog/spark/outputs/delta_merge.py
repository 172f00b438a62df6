"""Changes of rows by key in a Delta table: upserts and deletes, or a history of every version.

Changes are staged outside of the table's directory and merged after the decision, against whatever version the table then has:
nothing of a merge is computed before. It is repeated from the start when somebody else was faster. The changes stream through
the library's join; of a history those of the batch, and the versions of their keys that they can touch, are in memory.

A delete leaves no trace, but in a history: a change that is older than a delete and comes after it writes the row again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tidelog.spark.outputs.history import history_upserts
from tidelog.spark.outputs.kept_values import KEPT
from tidelog.spark.outputs.staged import DELETED, UNCHANGED, VALID_FROM, VALID_TO, Changes
from tidelog.spark.outputs.staged_changes import StagedChanges

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

# ruff: noqa: PLC0415 - Arrow is loaded by whoever has rows

_SOURCE, _TARGET = "source", "target"


class MergePlan(msgspec.Struct, frozen=True):
    """What Delta's MERGE is told, in its SQL. Of the conditions None is never, and an empty one always."""

    on: str
    columns: tuple[str, ...]
    update_when: str = ""
    insert_when: str = ""
    delete_when: str | None = None
    leaves_out: bool = False
    """Whether rows have values that stay as they are (`kept_values`), by marks over `columns`."""

    @property
    def inserts(self) -> dict[str, str]:
        return {quoted(name): f"{_SOURCE}.{quoted(name)}" for name in self.columns}

    @property
    def updates(self) -> dict[str, str]:
        if not self.leaves_out:
            return self.inserts
        mark = f"{_SOURCE}.{quoted(UNCHANGED)}"
        return {
            name: f"CASE WHEN substr({mark}, {place}, 1) = '{KEPT}' THEN {_TARGET}.{name} ELSE {value} END"
            for place, (name, value) in enumerate(self.inserts.items(), 1)
        }


def key_bounds(changes: StagedChanges, merge_on: Sequence[str]) -> str:
    """What all keys lie between, as a condition on the table: files without any are passed over. Whole numbers only, whose bounds
    are exact."""
    found = []
    least, greatest = changes.extremes()
    for name in merge_on:
        if name in least and name in greatest:
            column = f"{_TARGET}.{quoted(name)}"
            found.append(f"{column} >= {least[name]} AND {column} <= {greatest[name]}")
    return " AND ".join(found)


def upsert_plan(columns: pa.Schema, rows: pa.Schema, how: Changes, bounds: str) -> MergePlan:
    """Changes of one row a key, straight into the table."""
    newer = ""
    if how.sequence_by is not None:
        name = quoted(how.sequence_by)
        newer = f"({_SOURCE}.{name} >= {_TARGET}.{name} OR {_TARGET}.{name} IS NULL)"
    on, leaves_out = _equal(how.merge_on, bounds), UNCHANGED in rows.names
    if DELETED not in rows.names:
        return MergePlan(on, tuple(columns.names), update_when=newer, leaves_out=leaves_out)
    kept, deleted = (f"{_SOURCE}.{quoted(DELETED)} IS {state}" for state in ("NOT TRUE", "TRUE"))
    also = f" AND {newer}" if newer else ""
    return MergePlan(on, tuple(columns.names), kept + also, kept, deleted + also, leaves_out)


def history_plan(columns: pa.Schema, how: Changes, bounds: str) -> MergePlan:
    """Rows of `history_upserts` into the table."""
    return MergePlan(_equal((*how.merge_on, VALID_FROM), bounds), tuple(columns.names))


def history_rows(table: DeltaTable, staged: StagedChanges, columns: pa.Schema, how: Changes) -> pa.Table:
    """What to write of a history, as this version of the table is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    assert how.sequence_by is not None
    changes = staged.table()
    keys = changes.select(list(how.merge_on)).group_by(list(how.merge_on)).aggregate([])
    least = pc.min(changes.column(how.sequence_by)).as_py()
    conditions = [
        condition for condition in (_not_before(least), _untargeted(key_bounds(staged, how.merge_on))) if condition
    ]
    scanned = table.scan(columns=columns.names, predicate=" AND ".join(conditions) or None)
    found = []
    for batch in pa.RecordBatchReader.from_stream(scanned):
        arrays = [batch.column(field.name).cast(field.type) for field in columns]
        rows = pa.Table.from_arrays(arrays, schema=columns)
        if rows.num_rows:
            found.append(_with_keys(rows, keys))
    versions = pa.concat_tables([columns.empty_table(), *found])
    return history_upserts(changes, versions, how)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _equal(names: Sequence[str], bounds: str) -> str:
    equal = " AND ".join(f"{_TARGET}.{quoted(name)} = {_SOURCE}.{quoted(name)}" for name in names)
    return f"{equal} AND {bounds}" if bounds else equal


def _not_before(least: object) -> str:
    """Versions that ended before the first of the changes are not touched by any. Of whole numbers alone, which have one way to
    be written; others are all read."""
    if type(least) is not int:
        return ""
    return f"({quoted(VALID_TO)} IS NULL OR {quoted(VALID_TO)} >= {least})"


def _untargeted(bounds: str) -> str:
    return bounds.replace(f"{_TARGET}.", "")


def _with_keys(rows: pa.Table, keys: pa.Table) -> pa.Table:
    import pyarrow as pa

    index = "#"
    numbered = rows.select(keys.schema.names).append_column(index, pa.array(range(rows.num_rows), pa.int64()))
    kept: Any = numbered.join(keys, keys=keys.schema.names, join_type="left semi").column(index)
    return rows.take(kept)
