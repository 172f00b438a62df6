"""Changes of rows by key in a Delta table: upserts and deletes, or a history of every version.

Changes are staged outside of the table's directory and merged after the decision, against whatever version the table then has:
nothing of a merge is computed before. It is repeated from the start when somebody else was faster. The changes stream through
the library's join; of a history those of the batch, and the versions of their keys that they can touch, are in memory.

A delete leaves no trace, but in a history: a change that is older than a delete and comes after it writes the row again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tidelog.spark.outputs.history import history_upserts
from tidelog.spark.outputs.staged import DELETED, VALID_FROM, VALID_TO, Changes, StagedFile
from tidelog.spark.outputs.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

# ruff: noqa: PLC0415 - Arrow is loaded by whoever has rows

# Keys of so many are in memory to find one that comes twice, and in a history the changes themselves.
CHANGES_MAX = 5_000_000
_SOURCE, _TARGET = "source", "target"


class MergePlan(msgspec.Struct, frozen=True):
    """What Delta's MERGE is told, in its SQL. Of the conditions None is never, and an empty one always."""

    on: str
    columns: tuple[str, ...]
    update_when: str = ""
    insert_when: str = ""
    delete_when: str | None = None

    @property
    def assignments(self) -> dict[str, str]:
        return {quoted(name): f"{_SOURCE}.{quoted(name)}" for name in self.columns}


def change_faults(schema: pa.Schema, how: Changes) -> list[str]:
    """What is wrong with the declaration for rows of this schema."""
    from pyarrow import types

    named = [("merge_on", name) for name in how.merge_on]
    if how.sequence_by is not None:
        named.append(("sequence_by", how.sequence_by))
    found = []
    if not how.merge_on:
        found.append("merge_on names no column")
    for option, name in named:
        if name not in schema.names:
            found.append(f"{option} names the column {name}, which the rows do not have")
            continue
        given = schema.field(name).type
        if types.is_nested(given) or types.is_floating(given):
            found.append(f"{option} names the column {name} of the type {given}, whose values are not compared here")
    if how.history and how.sequence_by is None:
        found.append("history=True needs sequence_by=, the column that orders the versions of a key")
    if how.history:
        found += [
            f"the rows have a column {name}, which a history makes itself"
            for name in (VALID_FROM, VALID_TO)
            if name in schema.names
        ]
    return found


def table_columns(schema: pa.Schema, how: Changes | None) -> pa.Schema:
    """What the table has of rows of this schema: no mark of deletes, and in a history from when to when a version counts."""
    import pyarrow as pa

    if how is None:
        return schema
    found = pa.schema([field for field in schema if field.name != DELETED])
    if how.history and how.sequence_by in found.names:
        given = found.field(how.sequence_by).type
        found = found.append(pa.field(VALID_FROM, given)).append(pa.field(VALID_TO, given))
    return found


class StagedChanges:
    """Changes of a batch, as they lie in their files."""

    def __init__(self, storage: Storage, files: Sequence[StagedFile], schema: pa.Schema, how: Changes) -> None:
        self._storage = storage
        self._files = files
        self._schema = schema
        self._how = how

    def reader(self) -> pa.RecordBatchReader:
        """One pass over all rows."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._schema, self._batches(self._schema))

    def table(self) -> pa.Table:
        return self.reader().read_all()

    def faults(self) -> list[str]:
        """A key that is null or comes twice, a change without its sequence, more than can be looked at."""
        import pyarrow as pa

        rows = sum(file.rows for file in self._files)
        if rows > CHANGES_MAX:
            return [f"a batch has {rows} changes, and {CHANGES_MAX} are merged at once: read less a batch"]
        names = list(self._how.merge_on)
        if self._how.sequence_by is not None:
            names.append(self._how.sequence_by)
        chosen = pa.schema([self._schema.field(name) for name in names])
        keys = pa.Table.from_batches(list(self._batches(chosen)), chosen)
        for name in names:
            if keys.column(name).null_count:
                option = "merge_on" if name in self._how.merge_on else "sequence_by"
                return [f"a change has no {name}, which {option} names"]
        apart = names if self._how.history else list(self._how.merge_on)
        counted = keys.group_by(apart).aggregate([([], "count_all")])
        twice = counted.filter(counted.column("count_all").to_numpy() > 1).slice(0, 1).to_pylist()
        if not twice:
            return []
        key = ", ".join(f"{name}={twice[0][name]!r}" for name in apart)
        return [f"a batch has two changes of {key}: which is the last one is not to be told"]

    def bounds(self) -> str:
        """What all keys lie between, as a condition on the table: files without any are passed over. Whole numbers only, whose
        bounds are exact."""
        found = []
        least, greatest = self._extremes()
        for name in self._how.merge_on:
            if name in least and name in greatest:
                column = f"{_TARGET}.{quoted(name)}"
                found.append(f"{column} >= {least[name]} AND {column} <= {greatest[name]}")
        return " AND ".join(found)

    def _extremes(self) -> tuple[dict[str, int], dict[str, int]]:
        from pyarrow import types

        least: dict[str, int] = {}
        greatest: dict[str, int] = {}
        for name in self._how.merge_on:
            if not types.is_integer(self._schema.field(name).type):
                continue
            known = [json.loads(json.loads(file.stats)["stats"]) for file in self._files]
            if all(name in each["minValues"] and name in each["maxValues"] for each in known) and known:
                least[name] = min(each["minValues"][name] for each in known)
                greatest[name] = max(each["maxValues"][name] for each in known)
        return least, greatest

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for file in self._files:
            with self._storage.system.open_input_file(f"{self._storage.root}/{file.path}") as opened:
                for found in pq.ParquetFile(opened).iter_batches(columns=schema.names):
                    columns = [found.column(field.name).cast(field.type) for field in schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def upsert_plan(columns: pa.Schema, rows: pa.Schema, how: Changes, bounds: str) -> MergePlan:
    """Changes of one row a key, straight into the table."""
    newer = ""
    if how.sequence_by is not None:
        name = quoted(how.sequence_by)
        newer = f"({_SOURCE}.{name} >= {_TARGET}.{name} OR {_TARGET}.{name} IS NULL)"
    on = _equal(how.merge_on, bounds)
    if DELETED not in rows.names:
        return MergePlan(on, tuple(columns.names), update_when=newer)
    kept, deleted = (f"{_SOURCE}.{quoted(DELETED)} IS {state}" for state in ("NOT TRUE", "TRUE"))
    also = f" AND {newer}" if newer else ""
    return MergePlan(on, tuple(columns.names), kept + also, kept, deleted + also)


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
    conditions = [condition for condition in (_not_before(least), _untargeted(staged.bounds())) if condition]
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
