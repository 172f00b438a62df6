"""Bytes of keys and values as payloads, each with what the record says of its types: JSON with or without schemas, Avro. Pure.

JsonMessages().read(value)                     Message(kind or None, payload)
AvroMessages(schema_of=registry_lookup)        in a registry's frame: by the schema that a record names, and those it refers to
AvroMessages(given=schema_in_json)             without a frame: by one schema for all
"""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from tidelog.spark.formats.registry_framing import FramingError, read_frame
from tidelog.spark.formats.schema_registry import AVRO, Schema, UnknownSchemaError
from tidelog.spark.pipelines.debezium.value_kinds import (
    Kind,
    KindError,
    kind_of_avro,
    kind_of_connect,
    without_logical_types,
)

# A table's schema changes now and then; several tables may share a topic.
_SCHEMAS_MAX = 256
_SCHEMA, _PAYLOAD = "schema", "payload"

_Made = TypeVar("_Made")


class MessageError(ValueError):
    """Bytes that are no message of this encoding; one sentence says why."""


class Message(NamedTuple):
    kind: Kind | None
    """None where the record does not say."""
    payload: Any


class Messages(Protocol):
    def read(self, value: bytes) -> Message:
        """MessageError for what is none."""
        ...


class _Known:
    """The last schemas that were seen, by their text or number."""

    def __init__(self) -> None:
        self._made: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Any, make: Callable[[], _Made]) -> _Made:
        if key in self._made:
            self._made.move_to_end(key)
        else:
            self._made[key] = make()
            if len(self._made) > _SCHEMAS_MAX:
                self._made.popitem(last=False)
        found: _Made = self._made[key]
        return found


class JsonMessages:
    """Each message may have a schema beside its payload, or be the payload."""

    def __init__(self) -> None:
        self._fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._known = _Known()

    def read(self, value: bytes) -> Message:
        try:
            parts = self._fields.decode(value)
            if len(parts) != 2 or _SCHEMA not in parts or _PAYLOAD not in parts:
                return Message(None, msgspec.json.decode(value))
            payload = msgspec.json.decode(parts[_PAYLOAD])
            text = bytes(parts[_SCHEMA])
            kind = self._known.get(text, lambda: _connect_kind(text))
        except KindError as error:
            raise MessageError(str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MessageError(f"the value is no JSON object: {error}") from None
        return Message(kind, payload)


def _connect_kind(text: bytes) -> Kind | None:
    schema = msgspec.json.decode(text)
    return None if schema is None else kind_of_connect(schema)


class _AvroWriter(NamedTuple):
    kind: Kind
    parsed: Any


class AvroMessages:
    def __init__(self, *, schema_of: Callable[[int], Schema] | None = None, given: str | None = None) -> None:
        """`schema_of` raises UnknownSchemaError for an id that a record makes up."""
        self._schema_of = schema_of
        self._given = None if given is None else _avro_writer(given)
        self._known = _Known()

    def read(self, value: bytes) -> Message:
        import fastavro  # noqa: PLC0415 - an extra

        writer, start = self._given, 0
        if self._schema_of is not None:
            try:
                frame = read_frame(value)
            except FramingError as error:
                raise MessageError(str(error)) from None
            number = frame.schema_id
            found = self._known.get(number, lambda: self._writer(number))
            if isinstance(found, MessageError):
                raise MessageError(f"schema {number}: {found}")
            writer, start = found, frame.start
        assert writer is not None, "one of the two is given"
        stream = io.BytesIO(value)
        stream.seek(start)
        try:
            payload = fastavro.schemaless_reader(stream, writer.parsed, None)
        except Exception as error:  # noqa: BLE001 - the decoder raises whatever it stumbles over
            raise MessageError(f"the value is not of its Avro schema: {str(error) or type(error).__name__}") from None
        if stream.tell() != len(value):
            raise MessageError(f"{len(value) - stream.tell()} bytes follow the value of its Avro schema")
        return Message(writer.kind, payload)

    def _writer(self, number: int) -> _AvroWriter | MessageError:
        """A schema that nothing can be read by is kept as well: the next record would only find the same."""
        assert self._schema_of is not None
        try:
            schema = self._schema_of(number)
        except UnknownSchemaError as error:
            raise MessageError(str(error)) from None
        if schema.kind != AVRO:
            return MessageError(f"it is of type {schema.kind}, and not of {AVRO}")
        try:
            return _avro_writer(schema.text, [each.text for each in schema.references])
        except MessageError as error:
            return error


def _avro_writer(text: str, references: Sequence[str] = ()) -> _AvroWriter:
    """`references` are schemas that the text refers to, each behind those that it refers to itself."""
    import fastavro  # noqa: PLC0415 - an extra

    try:
        kinds: dict[str, Kind] = {}
        named: dict[str, Any] = {}
        for each in references:
            schema = json.loads(each)
            kind_of_avro(schema, kinds)
            fastavro.parse_schema(without_logical_types(schema), named_schemas=named)
        schema = json.loads(text)
        parsed = fastavro.parse_schema(without_logical_types(schema), named_schemas=named)
        return _AvroWriter(kind_of_avro(schema, kinds), parsed)
    except KindError as error:
        raise MessageError(str(error)) from None
    except RecursionError:
        raise MessageError("an Avro schema is nested too deep") from None
    except Exception as error:  # noqa: BLE001 - whatever its parser finds wrong
        raise MessageError(f"an Avro schema is wrong: {str(error) or type(error).__name__}") from None
