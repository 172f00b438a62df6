"""Messages in the JSON form that Apache Kafka's own converters read and write.

Field names in camel case, ids as url-safe base64, bytes as base64; the fields that the version has, tagged ones only where they
differ from their default.
"""

from __future__ import annotations

import base64
from typing import Any

from tidelog.model.ids import uuid_to_text
from tidelog.wire.schema import BYTES, RECORDS, UUID, ArrayOf, Struct, StructOf, WireType, fields_of

# Kafka's own spelling, where it has capitals of its own.
_WORDS = {"kraft": "kRaft"}


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return _WORDS.get(first, first) + "".join(word[:1].upper() + word[1:] for word in rest)


def to_json(struct: Struct, version: int) -> dict[str, Any]:
    """The fields of a struct as Kafka shows them in this version of its message."""
    shown: dict[str, Any] = {}
    for declared in fields_of(type(struct)):
        value = getattr(struct, declared.name)
        if version not in declared.versions or (declared.tag is not None and value == declared.default):
            continue
        shown[camel_case(declared.name)] = _value(declared.wire_type, value, version)
    return shown


def _value(wire_type: WireType, value: Any, version: int) -> Any:
    if value is None:
        return None
    match wire_type:
        case ArrayOf(element):
            return [_value(element, each, version) for each in value]
        case StructOf():
            return to_json(value, version)
    if wire_type is UUID:
        return uuid_to_text(value)
    if wire_type in {BYTES, RECORDS}:
        return base64.b64encode(value).decode("ascii")
    return value
