"""Avro values as Arrow columns: the types of a schema for Spark and Arrow, and the decoding of a column by it.

    null · boolean · int · long · float · double · bytes · string · enum · fixed · record · array · map
    union of null and one other type: that type, nullable; no other union has columns
    date · time-* · timestamp-millis · timestamp-micros · local-timestamp-* · decimal · uuid

That is what Spark's own Avro reader makes of them, times of day left as numbers.
"""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa

_PRIMITIVES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}
# Kept as the numbers that they are: Spark has no time of day.
_UNTOUCHED = ("time-millis", "time-micros", "duration")
# A type that holds itself has no columns.
_DEPTH_MAX = 32


class AvroError(ValueError):
    """A schema without columns, or a value that is not of it."""


class AvroSchema:
    """A parsed schema. `text` is JSON, as schemas are written and as a registry keeps them."""

    def __init__(self, text: str) -> None:
        try:
            self.parsed: Any = fastavro.parse_schema(_plain(json.loads(text)), expand=True)
        except RecursionError:
            raise AvroError("an Avro schema that holds itself has no columns") from None
        except Exception as error:  # noqa: BLE001 - whatever its parser finds wrong
            raise AvroError(f"the Avro schema is wrong: {error}") from None
        self.arrow_type = _arrow_type(self.parsed, 0)

    def decode(self, value: bytes, start: int, reader: AvroSchema) -> Any:
        """A value that was written by this schema, as `reader` has it. AvroError where it is not, or bytes are left over."""
        stream = io.BytesIO(value)
        stream.seek(start)
        try:
            decoded = fastavro.schemaless_reader(stream, self.parsed, reader.parsed if reader is not self else None)
        except Exception as error:  # noqa: BLE001 - the decoder raises whatever it stumbles over
            raise AvroError(f"a value is not of the Avro schema: {str(error) or type(error).__name__}") from None
        if stream.tell() != len(value):
            raise AvroError(f"{len(value) - stream.tell()} bytes follow a value of the Avro schema")
        return decoded


def _plain(schema: Any) -> Any:
    """Without the logical types that stay numbers."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if isinstance(schema, dict):
        return {
            name: _plain(each) if name in {"type", "items", "values", "fields"} else each
            for name, each in schema.items()
            if not (name == "logicalType" and each in _UNTOUCHED)
        }
    return schema


def _arrow_type(schema: Any, depth: int) -> pa.DataType:
    if depth > _DEPTH_MAX:
        raise AvroError(f"an Avro schema that is nested deeper than {_DEPTH_MAX} levels has no columns")
    match schema:
        case str() if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        case list():
            return _union_type(schema, depth)
        case {"logicalType": str() as logical} if logical in _LOGICAL:
            return _LOGICAL[logical]
        case {"logicalType": "decimal", "precision": int() as precision}:
            return pa.decimal128(precision, schema.get("scale", 0))
        case {"type": "record" | "error", "fields": list() as fields}:
            return pa.struct([pa.field(each["name"], _arrow_type(each["type"], depth + 1)) for each in fields])
        case {"type": "enum"}:
            return pa.string()
        case {"type": "fixed"}:
            return pa.binary()
        case {"type": "array", "items": items}:
            return pa.list_(_arrow_type(items, depth + 1))
        case {"type": "map", "values": values}:
            return pa.map_(pa.string(), _arrow_type(values, depth + 1))
        case {"type": inner}:
            return _arrow_type(inner, depth)
    raise AvroError(f"an Avro type {schema!r:.80} has no column: a schema that names itself has none")


def _union_type(members: list[Any], depth: int) -> pa.DataType:
    others = [each for each in members if each != "null"]
    if len(others) == 1:
        return _arrow_type(others[0], depth + 1)
    raise AvroError(
        f"a union of {len(others)} types has no column: only a union of null and one other type has"
        if others
        else "a union of null alone has no column"
    )
