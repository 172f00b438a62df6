"""Avro values as Arrow columns: the types of a schema for Spark and Arrow, and the decoding of a column by it.

    null · boolean · int · long · float · double · bytes · string · enum · fixed · record · array · map
    union of null and one other type: that type, nullable; no other union has columns
    date · time-* · timestamp-millis · timestamp-micros · local-timestamp-* · decimal · uuid

That is what Spark's own Avro reader makes of them, times of day left as numbers.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS

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
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_MILLIS = ("timestamp-millis", "local-timestamp-millis")
# Arrow takes times as numbers of microseconds, for an eighth of what objects of Python cost. The name is not Avro's.
_FROM_MILLIS = "tidelog-from-millis"
LOGICAL_READERS[f"long-{_FROM_MILLIS}"] = lambda value, *_: value * 1000
# A type that holds itself has no columns.
DEPTH_MAX = 32
# A schema that names its types over and over has millions of them.
FIELDS_MAX = 10_000
DECIMAL_DIGITS_MAX = 38


class AvroError(ValueError):
    """A schema without columns, or a value that is not of it."""


class AvroSchema:
    """A parsed schema. `text` is JSON, as schemas are written and as a registry keeps them; `named` are those that it refers to,
    each behind those that it refers to itself."""

    def __init__(self, text: str, named: Sequence[str] = ()) -> None:
        self.types: dict[str, Any] = {}
        """Those that have names."""
        try:
            for each in named:
                fastavro.parse_schema(json.loads(each), named_schemas=self.types)
            self.parsed: Any = fastavro.parse_schema(json.loads(text), named_schemas=self.types)
            self._read_by: Any = _parsed_as_numbers(text, named)
        except RecursionError:
            raise AvroError("the Avro schema is wrong: it is nested too deeply") from None
        except Exception as error:  # noqa: BLE001 - whatever its parser finds wrong
            raise AvroError(f"the Avro schema is wrong: {error}") from None
        self._arrow_type: pa.DataType | None = None

    @property
    def arrow_type(self) -> pa.DataType:
        """AvroError for a schema that has no columns: one that values were only written by needs none."""
        if self._arrow_type is None:
            self._arrow_type = _Types(self.types).arrow_type(self.parsed, 0)
        return self._arrow_type

    @property
    def wire_schema(self) -> Any:
        """As fastavro reads and writes values by it: times are numbers."""
        return self._read_by

    def check_readable_by(self, reader: AvroSchema) -> None:
        """AvroError where a time would be taken for a number, or a number for a time: Avro's own rules say nothing of that."""
        try:
            written = self.arrow_type
        except AvroError:
            # What has no columns may be left out by who reads.
            return
        name = _other_time(written, reader.arrow_type, "")
        if name is not None:
            raise AvroError(
                f"{name} is a time in one of the schemas that wrote and that read, and a number in the other"
            )

    def decode(self, value: bytes, start: int, reader: AvroSchema) -> Any:
        """A value that was written by this schema, as `reader` has it. AvroError where it is not, or bytes are left over."""
        stream = io.BytesIO(value)
        stream.seek(start)
        try:
            decoded = fastavro.schemaless_reader(stream, self._read_by, reader._read_by if reader is not self else None)
        except Exception as error:  # noqa: BLE001 - the decoder raises whatever it stumbles over
            raise AvroError(f"a value is not of the Avro schema: {str(error) or type(error).__name__}") from None
        if stream.tell() != len(value):
            raise AvroError(f"{len(value) - stream.tell()} bytes follow a value of the Avro schema")
        return decoded


def _parsed_as_numbers(text: str, named: Sequence[str]) -> Any:
    """For the decoder: all logical types but decimals stay what they are made of."""
    types: dict[str, Any] = {}
    for each in named:
        fastavro.parse_schema(_as_numbers(json.loads(each)), named_schemas=types)
    parsed = fastavro.parse_schema(_as_numbers(json.loads(text)), named_schemas=types)
    for each in types.values():
        for field in each.get("fields", ()):
            if "default" in field:
                field["default"] = _decoded_default(field["type"], field["default"], types)
    return parsed


def _decoded_default(kind: Any, default: Any, types: Mapping[str, Any]) -> Any:
    """What the decoder would have made of a value, of one that the schema has in JSON."""
    match kind:
        case str() if kind in types:
            return _decoded_default(types[kind], default, types)
        case list():
            others = [each for each in kind if each != "null"]
            return default if default is None or not others else _decoded_default(others[0], default, types)
        case {"logicalType": "decimal"} if isinstance(default, str):
            unscaled = int.from_bytes(default.encode("latin-1"), "big", signed=True)
            return Decimal(unscaled).scaleb(-int(kind.get("scale", 0)))
        case "bytes" | {"type": "bytes" | "fixed"} if isinstance(default, str):
            return default.encode("latin-1")
        case {"logicalType": str() as logical} if logical == _FROM_MILLIS and isinstance(default, int):
            return default * 1000
        case {"type": "array", "items": items} if isinstance(default, list):
            return [_decoded_default(items, each, types) for each in default]
        case {"type": "map", "values": values} if isinstance(default, dict):
            return {name: _decoded_default(values, each, types) for name, each in default.items()}
        case {"type": "record", "fields": list() as fields} if isinstance(default, dict):
            given = {each["name"]: default.get(each["name"], each.get("default")) for each in fields}
            return {each["name"]: _decoded_default(each["type"], given[each["name"]], types) for each in fields}
    return default


def _other_time(written: pa.DataType, read: pa.DataType, path: str) -> str | None:
    """The first field that is a time in one of them alone."""
    if isinstance(written, pa.StructType) and isinstance(read, pa.StructType):
        for field in read:
            if written.get_field_index(field.name) >= 0:
                found = _other_time(written.field(field.name).type, field.type, f"{path}{field.name}.")
                if found is not None:
                    return found
        return None
    if isinstance(written, pa.ListType) and isinstance(read, pa.ListType):
        return _other_time(written.value_type, read.value_type, path)
    if isinstance(written, pa.MapType) and isinstance(read, pa.MapType):
        return _other_time(written.item_type, read.item_type, path)
    return (path.rstrip(".") or "the value") if _is_time(written) != _is_time(read) else None


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _as_numbers(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_as_numbers(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        name: _as_numbers(each) if name in {"type", "items", "values", "fields"} else each
        for name, each in schema.items()
    }
    logical = plain.get("logicalType")
    if logical in _MILLIS and plain.get("type") == "long":
        plain["logicalType"] = _FROM_MILLIS
    elif logical != "decimal":
        plain.pop("logicalType", None)
    return plain


class _Types:
    """The columns of one schema, of which there are not too many."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._above: list[str] = []
        self._fields = 0

    def arrow_type(self, schema: Any, depth: int) -> pa.DataType:
        if depth > DEPTH_MAX:
            raise AvroError(f"an Avro schema that is nested deeper than {DEPTH_MAX} levels has no columns")
        match schema:
            case str() if schema in _PRIMITIVES:
                return _PRIMITIVES[schema]
            case str() if schema in self._named:
                return self.arrow_type(self._named[schema], depth)
            case list():
                return self.arrow_type(only_type(schema), depth + 1)
            case {"type": str() as kind, "logicalType": str() as logical} if (kind, logical) in _LOGICAL:
                return _LOGICAL[kind, logical]
            case {"logicalType": "decimal", "precision": int() as precision}:
                return _decimal_type(precision, schema.get("scale", 0))
            case {"type": "record" | "error", "fields": list() as fields}:
                return self._record_type(schema.get("name", ""), fields, depth)
            case {"type": "enum"}:
                return pa.string()
            case {"type": "fixed"}:
                return pa.binary()
            case {"type": "array", "items": items}:
                return pa.list_(self.arrow_type(items, depth + 1))
            case {"type": "map", "values": values}:
                return pa.map_(pa.string(), self.arrow_type(values, depth + 1))
            case {"type": inner}:
                return self.arrow_type(inner, depth)
        raise AvroError(f"an Avro type {schema!r:.80} has no column")

    def _record_type(self, name: str, fields: Sequence[Any], depth: int) -> pa.DataType:
        if name in self._above:
            raise AvroError(f"the Avro type {name} holds itself, and so has no columns")
        self._fields += len(fields)
        if self._fields > FIELDS_MAX:
            raise AvroError(f"an Avro schema of more than {FIELDS_MAX} fields has no columns")
        self._above.append(name)
        found = [pa.field(each["name"], self.arrow_type(each["type"], depth + 1)) for each in fields]
        self._above.pop()
        return pa.struct(found)


def only_type(union: Sequence[Any]) -> Any:
    """Of a union with null. AvroError for one of several others."""
    others = [each for each in union if each != "null"]
    if len(others) == 1:
        return others[0]
    raise AvroError(
        f"a union of {len(others)} types has no column: only a union of null and one other type has"
        if others
        else "a union of null alone has no column"
    )


def _decimal_type(precision: int, scale: int) -> pa.DataType:
    if not 0 < precision <= DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
        raise AvroError(f"a decimal of {precision} digits, {scale} of them behind the point, has no column")
    return pa.decimal128(precision, scale)
