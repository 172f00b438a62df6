"""What rows and an Iceberg table have to do with each other: which types fit, which columns a table gets more, and how rows
become those of its files. Pure, over Arrow and Iceberg's own types.

A table only widens: columns are added, `int` becomes `long`, `float` becomes `double`, a decimal gets more digits. Columns that
rows do not have are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction

from tidelog.spark.outputs.kind import OutputRefusedError

# Of a type, as deep as anybody has them; a deeper one would be a stack overflow.
NESTED_MAX = 32
_FORMAT_VERSION_MAX = 2


def normal_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of rows as Iceberg has types: times in microseconds, those with a zone in UTC. All columns may be null: a table
    that is made from rows does not promise more than they do. OutputRefusedError for what there is no type for."""
    fields = [pa.field(each.name, _normal_type(each.type, each.name)) for each in schema]
    if len(set(schema.names)) != len(schema.names):
        raise OutputRefusedError("rows have two columns of one name")
    return pa.schema(fields)


def _normal_type(found: Any, name: str, depth: int = 0) -> pa.DataType:
    if depth > NESTED_MAX:
        raise OutputRefusedError(f"the column {name} is nested deeper than {NESTED_MAX} levels")
    if pa.types.is_timestamp(found):
        if found.unit == "ns":
            raise OutputRefusedError(f"the column {name} has nanoseconds, which only tables of format 3 have")
        return pa.timestamp("us", tz=None if found.tz is None else "UTC")
    if pa.types.is_struct(found):
        return pa.struct([pa.field(each.name, _normal_type(each.type, name, depth + 1)) for each in found])
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return pa.list_(pa.field("element", _normal_type(found.value_type, name, depth + 1)))
    if pa.types.is_map(found):
        return pa.map_(_normal_type(found.key_type, name, depth + 1), _normal_type(found.item_type, name, depth + 1))
    return cast("pa.DataType", found)


def table_schema(schema: Schema) -> pa.Schema:
    """Of a table, as Arrow has it, by the table's own names."""
    return schema_to_pyarrow(schema, include_field_ids=False)


def file_schema(schema: Schema) -> pa.Schema:
    """Of a table's files: with the ids of its fields, by which readers go whatever names are."""
    return schema_to_pyarrow(schema, include_field_ids=True)


def fits(rows: Any, table: Any) -> bool:
    """Whether every value of the one type is one of the other, unchanged."""
    is_ = pa.types
    if is_.is_null(rows) or rows.equals(table):
        return True
    if is_.is_struct(rows) and is_.is_struct(table):
        return all(
            table.get_field_index(each.name) >= 0 and fits(each.type, table.field(each.name).type) for each in rows
        )
    if _is_list(rows) and _is_list(table):
        return fits(rows.value_type, table.value_type)
    if is_.is_map(rows) and is_.is_map(table):
        return fits(rows.key_type, table.key_type) and fits(rows.item_type, table.item_type)
    if is_.is_decimal(rows) and is_.is_decimal(table):
        return bool(rows.scale == table.scale and rows.precision <= table.precision)
    if is_.is_signed_integer(rows) and is_.is_signed_integer(table):
        return bool(rows.bit_width <= table.bit_width)
    if is_.is_floating(rows) and is_.is_floating(table):
        return bool(rows.bit_width <= table.bit_width)
    return any(like(rows) and like(table) for like in (_is_text, _is_bytes))


def _is_list(found: pa.DataType) -> bool:
    return pa.types.is_list(found) or pa.types.is_large_list(found)


def _is_text(found: pa.DataType) -> bool:
    return pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found)


def _is_bytes(found: pa.DataType) -> bool:
    return pa.types.is_binary(found) or pa.types.is_large_binary(found) or pa.types.is_binary_view(found)


def misfits(rows: pa.Schema, table: pa.Schema) -> list[pa.Field[Any]]:
    """Columns of the rows that the table does not have, or not so wide."""
    return [
        each
        for each in rows
        if table.get_field_index(each.name) < 0 or not fits(each.type, table.field(each.name).type)
    ]


def widening(table: Table, rows: pa.Schema, *, widens: bool) -> Transaction | None:
    """What has to be committed before rows of this schema can be written; None where they can be. OutputRefusedError where they
    never can."""
    rows = normal_schema(rows)
    if table.format_version > _FORMAT_VERSION_MAX:
        raise OutputRefusedError(
            f"the table has format version {table.format_version}; up to {_FORMAT_VERSION_MAX} can be written here"
        )
    _check_required(table.schema(), rows)
    missing = misfits(rows, table_schema(table.schema()))
    if not missing:
        return None
    if not widens:
        names = ", ".join(each.name for each in missing)
        raise OutputRefusedError(
            f"the table has no column, or not so wide a one, for {names}, and is not to be widened"
        )
    transaction = table.transaction()
    try:
        with transaction.update_schema() as update:
            update.union_by_name(pa.schema(missing))
    except (ValueError, TypeError, ValidationError, ResolveError, UnsupportedPyArrowTypeException) as error:
        raise OutputRefusedError(_mismatch(missing, table.schema(), error)) from error
    if missing := misfits(rows, table_schema(transaction.table_metadata.schema())):
        raise OutputRefusedError(_mismatch(missing, table.schema(), None))
    return transaction


def _mismatch(missing: Sequence[pa.Field[Any]], schema: Schema, error: Exception | None) -> str:
    for each in missing:
        if each.name in schema.column_names:
            return f"the column {each.name} is {schema.find_type(each.name)} in the table, and {each.type} in the rows"
    return f"the table cannot have the column {missing[0].name} of type {missing[0].type}: {error}".splitlines()[0]


def _check_required(schema: Schema, rows: pa.Schema) -> None:
    for field in schema.fields:
        if field.required and field.name not in rows.names:
            raise OutputRefusedError(f"the table requires the column {field.name}, which the rows do not have")


def check_partition(table: Table, partition_by: Sequence[str]) -> None:
    """OutputRefusedError where a table has other partitions than were asked for."""
    if not partition_by:
        return
    schema = table.schema()
    found = [(str(each.transform), schema.find_column_name(each.source_id)) for each in table.spec().fields]
    if found != [("identity", name) for name in partition_by]:
        has = ", ".join(f"{transform}({name})" for transform, name in found) or "none"
        raise OutputRefusedError(
            f"the table has the partitions {has}, not {', '.join(partition_by)}: leave partition_by out, and they are followed"
        )


def as_table_rows(batch: pa.RecordBatch, schema: Schema, files: pa.Schema) -> pa.RecordBatch:
    """Rows as those of the table's files (`file_schema`). OutputRefusedError for a null in a column that must have a value."""
    columns = []
    for field, stored in zip(schema.fields, files, strict=True):
        index = batch.schema.get_field_index(field.name)
        column = pa.nulls(batch.num_rows, stored.type) if index < 0 else batch.column(index)
        if field.required and column.null_count:
            raise OutputRefusedError(f"the table requires a value in the column {field.name}, and rows have none")
        columns.append(column if column.type.equals(stored.type) else column.cast(stored.type))
    return pa.RecordBatch.from_arrays(columns, schema=files)
