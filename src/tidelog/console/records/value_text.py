"""Bytes of a record as people read them: JSON, Avro and Protobuf by a schema registry, text, hex.

    decoder = ValueDecoder("http://registry:8081")
    await decoder.shown(record.value, "auto", TEXT_MAX)       # {"format": "json", "text": "...", "bytes": 17, "truncated": false}

`auto` tries a registry's frame, where there is a registry, then JSON, then text; what is none of it is hex. A value that is not
of the format that was asked for comes as hex, with the problem beside it. Whatever comes out is text, never markup.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tidelog.spark.formats.known_schemas import SchemasById
    from tidelog.spark.formats.schema_registry import Schema

FORMATS = ("auto", "text", "json", "hex", "avro", "protobuf")

# Of a value in a list; the record by itself comes whole.
TEXT_MAX = 4_096
WHOLE_MAX = 16 * 1024 * 1024
# Whether something larger is JSON is not worth the time that it takes.
_JSON_MAX = 1024 * 1024
_READERS_MAX = 200

_BLANKS = frozenset(b" \t\r\n")
_JSON_STARTS = frozenset(b'{["-0123456789tfn')
# Control characters that text has: tab, line feed, carriage return.
_NOT_TEXT = frozenset(chr(code) for code in range(32) if code not in {9, 10, 13}) | {"\x7f"}

Shown = dict[str, Any]


class _ProblemError(Exception):
    """Why a value is not of a format."""


class ValueDecoder:
    def __init__(self, registry: str | None) -> None:
        self._registry = registry
        self._schemas: SchemasById | None = None
        # By schema id; for Protobuf also by message.
        self._readers: OrderedDict[tuple[int, tuple[int, ...]], Callable[[bytes], Any]] = OrderedDict()

    async def shown(self, data: bytes | None, form: str, text_max: int) -> Shown | None:
        """None for null."""
        if data is None:
            return None
        problem = None
        try:
            name, text = await self._read(data, form)
        except _ProblemError as error:
            name, text, problem = "hex", _hex(data, text_max), str(error)
        shown: Shown = {
            "format": name,
            "text": text[:text_max],
            "bytes": len(data),
            "truncated": len(text) > text_max or (name == "hex" and 2 * len(data) > text_max),
        }
        if problem is not None:
            shown["problem"] = problem
        return shown

    async def _read(self, data: bytes, form: str) -> tuple[str, str]:
        if form == "hex":
            return "hex", data.hex()
        if form in {"avro", "protobuf"}:
            return await self._by_registry(data, form)
        if form == "text":
            return "text", data.decode(errors="replace")
        if form == "json":
            if not is_json(data):
                raise _ProblemError("the value is no JSON")
            return "json", data.decode()
        return await self._auto(data)

    async def _auto(self, data: bytes) -> tuple[str, str]:
        if self._registry is not None and len(data) > 5 and data[0] == 0:
            try:
                return await self._by_registry(data, None)
            except _ProblemError:
                # Not a frame after all, or a schema that the registry does not have: the bytes are shown.
                pass
        # A number or a word by itself is text to everybody.
        if data[:1] in {b"{", b"["} and is_json(data):
            return "json", data.decode()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return "hex", data.hex()
        if _NOT_TEXT.isdisjoint(text):
            return "text", text
        return "hex", data.hex()

    # By a schema registry.

    async def _by_registry(self, data: bytes, expected: str | None) -> tuple[str, str]:
        if self._registry is None:
            raise _ProblemError("there is no schema registry: start the console with --registry URL")
        try:
            # ruff: noqa: PLC0415 - the extras avro and protobuf
            from tidelog.spark.formats.registry_framing import FramingError, read_frame
            from tidelog.spark.formats.schema_registry import AVRO, JSON, PROTOBUF
        except ImportError as error:
            raise _missing(error) from error
        try:
            frame = read_frame(data)
        except FramingError as error:
            raise _ProblemError(str(error)) from None
        schema = await self._schema(frame.schema_id)
        if schema.kind == JSON:
            body = data[frame.start :]
            if not is_json(body):
                raise _ProblemError("the frame names a JSON schema, and no JSON follows")
            return "json", body.decode()
        kinds = {AVRO: "avro", PROTOBUF: "protobuf"}
        name = kinds.get(schema.kind)
        if name is None or expected not in {None, name}:
            raise _ProblemError(f"schema {frame.schema_id} is {schema.kind}")
        value = self._decoded(data, frame.schema_id, schema, name)
        return name, json.dumps(value, default=_as_text, ensure_ascii=False)

    async def _schema(self, schema_id: int) -> Schema:
        from tidelog.spark.formats.known_schemas import SchemasById
        from tidelog.spark.formats.schema_registry import RegistryAddress, RegistryError

        try:
            if self._schemas is None:
                self._schemas = SchemasById(RegistryAddress(self._registry or ""))
            # It waits for the registry, without this loop.
            return await asyncio.to_thread(self._schemas.schema, schema_id)
        except RegistryError as error:
            raise _ProblemError(str(error)) from None

    def _decoded(self, data: bytes, schema_id: int, schema: Schema, name: str) -> Any:
        indexes: tuple[int, ...] = ()
        start = 5
        try:
            if name == "protobuf":
                from tidelog.spark.formats.registry_framing import read_protobuf_frame

                framed, indexes = read_protobuf_frame(data)
                start = framed.start
            key = (schema_id, indexes)
            reader = self._readers.get(key)
            if reader is None:
                reader = _avro_reader(schema) if name == "avro" else _protobuf_reader(schema, indexes)
                self._readers[key] = reader
                while len(self._readers) > _READERS_MAX:
                    self._readers.popitem(last=False)
            return reader(data[start:])
        except ImportError as error:
            raise _missing(error) from error
        except Exception as error:  # noqa: BLE001 - decoders raise whatever they stumble over
            raise _ProblemError(f"the value is not of schema {schema_id}: {str(error)[:200]}") from None


def is_json(data: bytes) -> bool:
    if not data or len(data) > _JSON_MAX:
        return False
    first = next((byte for byte in data[:64] if byte not in _BLANKS), None)
    if first not in _JSON_STARTS:
        return False
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _hex(data: bytes, text_max: int) -> str:
    return data[: (text_max + 1) // 2 + 1].hex()


def _missing(error: ImportError) -> _ProblemError:
    return _ProblemError(f"{error.name or 'a decoder'} is not installed: `pip install 'tidelog[avro,protobuf]'`")


def _avro_reader(schema: Schema) -> Callable[[bytes], Any]:
    import io

    import fastavro

    named: dict[str, Any] = {}
    for each in schema.references:
        fastavro.parse_schema(json.loads(each.text), named_schemas=named)
    parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    return lambda data: fastavro.schemaless_reader(io.BytesIO(data), parsed, None)


def _protobuf_reader(schema: Schema, indexes: tuple[int, ...]) -> Callable[[bytes], Any]:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message_factory import GetMessageClass

    from tidelog.spark.formats.protobuf_columns import message_descriptor
    from tidelog.spark.formats.protobuf_files import descriptor_set_of, message_name

    descriptors = descriptor_set_of(schema)
    message_class = GetMessageClass(message_descriptor(descriptors, message_name(descriptors, indexes)))

    def read(data: bytes) -> Any:
        message = message_class()
        message.ParseFromString(data)
        return MessageToDict(message, preserving_proto_field_name=True)

    return read


def _as_text(value: object) -> str:
    """What JSON has no type for: times, decimals, uuids, bytes."""
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return str(value)
