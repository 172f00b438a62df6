"""Columns as Protobuf values: whether a message takes them, and the encoding of rows by it.

Each column is a field of its name. Types fit where no value is changed; what only some values fit into, such as bigint into
uint32 and text into an enum, is looked at row by row. A column that is null leaves its field unset, where that can be told from a
value: of a field without presence, a list or a map it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from tidelog.spark.formats.protobuf_columns import TIMESTAMP, ProtobufError, is_map, message_descriptor

_INTEGERS = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)
_MICROS = 1_000_000

_Set = Callable[[Any, Any], None]
"""Puts a value, which is not null, into its message."""
_Convert = Callable[[Any], Any]


class ProtobufRows:
    """Rows of certain columns as values of one message. ProtobufError, one sentence for all, where it does not take them."""

    def __init__(self, descriptors: bytes, name: str, columns: pa.StructType) -> None:
        self.descriptor = message_descriptor(descriptors, name)
        self._class: type[Message] = GetMessageClass(self.descriptor)
        self._problems: list[str] = []
        self._numbers, self._fill = self._message(self.descriptor, columns, "")
        if self._problems:
            raise ProtobufError("; ".join(self._problems))

    def encode(self, rows: pa.StructArray) -> list[bytes | None]:
        """A value for each row, None for a row that is null. ProtobufError for one that the message does not take."""
        # Times as numbers, a column at a time.
        numbers: pa.Array[Any] = rows.cast(self._numbers)
        return [None if each is None else self._encoded(each) for each in numbers.to_pylist()]

    def _encoded(self, row: Any) -> bytes:
        message = self._class()
        try:
            self._fill(message, row)
            found: bytes = message.SerializeToString()
        except ProtobufError:
            raise
        except (EncodeError, TypeError, ValueError) as error:
            raise ProtobufError(f"a row is no {self.descriptor.full_name}: {error}") from None
        return found

    def _message(self, message: Descriptor, columns: pa.StructType, path: str) -> tuple[pa.DataType, _Set]:
        """The type that a struct is cast to, and how its values get into a message."""
        for field in message.fields:
            if field.is_required and columns.get_field_index(field.name) < 0:
                self._problems.append(f"{message.full_name} requires {path}{field.name}, and there is no such column")
        kinds: list[pa.Field[Any]] = []
        fills: list[tuple[str, _Set, bool]] = []
        alone: dict[str, str] = {}
        for column in columns:
            field = message.fields_by_name.get(column.name)
            if field is None:
                self._problems.append(f"the column {path}{column.name} is no field of {message.full_name}")
                continue
            kind, fill = self._field(field, column.type, f"{path}{column.name}")
            kinds.append(pa.field(column.name, kind))
            fills.append((column.name, fill, field.has_presence and not field.is_required))
            if field.containing_oneof is not None:
                alone[column.name] = field.containing_oneof.name

        def fill_message(into: Any, row: Any) -> None:
            taken: dict[str, str] = {}
            for name, fill, may_be_unset in fills:
                value = row[name]
                if value is None:
                    if not may_be_unset:
                        raise ProtobufError(
                            f"the column {path}{name} is null in a row, and {message.full_name} has no null there"
                        )
                    continue
                other = taken.setdefault(alone[name], name) if name in alone else name
                if other != name:
                    raise ProtobufError(f"a row has {path}{other} and {path}{name}, and {message.full_name} takes one")
                fill(into, value)

        return pa.struct(kinds), fill_message

    def _field(self, field: FieldDescriptor, column: pa.DataType, path: str) -> tuple[pa.DataType, _Set]:
        name = field.name
        if is_map(field):
            return self._map(field, column, path)
        if field.is_repeated:
            if not pa.types.is_list(column):
                return self._refused(field, column, path)
            if field.message_type is not None and field.message_type.full_name != TIMESTAMP:
                kind, fill = self._inner(field, column.value_type, path)

                def add_messages(message: Any, values: Any) -> None:
                    into = getattr(message, name)
                    for each in values:
                        fill(into.add(), _present(each, path))

                return pa.list_(kind), add_messages
            kind, convert = self._single(field, column.value_type, path)
            return pa.list_(kind), lambda message, values: getattr(message, name).extend(
                [convert(_present(each, path)) for each in values]
            )
        if field.message_type is not None and field.message_type.full_name != TIMESTAMP:
            kind, fill = self._inner(field, column, path)

            def set_message(message: Any, value: Any) -> None:
                into = getattr(message, name)
                into.SetInParent()
                fill(into, value)

            return kind, set_message
        kind, convert = self._single(field, column, path)
        if field.message_type is not None:
            return kind, lambda message, value: getattr(message, name).CopyFrom(convert(value))
        return kind, lambda message, value: setattr(message, name, convert(value))

    def _map(self, field: FieldDescriptor, column: pa.DataType, path: str) -> tuple[pa.DataType, _Set]:
        if not pa.types.is_map(column):
            return self._refused(field, column, path)
        name = field.name
        key, value = (field.message_type.fields_by_name[each] for each in ("key", "value"))
        key_type, convert_key = self._single(key, column.key_type, f"{path}.key")
        if value.message_type is not None and value.message_type.full_name != TIMESTAMP:
            kind, fill = self._inner(value, column.item_type, f"{path}.value")

            def fill_map(message: Any, pairs: Any) -> None:
                into = getattr(message, name)
                for each, item in pairs:
                    fill(into[convert_key(each)], _present(item, path))

            return pa.map_(key_type, kind), fill_map
        kind, convert = self._single(value, column.item_type, f"{path}.value")

        def set_map(message: Any, pairs: Any) -> None:
            into = getattr(message, name)
            for each, item in pairs:
                if value.message_type is not None:
                    into[convert_key(each)].CopyFrom(convert(_present(item, path)))
                else:
                    into[convert_key(each)] = convert(_present(item, path))

        return pa.map_(key_type, kind), set_map

    def _inner(self, field: FieldDescriptor, column: pa.DataType, path: str) -> tuple[pa.DataType, _Set]:
        if isinstance(column, pa.StructType):
            return self._message(field.message_type, column, f"{path}.")
        return self._refused(field, column, path)

    def _single(self, field: FieldDescriptor, column: pa.DataType, path: str) -> tuple[pa.DataType, _Convert]:
        """The type that values are cast to, and what the library takes of them."""
        if field.message_type is not None:
            if field.message_type.full_name == TIMESTAMP and pa.types.is_timestamp(column) and column.tz is not None:
                made = GetMessageClass(field.message_type)
                return pa.int64(), lambda value: made(seconds=value // _MICROS, nanos=value % _MICROS * 1000)
        elif field.enum_type is not None and _fits(field, column):
            names = {each.name for each in field.enum_type.values}
            # A number without a name comes as text, and goes as the number that it was.
            return column, lambda value: value if value in names or not value.lstrip("-").isdecimal() else int(value)
        elif _fits(field, column):
            # Numbers without a fraction, which the library knows as int alone.
            return column, int if pa.types.is_decimal(column) else _same
        self._refused(field, column, path)
        return column, _same

    def _refused(self, field: FieldDescriptor, column: pa.DataType, path: str) -> tuple[pa.DataType, _Set]:
        self._problems.append(f"the column {path} is of type {column}, and the message has {_shown(field)} there")
        return column, lambda *_: None


def _fits(field: FieldDescriptor, column: pa.DataType) -> bool:
    """Whether a value of a column, which is no time, is one of a field; of some types that shows by the value."""
    kinds: tuple[int, ...] = ()
    if pa.types.is_boolean(column):
        kinds = (FieldDescriptor.CPPTYPE_BOOL,)
    elif pa.types.is_signed_integer(column):
        kinds = _INTEGERS if column.bit_width == 64 else (*_INTEGERS, FieldDescriptor.CPPTYPE_DOUBLE)
    elif pa.types.is_decimal(column) and column.scale == 0:
        kinds = _INTEGERS
    elif pa.types.is_floating(column):
        narrow = () if column.bit_width == 64 else (FieldDescriptor.CPPTYPE_FLOAT,)
        kinds = (FieldDescriptor.CPPTYPE_DOUBLE, *narrow)
    elif pa.types.is_string(column) or pa.types.is_large_string(column):
        is_bytes = field.type == FieldDescriptor.TYPE_BYTES
        kinds = () if is_bytes else (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_ENUM)
    elif pa.types.is_binary(column) or pa.types.is_large_binary(column):
        return bool(field.type == FieldDescriptor.TYPE_BYTES)
    return field.cpp_type in kinds


def _shown(field: FieldDescriptor) -> str:
    if is_map(field):
        return "a map"
    if field.message_type is not None:
        inner = field.message_type.full_name
    elif field.enum_type is not None:
        inner = field.enum_type.full_name
    else:
        named = (name for name in dir(field) if name.startswith("TYPE_") and getattr(field, name) == field.type)
        inner = next(named).removeprefix("TYPE_").lower()
    return f"a list of {inner}" if field.is_repeated else inner


def _present(value: Any, path: str) -> Any:
    if value is None:
        raise ProtobufError(f"an element of the column {path} is null in a row, and Protobuf has no null there")
    return value


def _same(value: Any) -> Any:
    return value
