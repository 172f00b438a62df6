"""Protobuf values as Arrow columns: the types of a message for Spark and Arrow, and the decoding of a column by it.

The message comes from a descriptor set, which `protoc --include_imports --descriptor_set_out` writes. Fields have the types of
Spark's own Protobuf reader: enums by name, `google.protobuf.Timestamp` as a timestamp, repeated fields as arrays, maps as maps;
unsigned 32-bit numbers as bigint, unsigned 64-bit ones as decimal(20,0). A field with presence that is not set is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

_SCALARS: dict[int, pa.DataType] = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
}
_WIRE_KINDS = {
    **dict.fromkeys(
        (
            FieldDescriptor.TYPE_INT32,
            FieldDescriptor.TYPE_INT64,
            FieldDescriptor.TYPE_UINT32,
            FieldDescriptor.TYPE_UINT64,
            FieldDescriptor.TYPE_BOOL,
            FieldDescriptor.TYPE_ENUM,
        ),
        "varint",
    ),
    **dict.fromkeys((FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64), "zigzag"),
    **dict.fromkeys((FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32), "fixed32"),
    **dict.fromkeys((FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64), "fixed64"),
    **dict.fromkeys((FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES), "bytes"),
}
TIMESTAMP = "google.protobuf.Timestamp"
_DEPTH_MAX = 32

_Read = Callable[[Any], Any]


class ProtobufError(ValueError):
    """A message without columns, or a value that is none of it."""


class ProtobufMessage:
    """One message of a descriptor set, named in full, as in `shop.Order`."""

    def __init__(self, descriptors: bytes, name: str) -> None:
        self.descriptor = message_descriptor(descriptors, name)
        self._class: type[Message] = GetMessageClass(self.descriptor)
        self.arrow_type, self._read = _struct(self.descriptor, 0)

    def new(self) -> Message:
        """One without fields."""
        return self._class()

    def decode(self, value: bytes, start: int) -> Any:
        """A value as a dictionary by the names of its fields. ProtobufError where it is none."""
        message = self._class()
        try:
            message.ParseFromString(value[start:])
        except DecodeError as error:
            raise ProtobufError(f"a value is no {self._class.DESCRIPTOR.full_name}: {error}") from None
        return self._read(message)


def message_descriptor(descriptors: bytes, name: str) -> Descriptor:
    """A message by its name in full. ProtobufError where a descriptor set does not have it."""
    try:
        return descriptor_pool(descriptors).FindMessageTypeByName(name)
    except KeyError:
        raise ProtobufError(f"the descriptor set has no message {name}") from None


def descriptor_pool(descriptors: bytes) -> DescriptorPool:
    pool = DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(descriptors).file:
            pool.Add(file)
    except (DecodeError, TypeError, ValueError) as error:
        raise ProtobufError(f"the descriptor set is wrong: {error}") from None
    return pool


def misread_fields(written: Descriptor, read: Descriptor, seen: frozenset[tuple[str, str]] = frozenset()) -> list[str]:
    """Fields of one number that are of another type on the wire, in the message that was written and the one that it is read by:
    names, as the latter has them."""
    pair = (written.full_name, read.full_name)
    if pair in seen:
        return []
    found = []
    for field in read.fields:
        other = written.fields_by_number.get(field.number)
        if other is None:
            continue
        if field.message_type is not None and other.message_type is not None:
            inner = misread_fields(other.message_type, field.message_type, seen | {pair})
            found += [f"{field.name}.{each}" for each in inner]
        elif _wire_kind(field) != _wire_kind(other):
            found.append(field.name)
    return found


def _wire_kind(field: FieldDescriptor) -> str:
    """Fields of one kind are read as each other, as Protobuf's own rules have it."""
    if field.message_type is not None:
        return "message"
    return _WIRE_KINDS.get(field.type, str(field.type))


def _struct(descriptor: Descriptor, depth: int) -> tuple[pa.DataType, _Read]:
    if depth > _DEPTH_MAX:
        raise ProtobufError(f"{descriptor.full_name} holds itself, or is nested deeper than {_DEPTH_MAX} levels")
    fields: list[pa.Field[Any]] = []
    reads: list[tuple[str, _Read]] = []
    for field in descriptor.fields:
        kind, read = _field(field, depth)
        fields.append(pa.field(field.name, kind))
        reads.append((field.name, read))

    def read_message(message: Any) -> dict[str, Any]:
        return {name: read(message) for name, read in reads}

    return pa.struct(fields), read_message


def _field(field: FieldDescriptor, depth: int) -> tuple[pa.DataType, _Read]:
    """The type of a field, and how its value is taken from its message."""
    name = field.name
    if is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        key_type, read_key = _single(key, depth)
        value_type, read_value = _single(value, depth)
        return pa.map_(key_type, value_type), lambda message: [
            (read_key(each), read_value(item)) for each, item in getattr(message, name).items()
        ]
    kind, read = _single(field, depth)
    if field.is_repeated:
        return pa.list_(kind), lambda message: [read(each) for each in getattr(message, name)]
    if field.has_presence:
        return kind, lambda message: read(getattr(message, name)) if message.HasField(name) else None
    return kind, lambda message: read(getattr(message, name))


def _single(field: FieldDescriptor, depth: int) -> tuple[pa.DataType, _Read]:
    if field.message_type is not None:
        if field.message_type.full_name == TIMESTAMP:
            return pa.timestamp("us", "UTC"), lambda value: value.seconds * 1_000_000 + value.nanos // 1000
        return _struct(field.message_type, depth + 1)
    if field.enum_type is not None:
        # Of several names of a number the first one counts, as it does in Protobuf's own JSON.
        names = {each.number: each.name for each in reversed(field.enum_type.values)}
        # A number that this schema has no name for is kept, as text.
        return pa.string(), lambda value: names.get(value, str(value))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return pa.binary(), _same
    return _SCALARS[field.cpp_type], _same


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _same(value: Any) -> Any:
    return value
