"""How the command line shows what is in a file: bytes, times and decoded messages, for a person and as JSON.

    in the file            as JSON                       for a person
    null                   null                          null
    bytes that are UTF-8   "text"                        "text", with what a terminal might act on escaped
    other bytes            {"base64": "AP8="}            0x00ff
    a time                 1753776000123                 2025-07-29T08:00:00.123Z
    a UUID                 "F6Q5sCdKR3mLmpUTYTnHrQ"      the same, as Kafka's tools name it
    a message              {"field": value, ...}         the same: fields of its version, in snake_case

Text is text on both sides: a key that happens to look like a number stays a string.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, cast

from tidelog.model.ids import uuid_to_text
from tidelog.wire.schema import UUID, ArrayOf, Struct, StructOf, WireType, fields_of

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def bytes_as_json(data: bytes | memoryview | None) -> Json:
    if data is None:
        return None
    content = bytes(data)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode("ascii")}


def bytes_as_text(data: bytes | memoryview | None) -> str:
    if data is None:
        return "null"
    content = bytes(data)
    try:
        return quoted(content.decode("utf-8"))
    except UnicodeDecodeError:
        return f"0x{content.hex()}"


def quoted(text: str) -> str:
    """In quotes on one line, and harmless to a terminal."""
    if text.isprintable():
        return json.dumps(text, ensure_ascii=False)
    return json.dumps(text).replace("\x7f", "\\u007f")


def printable(text: str) -> str:
    """A name as it is, unless it holds what a terminal might act on."""
    return text if text.isprintable() else quoted(text)


def time_as_text(timestamp_ms: int) -> str:
    """In UTC. `no time` for -1; the number where no calendar goes that far."""
    if timestamp_ms == -1:
        return "no time"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"time {timestamp_ms}"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def message_as_json(message: Struct, version: int) -> dict[str, Json]:
    """The fields that the version has, by their names."""
    return {
        field.name: _value_as_json(getattr(message, field.name), field.wire_type, version)
        for field in fields_of(type(message))
        if version in field.versions
    }


def json_line(fields: Mapping[str, Json]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _value_as_json(value: object, wire_type: WireType, version: int) -> Json:
    if value is None:
        return None
    match wire_type:
        case ArrayOf(element):
            return [_value_as_json(item, element, version) for item in cast("list[object]", value)]
        case StructOf():
            return message_as_json(cast("Struct", value), version)
    if wire_type is UUID:
        return uuid_to_text(cast("bytes", value))
    if isinstance(value, bytes | memoryview):
        return bytes_as_json(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return cast("Json", value)
