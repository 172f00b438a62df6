"""Rows of Arrow as values of a database, and back; and which rows a database would change in silence or not take. Pure.

Columns are converted by Arrow as a whole. Where a database has no type of its own for a value (SQLite: dates, times, decimals),
it is text that sorts as the value does; decimals are exact, and do not sort.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.spark.outputs.database_dialect import Dialect, decimal_arguments, family
from tidelog.spark.outputs.database_statements import ATTEMPT, ROW
from tidelog.spark.outputs.staged import DELETED, UNCHANGED, Changes

if TYPE_CHECKING:
    import pyarrow as pa

# ruff: noqa: PLC0415 - Arrow is loaded by whoever has rows

# PostgreSQL's index takes rows of 2,704 bytes, MariaDB's 3,072.
KEY_BYTES_MAX = 2000


def refused_row(batch: pa.RecordBatch, dialect: Dialect, changes: Changes | None) -> str | None:
    """Why some row of this batch cannot be written, as a sentence; None where all can."""
    for name in () if changes is None else (*changes.merge_on, *([changes.sequence_by] if changes.sequence_by else [])):
        if batch.column(name).null_count:
            what = "sequence" if changes is not None and name == changes.sequence_by else "key"
            return f"a row has no value in {name}, which is part of its {what}"
    if changes is not None and (longest := _longest_key(batch, changes.merge_on)) > KEY_BYTES_MAX:
        return f"a row has a key of {longest} bytes, more than the {KEY_BYTES_MAX} that an index takes"
    return _refused_number(batch, dialect)


def _longest_key(batch: pa.RecordBatch, keys: Sequence[str]) -> int:
    import pyarrow.compute as pc

    columns: list[Any] = [
        batch.column(each) for each in keys if family(batch.schema.field(each).type) in {"text", "binary"}
    ]
    # More than the longest key where no row has the longest of both columns, and that is no key for an index either.
    return sum(pc.max(pc.binary_length(each)).as_py() or 0 for each in columns)


def _refused_number(batch: pa.RecordBatch, dialect: Dialect) -> str | None:
    import pyarrow.compute as pc

    for field in batch.schema:
        if family(field.type) not in {"float", "double"}:
            continue
        column: Any = batch.column(field.name)
        if not dialect.has_nan and pc.any(pc.is_nan(column)).as_py():
            return f"a row has NaN in {field.name}, which {dialect.name} does not hold: nanvl() or where() replaces it"
        if not dialect.has_infinity and pc.any(pc.is_inf(column)).as_py():
            return f"a row has an infinite {field.name}, which {dialect.name} does not hold"
    return None


def staged_rows(
    batch: pa.RecordBatch, columns: Sequence[str], changes: Changes | None, *, attempt: int, first_row: int
) -> pa.RecordBatch:
    """With the columns that rows have while they are staged, in the order of `staged_columns`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count = batch.num_rows
    arrays: dict[str, Any] = {name: batch.column(name) for name in columns}
    arrays[ATTEMPT] = pa.repeat(pa.scalar(attempt, pa.int64()), count)
    if changes is not None:
        deleted: Any = batch.column(DELETED) if DELETED in batch.schema.names else pa.repeat(pa.scalar(False), count)
        arrays[DELETED] = pc.fill_null(deleted, False).cast(pa.int16())
        if UNCHANGED in batch.schema.names:
            arrays[UNCHANGED] = batch.column(UNCHANGED)
        if changes.history:
            arrays[ROW] = pa.array(range(first_row, first_row + count), pa.int64())
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def csv_of(batch: pa.RecordBatch) -> bytes:
    """As PostgreSQL's COPY reads it: text in quotes, and nothing at all for null."""
    import pyarrow as pa
    from pyarrow import csv

    def written(column: Any) -> Any:
        name = family(column.type)
        if name == "binary":
            return pa.array([None if each is None else f"\\x{each.hex()}" for each in column.to_pylist()], pa.string())
        return column.cast(pa.timestamp("us", "UTC")) if name == "instant" else column

    columns = [written(each) for each in batch.columns]
    sink = pa.BufferOutputStream()
    converted = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    csv.write_csv(converted, sink, csv.WriteOptions(include_header=False))
    return sink.getvalue().to_pybytes()


def value_rows(batch: pa.RecordBatch, dialect: Dialect) -> Iterator[tuple[object, ...]]:
    """As a driver takes them that knows Python's types alone."""
    columns = [_values(column, dialect) for column in batch.columns]
    return zip(*columns, strict=True)


def _values(column: Any, dialect: Dialect) -> list[object]:
    import pyarrow as pa

    name = family(column.type)
    if dialect.name == "MariaDB" and name == "instant":
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        name = "timestamp"
    if name in {"timestamp", "instant"}:
        column = column.cast(pa.timestamp("us", column.type.tz and "UTC"))
    if name in {"date", "timestamp", "instant"} or (name == "decimal" and dialect.name == "SQLite"):
        column = column.cast(pa.string())
    found: list[object] = column.to_pylist()
    return found


def arrow_rows(rows: Sequence[Sequence[object]], schema: pa.Schema, dialect: Dialect) -> pa.RecordBatch:
    """What a database has given, as the rows were when they were written."""
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [_array(values, field.type, dialect) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], kind: pa.DataType, dialect: Dialect) -> pa.Array[Any]:
    import pyarrow as pa

    name = family(kind)
    if name == "boolean":
        return pa.array([None if each is None else bool(each) for each in values], kind)
    if name == "decimal":
        exact = [None if each is None else decimal.Decimal(str(each)) for each in values]
        return pa.array([each if each is None else _scaled(each, decimal_arguments(kind)[1]) for each in exact], kind)
    if name == "text":
        return pa.array([each if each is None or isinstance(each, str) else str(each) for each in values], kind)
    if name in {"float", "double"}:
        return pa.array([None if each is None else float(each) for each in values], pa.float64()).cast(kind)
    if dialect.name == "SQLite" and name in {"date", "timestamp", "instant"}:
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)


def _scaled(value: decimal.Decimal, scale: int) -> decimal.Decimal:
    with decimal.localcontext() as context:
        context.prec = 76
        return value.quantize(decimal.Decimal(1).scaleb(-scale))
