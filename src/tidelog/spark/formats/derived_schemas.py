"""Schemas for columns that nobody wrote one for: what is registered when rows are the only thing that is known.

Every column may be null, since Spark says of few that they never are; so a column that comes or goes keeps the schema compatible.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class UnnamedTypeError(ValueError):
    """A column that no schema can be made for."""


def record_name(subject: str) -> str:
    """For the rows of a subject: `shop.orders-value` makes shop_orders."""
    base = re.sub(r"\W", "_", subject.removesuffix("-value").removesuffix("-key"), flags=re.ASCII)
    return base if _AVRO_NAME.fullmatch(base) else f"_{base}"


def avro_schema_of(columns: pa.StructType, name: str) -> str:
    """In JSON. UnnamedTypeError for a column that Avro has no type for."""
    return json.dumps(_avro_record(columns, name))


def json_schema_of(columns: pa.StructType, title: str) -> str:
    """The same in JSON Schema. Other properties are not allowed: else a new column might be one that somebody has sent before."""
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **_json_object(columns)})


def _avro_record(columns: pa.StructType, name: str) -> dict[str, Any]:
    fields = []
    for column in columns:
        if not _AVRO_NAME.fullmatch(column.name):
            raise UnnamedTypeError(f"{column.name!r} cannot be the name of an Avro field: give the column another one")
        kind = _avro_type(column.type, f"{name}_{column.name}", column.name)
        fields.append({"name": column.name, "type": ["null", kind], "default": None})
    return {"type": "record", "name": name, "fields": fields}


def _avro_type(kind: pa.DataType, name: str, column: str) -> Any:
    if isinstance(kind, pa.StructType):
        return _avro_record(kind, name)
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type, f"{name}_item", column)]}
    if pa.types.is_map(kind) and _is_text(kind.key_type):
        return {"type": "map", "values": ["null", _avro_type(kind.item_type, f"{name}_value", column)]}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind):
        local = "local-" if kind.tz is None else ""
        return {"type": "long", "logicalType": f"{local}timestamp-micros"}
    if pa.types.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_signed_integer(kind):
        return "long" if kind.bit_width == 64 else "int"
    if pa.types.is_floating(kind):
        return "double" if kind.bit_width == 64 else "float"
    if _is_text(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "bytes"
    raise _refused(column, kind)


def _json_object(columns: pa.StructType) -> dict[str, Any]:
    properties = {each.name: _or_null(_json_type(each.type, each.name)) for each in columns}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _json_type(kind: pa.DataType, column: str) -> dict[str, Any]:
    if isinstance(kind, pa.StructType):
        return _json_object(kind)
    if pa.types.is_list(kind):
        return {"type": "array", "items": _or_null(_json_type(kind.value_type, column))}
    if pa.types.is_map(kind):
        return {"type": "object", "additionalProperties": _or_null(_json_type(kind.item_type, column))}
    if pa.types.is_timestamp(kind):
        # A local time has no zone, which a date-time has to have.
        return {"type": "string"} if kind.tz is None else {"type": "string", "format": "date-time"}
    if pa.types.is_date32(kind):
        return {"type": "string", "format": "date"}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_signed_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return {"type": "number"}
    if _is_text(kind):
        return {"type": "string"}
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return {"type": "string", "contentEncoding": "base64"}
    raise _refused(column, kind)


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _refused(column: str, kind: pa.DataType) -> UnnamedTypeError:
    return UnnamedTypeError(f"the column {column} is of type {kind}, which a schema has no type for: cast it to one")
