"""What a value of an event is, as the record itself says: Kafka Connect's schemas, read from JSON or from Avro. Pure.

    Kind("int64", name="io.debezium.time.MicroTimestamp")
    Kind("struct", fields={"id": Kind("int32"), ...}, name="shop.public.orders.Envelope")

Connect's converters write its name for a type into Avro as `connect.name`; where that is missing, Avro's own logical types tell
as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
# A schema that is nested deeper is one that holds itself, or an attack.
_DEPTH_MAX = 32

_AVRO_BASES = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
}
_AVRO_NAMES = {
    "decimal": DECIMAL,
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
}


class KindError(ValueError):
    """A schema that is none; one sentence says why."""


@dataclass(frozen=True, slots=True)
class Kind:
    base: str
    """Connect's name of what is written: int8 to int64, float, double, boolean, string, bytes, array, map, struct."""
    name: str = ""
    """What it means, as Connect or Debezium calls it; empty where it means just what it is."""
    scale: int | None = None
    """Of a decimal."""
    fields: Mapping[str, Kind] = field(default_factory=dict)
    items: Kind | None = None
    """Of an array its elements, of a map its values."""


def kind_of_connect(schema: Any, depth: int = 0) -> Kind:
    """From the `schema` that Connect's JSON converter writes beside each payload. KindError for what is none."""
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        raise KindError("the schema of a record is none of Kafka Connect's")
    if depth > _DEPTH_MAX:
        raise KindError(f"the schema of a record is nested deeper than {_DEPTH_MAX} levels")
    base, name = schema["type"], str(schema.get("name") or "")
    match base:
        case "struct":
            listed = schema.get("fields") or []
            if not all(isinstance(each, dict) and isinstance(each.get("field"), str) for each in listed):
                raise KindError("the schema of a record has a field without a name")
            fields = {each["field"]: kind_of_connect(each, depth + 1) for each in listed}
            return Kind(base, name, fields=fields)
        case "array":
            return Kind(base, name, items=kind_of_connect(schema.get("items"), depth + 1))
        case "map":
            return Kind(base, name, items=kind_of_connect(schema.get("values"), depth + 1))
    return Kind(base, name, _scale(name, schema.get("parameters")))


def kind_of_avro(schema: Any, known: dict[str, Kind] | None = None, space: str = "", depth: int = 0) -> Kind:
    """From an Avro schema. KindError for one that has no columns: a union of several types, a schema that holds itself."""
    known = {} if known is None else known
    if depth > _DEPTH_MAX:
        raise KindError(f"an Avro schema is nested deeper than {_DEPTH_MAX} levels")
    match schema:
        case str() if schema in _AVRO_BASES:
            return Kind(_AVRO_BASES[schema])
        case str():
            found = known.get(schema) or known.get(f"{space}.{schema}")
            if found is None:
                raise KindError(f"an Avro schema names {schema!r:.80}, which it does not define before")
            return found
        case list():
            others = [each for each in schema if each != "null"]
            if len(others) != 1:
                raise KindError("only a union of null and one other type has a column")
            return kind_of_avro(others[0], known, space, depth)
        case {"type": str() as base}:
            return _avro_type(schema, base, known, space, depth)
        case {"type": inner}:
            return kind_of_avro(inner, known, space, depth)
    raise KindError(f"an Avro schema has {schema!r:.80}, which is no type")


def _avro_type(schema: dict[str, Any], base: str, known: dict[str, Kind], space: str, depth: int) -> Kind:
    name = str(schema.get("connect.name") or _AVRO_NAMES.get(str(schema.get("logicalType")), ""))
    own = str(schema.get("namespace", space))
    match base:
        case "record":
            fields = {each["name"]: kind_of_avro(each["type"], known, own, depth + 1) for each in schema["fields"]}
            made = Kind("struct", name, fields=fields)
        case "enum":
            made = Kind("string", name)
        case "fixed":
            made = Kind("bytes", name, _scale(name, schema))
        case "array":
            return Kind("array", name, items=kind_of_avro(schema["items"], known, own, depth + 1))
        case "map":
            return Kind("map", name, items=kind_of_avro(schema["values"], known, own, depth + 1))
        case _ if base in _AVRO_BASES:
            return Kind(_AVRO_BASES[base], name, _scale(name, schema.get("connect.parameters") or schema))
        case _:
            return kind_of_avro(base, known, space, depth)
    full = schema["name"] if "." in schema["name"] or not own else f"{own}.{schema['name']}"
    known[full] = made
    return made


def _scale(name: str, parameters: Any) -> int | None:
    if name != DECIMAL:
        return None
    try:
        return int(parameters.get("scale", 0))
    except (AttributeError, TypeError, ValueError):
        raise KindError("a decimal has no whole number for its scale") from None


def without_logical_types(schema: Any) -> Any:
    """The same Avro schema for a reader that is to leave values as they are written."""
    if isinstance(schema, list):
        return [without_logical_types(each) for each in schema]
    if isinstance(schema, dict):
        return {
            name: without_logical_types(each) if name in {"type", "items", "values", "fields"} else each
            for name, each in schema.items()
            if name != "logicalType"
        }
    return schema
