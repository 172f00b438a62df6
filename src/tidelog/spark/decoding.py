"""Columns of bytes decoded: plain functions of columns, for keys and values alike.

    from tidelog.spark.decoding import from_avro, from_json, from_protobuf

    orders.select(from_json("value", "id bigint, price double").alias("order")).select("order.*")
    orders.select(from_avro("value", AVRO_SCHEMA, framed=True, registry="http://127.0.0.1:8081"))
    orders.select(from_avro("value", subject="orders-value", registry="http://127.0.0.1:8081"))
    orders.select(from_protobuf("value", "shop.Order", descriptor_set))

With `framed` each value begins with a schema registry's frame. With a `subject` it does too, and the schema is the one that the
subject has when the function is called, or had in a `version`. With a `registry` the schema that a frame names is asked for: Avro
values are read by it and come out as the schema given here has them; JSON and Protobuf are read by the schema given here, where
the two fit. Without a registry values are taken to be written with the schema given here. `mode="FAILFAST"` stops at a value
that cannot be decoded; `"PERMISSIVE"` makes it null, for a pipeline that sends such records elsewhere. JSON is decoded by Spark
itself, Avro, Protobuf and frames of a registry in Python, a batch of the column at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import StructType

from tidelog.spark.formats.json_columns import JsonSchema, JsonSchemaError
from tidelog.spark.formats.known_schemas import SchemasById
from tidelog.spark.formats.registry_framing import FramingError, read_frame, read_protobuf_frame
from tidelog.spark.formats.schema_registry import (
    AVRO,
    JSON,
    PROTOBUF,
    RegistryAddress,
    RegistryError,
    Schema,
    UnknownSchemaError,
)
from tidelog.spark.formats.subject_schemas import check_kind, subject_schema

if TYPE_CHECKING:
    from tidelog.spark.formats.avro_columns import AvroSchema
    from tidelog.spark.formats.protobuf_columns import ProtobufMessage

_FRAME_BYTES = 5
_MESSAGES_MAX = 1000
_MODES = ("FAILFAST", "PERMISSIVE")


class DecodingError(ValueError):
    """A value that cannot be decoded, or a schema that has no columns; one sentence says why."""


def from_json(
    column: Column | str,
    schema: StructType | str | None = None,
    *,
    framed: bool = False,
    registry: str | RegistryAddress | None = None,
    subject: str | None = None,
    version: int | None = None,
    mode: str = "PERMISSIVE",
) -> Column:
    """A column of JSON text in bytes, by a schema of Spark's, or by the JSON Schema of a subject.

    >>> orders.select(from_json("value", "id bigint, price double").alias("order"))
    """
    _check_mode(mode)
    address = _address(registry)
    if subject is not None:
        schema = json_type(_of_subject(schema, registry, subject, version, JSON))
    elif schema is None:
        raise DecodingError("JSON has no columns without a schema, or the subject of a registry")
    value = F.col(column) if isinstance(column, str) else column
    if address is not None:
        columns = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
        assert isinstance(columns, StructType), "columns by name"
        value = written_for(value, columns, address, mode)
    elif framed:
        value = unframed(value, mode)
    return F.from_json(value.cast("string"), schema, {"mode": mode})


def unframed(value: Column, mode: str) -> Column:
    """What is behind a frame. Bytes that are not framed are null, or stop the query."""
    is_framed = (F.length(value) >= _FRAME_BYTES) & (F.substring(value, 1, 1) == F.lit(b"\0"))
    body = F.substring(value, _FRAME_BYTES + 1, 2**31 - 1)
    found = F.when(value.isNull() | is_framed, body)
    if mode == "PERMISSIVE":
        return found
    return found.otherwise(F.raise_error("a value is not framed for a schema registry").cast("binary"))


def written_for(value: Column, columns: StructType, address: RegistryAddress, mode: str) -> Column:
    """The JSON behind a frame whose schema is known to a registry, and of which these columns can be read. Other values are null,
    or stop the query."""
    kind = to_arrow_type(columns, timezone="UTC")
    assert isinstance(kind, pa.StructType), "a struct in either"
    return _decoded(value, pa.binary(), lambda: JsonByWriters(kind, address).body, mode)


class JsonByWriters:
    """Values in JSON that certain columns can be read of, by the schemas that their frames name."""

    def __init__(self, columns: pa.StructType, address: RegistryAddress) -> None:
        self._columns = columns
        self._schemas = SchemasById(address)
        self._known: dict[int, str] = {}

    def body(self, value: bytes) -> bytes:
        """What is behind the frame. DecodingError where columns would get something else than was written."""
        frame = read_frame(value)
        wrong = self._known.get(frame.schema_id)
        if wrong is None:
            wrong = self._known[frame.schema_id] = self._misread(frame.schema_id)
        if wrong:
            raise DecodingError(f"schema {frame.schema_id}: {wrong}")
        return value[frame.start :]

    def _misread(self, schema_id: int) -> str:
        schema = self._schemas.schema(schema_id)
        try:
            check_kind(schema, JSON, f"the id {schema_id}")
            return "; ".join(JsonSchema(schema.text, dict(schema.references)).misread(self._columns))
        except (JsonSchemaError, RegistryError) as error:
            return str(error)


def json_type(schema: Schema) -> StructType:
    """The columns of a JSON Schema. DecodingError where it has none."""
    try:
        kind = JsonSchema(schema.text, dict(schema.references)).arrow_type
    except JsonSchemaError as error:
        raise DecodingError(str(error)) from None
    found = from_arrow_type(kind)
    assert isinstance(found, StructType), "a struct in either"
    return found


def from_avro(
    column: Column | str,
    schema: str | None = None,
    *,
    framed: bool = False,
    registry: str | RegistryAddress | None = None,
    subject: str | None = None,
    version: int | None = None,
    mode: str = "FAILFAST",
) -> Column:
    """A column of Avro values, by a schema in JSON or the one of a subject. Needs fastavro.

    >>> orders.select(from_avro("value", open("order.avsc").read()).alias("order"))
    """
    from tidelog.spark.formats.avro_columns import AvroError, AvroSchema  # noqa: PLC0415 - fastavro is an extra

    _check_mode(mode)
    address = _address(registry)
    if subject is not None:
        text, named = _texts(_of_subject(schema, registry, subject, version, AVRO))
    elif schema is None:
        raise DecodingError("Avro has no columns without a schema, or the subject of a registry")
    else:
        text, named = schema, ()
    is_framed = framed or subject is not None
    if address is not None and not is_framed:
        raise DecodingError("a registry knows schemas by the ids of frames: it needs framed=True")
    try:
        kind = AvroSchema(text, named).arrow_type
    except AvroError as error:
        raise DecodingError(str(error)) from None

    def decoder() -> Callable[[bytes], Any]:
        reader = AvroSchema(text, named)
        if not is_framed:
            return lambda value: reader.decode(value, 0, reader)
        if address is None:
            return lambda value: reader.decode(value, read_frame(value).start, reader)
        return AvroByWriters(reader, address).decode

    return _decoded(column, kind, decoder, mode)


class AvroByWriters:
    """Values that come out as one schema has them, each written by the one that its frame names."""

    def __init__(self, reader: AvroSchema, address: RegistryAddress) -> None:
        self._reader = reader
        self._schemas = SchemasById(address)
        self._writers: dict[int, AvroSchema | ValueError] = {}

    def decode(self, value: bytes) -> Any:
        frame = read_frame(value)
        writer = self._writers.get(frame.schema_id)
        if writer is None:
            writer = self._writers[frame.schema_id] = self._writer(frame.schema_id)
        if isinstance(writer, ValueError):
            raise DecodingError(str(writer))
        return writer.decode(value, frame.start, self._reader)

    def _writer(self, schema_id: int) -> AvroSchema | ValueError:
        """A schema that nothing can be read by is kept as well: the next value would only find the same."""
        from tidelog.spark.formats.avro_columns import AvroError, AvroSchema  # noqa: PLC0415 - fastavro is an extra

        schema = self._schemas.schema(schema_id)
        try:
            check_kind(schema, AVRO, f"the id {schema_id}")
            writer = AvroSchema(*_texts(schema))
            writer.check_readable_by(self._reader)
        except (AvroError, RegistryError) as error:
            return ValueError(f"schema {schema_id}: {error}")
        return writer


def from_protobuf(
    column: Column | str,
    message: str,
    descriptor_set: bytes | None = None,
    *,
    framed: bool = False,
    registry: str | RegistryAddress | None = None,
    subject: str | None = None,
    version: int | None = None,
    mode: str = "FAILFAST",
) -> Column:
    """A column of Protobuf values, by a message of a descriptor set or of a subject. Needs protobuf.

    >>> orders.select(from_protobuf("value", "shop.Order", open("shop.desc", "rb").read()).alias("order"))

    Without a registry a frame's message indexes are passed over: the message is the one that is named.
    """
    from tidelog.spark.formats.protobuf_columns import ProtobufError, ProtobufMessage  # noqa: PLC0415 - protobuf is an extra
    from tidelog.spark.formats.protobuf_files import descriptor_set_of  # noqa: PLC0415

    _check_mode(mode)
    address = _address(registry)
    is_framed = framed or subject is not None
    if address is not None and not is_framed:
        raise DecodingError("a registry knows schemas by the ids of frames: it needs framed=True")
    try:
        if subject is not None:
            given = descriptor_set_of(_of_subject(descriptor_set, registry, subject, version, PROTOBUF))
        elif descriptor_set is None:
            raise DecodingError("Protobuf has no columns without a descriptor set, or the subject of a registry")
        else:
            given = descriptor_set
        kind = ProtobufMessage(given, message).arrow_type
    except ProtobufError as error:
        raise DecodingError(str(error)) from None

    def decoder() -> Callable[[bytes], Any]:
        known = ProtobufMessage(given, message)
        if address is not None:
            return ProtobufByWriters(known, address).decode
        return lambda value: known.decode(value, read_protobuf_frame(value)[0].start if framed else 0)

    return _decoded(column, kind, decoder, mode)


class ProtobufByWriters:
    """Values of a message, each with the schema that its frame names: by that it is known which message it is, and whether its
    fields are those of the message that it is read by."""

    def __init__(self, reader: ProtobufMessage, address: RegistryAddress) -> None:
        self._reader = reader
        self._schemas = SchemasById(address)
        self._known: dict[tuple[int, tuple[int, ...]], str] = {}

    def decode(self, value: bytes) -> Any:
        frame, indexes = read_protobuf_frame(value)
        key = (frame.schema_id, indexes)
        wrong = self._known.get(key)
        if wrong is None:
            # What comes with each value, and so may be anything, must not fill the memory.
            if len(self._known) >= _MESSAGES_MAX:
                self._known.clear()
            wrong = self._known[key] = self._misread(*key)
        if wrong:
            raise DecodingError(f"schema {frame.schema_id}: {wrong}")
        return self._reader.decode(value, frame.start)

    def _misread(self, schema_id: int, indexes: tuple[int, ...]) -> str:
        from tidelog.spark.formats.protobuf_columns import ProtobufError, message_descriptor, misread_fields  # noqa: PLC0415
        from tidelog.spark.formats.protobuf_files import descriptor_set_of, message_name  # noqa: PLC0415

        schema, wanted = self._schemas.schema(schema_id), self._reader.descriptor
        try:
            check_kind(schema, PROTOBUF, f"the id {schema_id}")
            files = descriptor_set_of(schema)
            name = message_name(files, indexes)
            if name != wanted.full_name:
                return f"the value is a {name}, and no {wanted.full_name}"
            fields = misread_fields(message_descriptor(files, name), wanted)
        except (ProtobufError, RegistryError) as error:
            return str(error)
        return f"{', '.join(fields)} of {name} has another type than it is read by" if fields else ""


def decode_column(values: pa.Array[Any], kind: pa.DataType, decode: Callable[[bytes], Any], mode: str) -> pa.Array[Any]:
    """The values of a column, null where there is none. DecodingError for one that cannot be decoded, unless that is null too.

    A registry that does not answer is an error in either mode: it is not the value that is wrong. An id that it does not know is
    the value's fault.
    """
    decoded: list[Any] = []
    for value in values.to_pylist():
        if value is None:
            decoded.append(None)
            continue
        try:
            decoded.append(decode(value))
        except (UnknownSchemaError, FramingError, ValueError) as error:
            if mode != "PERMISSIVE":
                raise DecodingError(str(error)) from None
            decoded.append(None)
    try:
        return pa.array(decoded, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return _one_by_one(decoded, kind, mode)


def _one_by_one(decoded: list[Any], kind: pa.DataType, mode: str) -> pa.Array[Any]:
    """For a column with a value that its type does not hold, such as a time far beyond those that Spark has."""
    arrays = []
    for each in decoded:
        try:
            arrays.append(pa.array([each], kind))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            if mode != "PERMISSIVE":
                raise DecodingError(f"a value does not fit into its column: {error}") from None
            arrays.append(pa.array([None], kind))
    return pa.concat_arrays(arrays)


def _decoded(
    column: Column | str, kind: pa.DataType, decoder: Callable[[], Callable[[bytes], Any]], mode: str
) -> Column:
    """A function of a column that makes its decoder once, in the worker."""
    made: list[Callable[[bytes], Any]] = []

    def decode(values: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # Spark looks at these annotations
        if not made:
            made.append(decoder())
        return decode_column(values, kind, made[0], mode)

    decode.__annotations__ = {"values": pa.Array, "return": pa.Array}
    function = arrow_udf(decode, from_arrow_type(kind))  # type: ignore[call-overload]  # its kind is in the annotations
    result: Column = function(column)
    return result


def _address(registry: str | RegistryAddress | None) -> RegistryAddress | None:
    return RegistryAddress(registry) if isinstance(registry, str) else registry


def _of_subject(
    given: object, registry: str | RegistryAddress | None, subject: str, version: int | None, kind: str
) -> Schema:
    """The schema of a subject, as it is now. RegistryError where it cannot be had."""
    address = _address(registry)
    if address is None:
        raise DecodingError(f"the subject {subject} is one of a registry: name it as registry=")
    if given is not None:
        raise DecodingError(f"the schema is that of the subject {subject}: leave the other one out")
    return subject_schema(address, subject, version, kind).schema


def _texts(schema: Schema) -> tuple[str, Sequence[str]]:
    return schema.text, [each.text for each in schema.references]


def _check_mode(mode: str) -> None:
    if mode not in _MODES:
        raise DecodingError(f"mode is {mode!r}; it can be {' or '.join(_MODES)}")
