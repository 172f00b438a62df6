"""Values that a change does not have because they stay as they are: a source leaves out what is large and was not updated. Pure.

    id  notes  price  _tidelog_unchanged
    1   null   9.50   010                  a character for each column that the table has of the rows, in their order
    2   long   7.00   null                 the row has all of its values

A value that is left out is that of the change before it: of the same batch (`folded`), or what the table has. Where neither is,
or the row was deleted in between, nobody knows it, and it is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.spark.outputs.staged import DELETED, INTERNAL, UNCHANGED

if TYPE_CHECKING:
    import pyarrow as pa

# ruff: noqa: PLC0415 - Arrow is loaded by whoever has rows

KEPT, GIVEN = "1", "0"


def marked_columns(names: Sequence[str]) -> list[str]:
    """Those that the characters of a mark stand for, in their order."""
    return [name for name in names if name not in INTERNAL]


def kept_in_rows(rows: pa.RecordBatch | pa.Table) -> dict[int, tuple[str, ...]]:
    """By the number of a row: its columns that stay as they are. Rows that have all of their values are left out."""
    if UNCHANGED not in rows.schema.names:
        return {}
    import pyarrow.compute as pc

    marks: Any = rows.column(UNCHANGED)
    if marks.null_count == len(marks):
        return {}
    names = marked_columns(rows.schema.names)
    at = pc.indices_nonzero(pc.is_valid(marks)).to_pylist()
    return {
        row: tuple(name for name, each in zip(names, mark, strict=True) if each == KEPT)
        for row, mark in zip(at, marks.drop_null().to_pylist(), strict=True)
        if KEPT in mark
    }


def with_values(rows: pa.Table, others: pa.Table, taken: Mapping[str, Mapping[int, int]]) -> pa.Table:
    """Rows with some of their values replaced: by column and row, the row of `others` that has the value."""
    import pyarrow as pa

    for name, sources in taken.items():
        index = list(range(rows.num_rows))
        for row, source in sources.items():
            index[row] = rows.num_rows + source
        field = rows.schema.field(name)
        both = pa.chunked_array([*rows.column(name).chunks, *others.column(name).cast(field.type).chunks], field.type)
        found: Any = both.take(pa.array(index, pa.int64()))
        rows = rows.set_column(rows.schema.get_field_index(name), field, found)
    return rows


def folded(rows: pa.RecordBatch, is_first: Sequence[bool]) -> pa.RecordBatch:
    """Rows in the order of their key and sequence, each with what the one before it of the same key knows of the values that it
    leaves out. `is_first` says of which rows there is none before."""
    import pyarrow as pa

    kept = kept_in_rows(rows)
    if not kept:
        return rows
    names = marked_columns(rows.schema.names)
    deleted = rows.column(DELETED).to_pylist() if DELETED in rows.schema.names else [False] * rows.num_rows
    marks = rows.column(UNCHANGED).to_pylist()
    taken: dict[str, dict[int, int]] = {}
    for row, columns in sorted(kept.items()):
        if is_first[row]:
            continue
        still = set[str]()
        for name in columns if not deleted[row - 1] else ():
            # By now the row before has what those before it know.
            if name in _kept_by(marks[row - 1], names):
                still.add(name)
            else:
                taken.setdefault(name, {})[row] = taken.get(name, {}).get(row - 1, row - 1)
        marks[row] = "".join(KEPT if name in still else GIVEN for name in names) if still else None
    whole = pa.Table.from_batches([rows])
    filled = with_values(whole, whole, taken)
    at = rows.schema.get_field_index(UNCHANGED)
    filled = filled.set_column(at, rows.schema.field(at), pa.array(marks, rows.schema.field(at).type))
    (found,) = filled.combine_chunks().to_batches()
    return found


def _kept_by(mark: str | None, names: Sequence[str]) -> frozenset[str]:
    if mark is None:
        return frozenset()
    return frozenset(name for name, each in zip(names, mark, strict=True) if each == KEPT)
