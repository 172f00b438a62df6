"""Columns as Avro values: whether a schema takes them, and the encoding of rows by it.

A field of the schema has the column of its name, or a default. Types fit where no value is changed: int goes into long and
double, a decimal into one of more digits; a timestamp loses its microseconds in timestamp-millis, which has none.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa

from tidelog.spark.formats.avro_columns import AvroError, AvroSchema, only_type

_INTEGERS = {pa.int8(): "int", pa.int16(): "int", pa.int32(): "int", pa.int64(): "long"}
# What each column also goes into without a change.
_WIDER = {"int": ("int", "long", "double"), "long": ("long",), "float": ("float", "double"), "double": ("double",)}
_MICROS = ("timestamp-micros", "local-timestamp-micros")
_MILLIS = ("timestamp-millis", "local-timestamp-millis")

_Convert = Callable[[Any], Any]


class AvroRows:
    """Rows of certain columns as values of one schema. AvroError, one sentence for all, where it does not take them."""

    def __init__(self, schema: AvroSchema, columns: pa.StructType) -> None:
        self._schema = schema
        self._problems: list[str] = []
        root = schema.parsed
        if isinstance(root, str):
            root = schema.types.get(root, root)
        if not isinstance(root, dict) or root.get("type") != "record":
            raise AvroError("rows are records, and the Avro schema is of no record")
        self._counted, self._whole, self._convert = self._record(root, columns, "")
        self._required = [each["name"] for each in root["fields"] if not _takes_null(each["type"])]
        if self._problems:
            raise AvroError("; ".join(self._problems))

    def encode(self, rows: pa.StructArray) -> list[bytes | None]:
        """A value for each row, None for a row that is null. AvroError for one that the schema does not take."""
        self._check_nulls(rows)
        # Times as numbers, a column at a time: first in the schema's unit, then as what it is made of.
        numbers: pa.Array[Any] = rows.cast(self._counted, safe=False).cast(self._whole)
        return [None if each is None else self._encoded(each) for each in numbers.to_pylist()]

    def _check_nulls(self, rows: pa.StructArray) -> None:
        there = rows.drop_null()
        for name in self._required:
            if name in {each.name for each in there.type} and there.field(name).null_count:
                raise AvroError(f"the column {name} is null in a row, and the Avro schema takes no null there")

    def _encoded(self, row: Any) -> bytes:
        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(
                stream, self._schema.wire_schema, self._convert(row), disable_tuple_notation=True
            )
        except Exception as error:  # noqa: BLE001 - the encoder raises whatever it stumbles over
            raise AvroError(f"a row is not of the Avro schema: {str(error) or type(error).__name__}") from None
        return stream.getvalue()

    def _record(self, record: Any, columns: pa.StructType, path: str) -> tuple[pa.DataType, pa.DataType, _Convert]:
        """The types that columns are cast to, one after the other, and what is left to do with a row."""
        fields = {each["name"]: each for each in record["fields"]}
        for name, field in fields.items():
            if columns.get_field_index(name) < 0 and "default" not in field:
                self._problems.append(f"the Avro schema has a field {path}{name}, and there is no such column")
        counted, whole, converts = [], [], {}
        for column in columns:
            if column.name not in fields:
                self._problems.append(f"the column {path}{column.name} is no field of the Avro schema")
                continue
            first, second, convert = self._value(fields[column.name]["type"], column.type, f"{path}{column.name}")
            counted.append(pa.field(column.name, first))
            whole.append(pa.field(column.name, second))
            if convert is not None:
                converts[column.name] = convert

        def converted(row: Any) -> Any:
            for name, convert in converts.items():
                if row[name] is not None:
                    row[name] = convert(row[name])
            return row

        return pa.struct(counted), pa.struct(whole), converted

    def _value(self, schema: Any, column: pa.DataType, path: str) -> tuple[pa.DataType, pa.DataType, _Convert | None]:
        schema = self._resolved(schema)
        kind = schema if isinstance(schema, str) else schema["type"]
        logical = None if isinstance(schema, str) else schema.get("logicalType")
        if pa.types.is_struct(column) and kind == "record":
            return self._record(schema, column, f"{path}.")
        if pa.types.is_list(column) and kind == "array":
            first, second, convert = self._value(schema["items"], column.value_type, path)
            return pa.list_(first), pa.list_(second), None if convert is None else _each(convert)
        if pa.types.is_map(column) and kind == "map" and _is_text(column.key_type):
            first, second, convert = self._value(schema["values"], column.item_type, path)
            return pa.map_(column.key_type, first), pa.map_(column.key_type, second), _as_dictionary(convert)
        times = _times(column, kind, logical)
        if times is not None:
            return (*times, None)
        if not _fits(column, kind, logical, schema):
            named = kind if logical is None else f"{kind} ({logical})"
            self._problems.append(f"the column {path} is of type {column}, and the Avro schema has {named} there")
        return column, column, None

    def _resolved(self, schema: Any) -> Any:
        while True:
            if isinstance(schema, list):
                schema = only_type(schema)
            elif isinstance(schema, str) and schema in self._schema.types:
                schema = self._schema.types[schema]
            elif isinstance(schema, dict) and isinstance(schema["type"], dict | list):
                schema = schema["type"]
            else:
                return schema


def _fits(column: pa.DataType, kind: str, logical: str | None, schema: Any) -> bool:
    """Whether each value of a column, which is no time, is one of a schema."""
    if logical == "decimal":
        scale = schema.get("scale", 0)
        digits = schema["precision"] - scale
        return pa.types.is_decimal(column) and column.scale <= scale and column.precision - column.scale <= digits
    if column in _INTEGERS:
        # A date is no number, though it is made of one.
        return kind in _WIDER[_INTEGERS[column]] and (logical is None or logical.startswith("time-"))
    if column == pa.float32():
        return kind in _WIDER["float"]
    if column == pa.float64():
        return kind in _WIDER["double"]
    if pa.types.is_boolean(column):
        return kind == "boolean"
    if _is_text(column):
        return kind in {"string", "enum"}
    if pa.types.is_binary(column) or pa.types.is_large_binary(column):
        return kind in {"bytes", "fixed"}
    return False


def _times(column: pa.DataType, kind: str, logical: str | None) -> tuple[pa.DataType, pa.DataType] | None:
    """The types that a time is cast to, in order; None for what is none, or none of the schema."""
    if pa.types.is_date32(column) and (kind, logical) == ("int", "date"):
        return column, pa.int32()
    if pa.types.is_timestamp(column) and kind == "long" and logical is not None:
        is_local = column.tz is None
        if logical.startswith("local-") == is_local and logical in (*_MICROS, *_MILLIS):
            return pa.timestamp("ms" if logical in _MILLIS else "us", column.tz), pa.int64()
    return None


def _is_text(column: pa.DataType) -> bool:
    return pa.types.is_string(column) or pa.types.is_large_string(column)


def _takes_null(schema: Any) -> bool:
    return schema == "null" or (isinstance(schema, list) and "null" in schema)


def _each(convert: _Convert) -> _Convert:
    return lambda values: [None if each is None else convert(each) for each in values]


def _as_dictionary(convert: _Convert | None) -> _Convert:
    if convert is None:
        return dict
    return lambda pairs: {name: None if each is None else convert(each) for name, each in pairs}
