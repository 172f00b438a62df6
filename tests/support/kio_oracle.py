"""kio, a codec that others wrote: our messages to and from its classes.

kio has a class for each version, whose fields are those of the version in the order of the schema. Fields are matched by
position, since kio drops units from names; times become `datetime` and `timedelta`, and a UUID of zeros None.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import re
import uuid
from typing import Any, TypeVar

from kio.index import load_entity_module
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import UUID, ArrayOf, Field, Message, Request, Response, Struct, StructOf, WireType, fields_of

_M = TypeVar("_M", bound=Message)
_S = TypeVar("_S", bound=Struct)

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


def kio_class(message: type[Message], version: int) -> Any:
    """kio's class for a version that it knows."""
    name, kind = _kio_name(message)
    return getattr(load_entity_module(name, version, kind), message.__name__)


def kio_versions(message: type[Message]) -> list[int]:
    """The versions of a message that kio knows as well."""
    name, kind = _kio_name(message)
    known = schema_name_map.get(name, {})
    return [version for version in message.versions.each() if kind in known.get(version, {})]


def _kio_name(message: type[Message]) -> tuple[str, Any]:
    name = message.__name__
    if issubclass(message, Request):
        name, kind = name.removesuffix("Request"), EntityType.request
    elif issubclass(message, Response):
        name, kind = name.removesuffix("Response"), EntityType.response
    else:
        kind = EntityType.header if name.endswith("Header") else EntityType.data
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(), kind


def kio_encode(message: Message, version: int, theirs: Any) -> bytes:
    """The bytes that kio makes of a message."""
    buffer = io.BytesIO()
    entity_writer(theirs)(buffer, to_kio(message, version, theirs))
    return buffer.getvalue()


def kio_decode(message: type[_M], version: int, theirs: Any, data: bytes) -> _M:
    """The message that kio sees in bytes."""
    decoded, read = entity_reader(theirs)(data, 0)
    if read != len(data):
        raise AssertionError(f"kio read {read} of {len(data)} bytes")
    return _from_kio(message, version, decoded)


def _pairs(struct: type[Struct], version: int, theirs: Any) -> list[tuple[Field, Any]]:
    ours = [each for each in fields_of(struct) if version in each.versions]
    return list(zip(ours, dataclasses.fields(theirs), strict=True))


def to_kio(struct: Struct, version: int, theirs: Any) -> Any:
    """An object of kio's class with the same values."""
    return theirs(
        **{
            their_field.name: _value_to_kio(getattr(struct, our_field.name), version, their_field)
            for our_field, their_field in _pairs(type(struct), version, theirs)
        }
    )


def _value_to_kio(value: Any, version: int, their_field: Any) -> Any:
    if isinstance(value, Struct):
        return to_kio(value, version, _entity_of(their_field.type))
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(_value_to_kio(item, version, their_field) for item in value)
    match their_field.metadata.get("kafka_type"):
        case "uuid":
            return uuid.UUID(bytes=value) if value != ZERO_UUID else None
        case "error_code":
            return KioErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return value * _MILLISECOND
        case "datetime_i64":
            return None if value == -1 else _EPOCH + value * _MILLISECOND
        case _:
            return value


def _entity_of(annotation: Any) -> Any:
    """The class of structs in an annotation such as `tuple[Entity, ...] | None`."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    return next(
        (found for inner in getattr(annotation, "__args__", ()) if (found := _entity_of(inner)) is not None), None
    )


def _from_kio(struct: type[_S], version: int, theirs: Any) -> _S:
    made = struct()
    for our_field, their_field in _pairs(struct, version, theirs):
        setattr(
            made, our_field.name, _value_from_kio(our_field, version, getattr(theirs, their_field.name), their_field)
        )
    return made


def _value_from_kio(our_field: Field, version: int, value: Any, their_field: Any) -> Any:
    if isinstance(our_field.wire_type, ArrayOf):
        element = our_field.wire_type.element
        return None if value is None else [_item_from_kio(element, version, item, their_field) for item in value]
    return _item_from_kio(our_field.wire_type, version, value, their_field)


def _item_from_kio(wire_type: WireType, version: int, value: Any, their_field: Any) -> Any:
    match value:
        case uuid.UUID():
            return value.bytes
        case dt.timedelta():
            return value // _MILLISECOND
        case dt.datetime():
            return (value - _EPOCH) // _MILLISECOND
        case KioErrorCode():
            return int(value)
        case None if wire_type is UUID:
            return ZERO_UUID
        case None if their_field.metadata.get("kafka_type") == "datetime_i64":
            return -1
        case _ if isinstance(wire_type, StructOf) and value is not None:
            return _from_kio(wire_type.struct, version, value)
        case _:
            return value
