"""Changes of rows by key as a batch has staged them, for tables that are merged in the driver: what may be declared, what a table
has of such rows, and the changes themselves in their files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.spark.errors import OptionError
from tidelog.spark.outputs.staged import INTERNAL, VALID_FROM, VALID_TO, Changes, StagedFile, Target
from tidelog.spark.outputs.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa

# ruff: noqa: PLC0415 - Arrow is loaded by whoever has rows

# Keys of so many are in memory to find one that comes twice, and in a history the changes themselves.
CHANGES_MAX = 5_000_000
CHANGES_MAX_OPTION = "changes_max"
"""Of a target: more than that, for a driver that has the memory. A batch that Spark has planned is not made smaller any more."""
_LIMIT_MAX = 1_000_000_000


def changes_max(options: Mapping[str, str]) -> int:
    """How many changes of a batch are merged. OptionError."""
    text = options.get(CHANGES_MAX_OPTION)
    if text is None:
        return CHANGES_MAX
    if not text.isdecimal() or not 0 < len(text) <= len(str(_LIMIT_MAX)) or not 0 < int(text) <= _LIMIT_MAX:
        raise OptionError(f"{CHANGES_MAX_OPTION} is {text[:40]!r}, expected a number from 1 to {_LIMIT_MAX}")
    return int(text)


def limit_faults(target: Target) -> list[str]:
    """What is wrong with the option of a target, if it has it."""
    if CHANGES_MAX_OPTION in target.options and target.changes is None:
        return [f"{CHANGES_MAX_OPTION} is for rows that are merged: it needs merge_on="]
    try:
        changes_max(target.options)
    except OptionError as error:
        return [str(error)]
    return []


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
    """What the table has of rows of this schema: nothing internal, and in a history from when to when a version counts."""
    import pyarrow as pa

    if how is None:
        return schema
    found = pa.schema([field for field in schema if field.name not in INTERNAL])
    if how.history and how.sequence_by in found.names:
        given = found.field(how.sequence_by).type
        found = found.append(pa.field(VALID_FROM, given)).append(pa.field(VALID_TO, given))
    return found


class StagedChanges:
    """Changes of a batch, as they lie in their files."""

    def __init__(
        self, storage: Storage, files: Sequence[StagedFile], schema: pa.Schema, how: Changes, *, rows_max: int
    ) -> None:
        """`rows_max` as `changes_max` tells it."""
        self._rows_max = rows_max
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
        """A key that is null, or comes twice where one alone can count; a change without its sequence; more than are merged."""
        import pyarrow as pa

        rows = sum(file.rows for file in self._files)
        if rows > self._rows_max:
            sentence = (
                f"a batch has {rows} changes, and {self._rows_max} are merged at once, in the driver's memory: have the source"
                f" read less (maxOffsetsPerTrigger), and let this batch through by the sink's option {CHANGES_MAX_OPTION}={rows}"
            )
            return [sentence]
        names = list(self._how.merge_on)
        if self._how.sequence_by is not None:
            names.append(self._how.sequence_by)
        chosen = pa.schema([self._schema.field(name) for name in names])
        keys = pa.Table.from_batches(list(self._batches(chosen)), chosen)
        for name in names:
            if keys.column(name).null_count:
                option = "merge_on" if name in self._how.merge_on else "sequence_by"
                return [f"a change has no {name}, which {option} names"]
        # Of two changes of a history at one sequence the one that was staged last counts, as in a database.
        return [] if self._how.history else self._twice(keys)

    def _twice(self, keys: pa.Table) -> list[str]:
        counted = keys.group_by(list(self._how.merge_on)).aggregate([([], "count_all")])
        twice = counted.filter(counted.column("count_all").to_numpy() > 1).slice(0, 1).to_pylist()
        if not twice:
            return []
        key = ", ".join(f"{name}={twice[0][name]!r}" for name in self._how.merge_on)
        return [f"a batch has two changes of {key}: which is the last one is not to be told"]

    def extremes(self) -> tuple[dict[str, int], dict[str, int]]:
        """The least and the greatest value of the columns of the key, of those whose values are whole numbers."""
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
