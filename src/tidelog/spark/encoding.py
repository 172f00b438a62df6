"""Rows encoded as values for a schema registry's readers: the counterpart of `decoding`.

    from tidelog.spark.encoding import to_avro, to_json, to_protobuf

    rows = orders.select("id", "price")
    rows.select(to_avro(F.struct("*"), rows.schema, subject="orders-value", registry="http://127.0.0.1:8081"))

A value is a frame with the id of its schema, and the row as that schema has it. The schema is the latest one of the subject, or
that of a `version`; or with `register=True` one that is given, or of Avro and JSON made of the columns, and is registered by the
first task that writes, unless the subject has it. Whether the schema takes the columns is checked when the function is called,
and so is, by the registry's own rules, whether the subject would take a schema that it does not have yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from tidelog.spark.formats.derived_schemas import UnnamedTypeError, avro_schema_of, json_schema_of, record_name
from tidelog.spark.formats.json_columns import JsonSchema, JsonSchemaError
from tidelog.spark.formats.registry_framing import frame, protobuf_frame
from tidelog.spark.formats.schema_registry import AVRO, JSON, PROTOBUF, RegistryAddress, Schema
from tidelog.spark.formats.subject_schemas import WritingSchema, subject_schema, writing_schema

if TYPE_CHECKING:
    from tidelog.spark.formats.avro_rows import AvroRows

# Spark's own format leaves microseconds out.
_JSON_OPTIONS = {
    "ignoreNullFields": "true",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

_Frame = Callable[[int], bytes]
_Encode = Callable[[Any], "list[bytes | None]"]


class EncodingError(ValueError):
    """Rows that a schema does not take, or a schema that cannot be had; one sentence says why."""


def to_avro(
    row: Column,
    columns: StructType,
    *,
    subject: str,
    registry: str | RegistryAddress,
    schema: str | None = None,
    version: int | None = None,
    register: bool = False,
) -> Column:
    """A struct as an Avro value; `columns` are those of the struct. Needs fastavro."""
    from tidelog.spark.formats.avro_columns import AvroError, AvroSchema  # noqa: PLC0415 - fastavro is an extra
    from tidelog.spark.formats.avro_rows import AvroRows  # noqa: PLC0415

    kind = _arrow_type(columns)

    def derived() -> str:
        return avro_schema_of(kind, record_name(subject))

    writing = _writing(AVRO, subject, registry, schema, derived, version, register=register)
    named = [each.text for each in writing.schema.references]

    def rows() -> AvroRows:
        return AvroRows(AvroSchema(writing.schema.text, named), kind)

    try:
        rows()
    except AvroError as error:
        raise EncodingError(f"{_of(subject)}: {error}") from None
    return _encoded(row, writing, lambda: rows().encode, frame)


def to_json(
    row: Column,
    columns: StructType,
    *,
    subject: str,
    registry: str | RegistryAddress,
    schema: str | None = None,
    version: int | None = None,
    register: bool = False,
) -> Column:
    """A struct as JSON of a JSON Schema. Columns that are null are left out; one that the schema requires must not be."""
    kind = _arrow_type(columns)

    def derived() -> str:
        return json_schema_of(kind, record_name(subject))

    writing = _writing(JSON, subject, registry, schema, derived, version, register=register)
    try:
        parsed = JsonSchema(writing.schema.text, dict(writing.schema.references))
        unfitting = parsed.unfitting(kind)
        required = parsed.required(kind)
    except JsonSchemaError as error:
        raise EncodingError(f"{_of(subject)}: {error}") from None
    if unfitting:
        raise EncodingError(f"{_of(subject)}: {'; '.join(unfitting)}")
    text = F.to_json(row, _JSON_OPTIONS)
    for path in required:
        # A struct that is null itself is another column's matter.
        above, value = row, row
        for name in path:
            above, value = value, value.getField(name)
        said = F.raise_error(f"the column {'.'.join(path)} is null in a row, and the JSON schema requires it")
        text = F.when(above.isNotNull() & value.isNull(), said.cast("string")).otherwise(text)
    body = text.cast("binary")
    if writing.schema_id is not None:
        return F.concat(F.lit(frame(writing.schema_id)), body)
    return _framed(body, writing)


def to_protobuf(
    row: Column,
    columns: StructType,
    *,
    message: str,
    subject: str,
    registry: str | RegistryAddress,
    descriptor_set: bytes | None = None,
    version: int | None = None,
    register: bool = False,
) -> Column:
    """A struct as a Protobuf value, by a message of the subject's schema, or of a descriptor set. No schema is made of columns:
    the numbers of fields are for people to choose. Needs protobuf."""
    from tidelog.spark.formats.protobuf_columns import ProtobufError  # noqa: PLC0415 - protobuf is an extra
    from tidelog.spark.formats.protobuf_files import descriptor_set_of, message_indexes, schema_of  # noqa: PLC0415
    from tidelog.spark.formats.protobuf_rows import ProtobufRows  # noqa: PLC0415

    if register and descriptor_set is None:
        raise EncodingError("Protobuf registers the file of its message: give descriptor_set=")
    kind = _arrow_type(columns)
    try:
        given = None if descriptor_set is None else schema_of(descriptor_set, message).text
        writing = _writing(PROTOBUF, subject, registry, given, lambda: "", version, register=register)
        files = descriptor_set_of(writing.schema) if descriptor_set is None else descriptor_set
        indexes = message_indexes(ProtobufRows(files, message, kind).descriptor)
    except ProtobufError as error:
        raise EncodingError(f"{_of(subject)}: {error}") from None
    return _encoded(
        row, writing, lambda: ProtobufRows(files, message, kind).encode, lambda number: protobuf_frame(number, indexes)
    )


def _writing(
    kind: str,
    subject: str,
    registry: str | RegistryAddress,
    given: str | None,
    derived: Callable[[], str],
    version: int | None,
    *,
    register: bool,
) -> WritingSchema:
    """What values are written by. RegistryError where a registry does not give it, EncodingError where it cannot be made."""
    address = RegistryAddress(registry) if isinstance(registry, str) else registry
    if given is None and not register:
        found = subject_schema(address, subject, version, kind)
        return WritingSchema(found.schema, address, subject, found.schema_id)
    if version is not None:
        raise EncodingError("version= is of a schema that the subject has: leave it out, or schema= and register=")
    try:
        text = derived() if given is None else given
    except UnnamedTypeError as error:
        raise EncodingError(str(error)) from None
    return writing_schema(address, subject, Schema(kind, text), register=register)


def _encoded(row: Column, writing: WritingSchema, encoder: Callable[[], _Encode], framed: _Frame) -> Column:
    """A function of a struct that makes its encoder once, in the worker."""
    made: list[tuple[bytes, _Encode]] = []

    def encode(rows: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # Spark looks at these annotations
        if not made:
            made.append((framed(writing.registered_id()), encoder()))
        before, encoded = made[0]
        return pa.array([None if each is None else before + each for each in encoded(rows)], pa.binary())

    encode.__annotations__ = {"rows": pa.Array, "return": pa.Array}
    function = arrow_udf(encode, "binary")  # type: ignore[call-overload]  # its kind is in the annotations
    result: Column = function(row)
    return result


def _framed(body: Column, writing: WritingSchema) -> Column:
    """Behind a frame whose id is not known yet."""

    def put_behind(bodies: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # as above
        before = frame(writing.registered_id())
        return pa.array([None if each is None else before + each for each in bodies.to_pylist()], pa.binary())

    put_behind.__annotations__ = {"bodies": pa.Array, "return": pa.Array}
    function = arrow_udf(put_behind, "binary")  # type: ignore[call-overload]  # as above
    result: Column = function(body)
    return result


def _arrow_type(columns: StructType) -> pa.StructType:
    """As Spark hands rows over. Instants have a zone, whichever it is then."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - for what has no Arrow type alone

    try:
        found: Any = to_arrow_type(columns, timezone="UTC")
    except PySparkException as error:
        raise EncodingError(f"a column has a type that cannot be encoded: {error}") from None
    assert isinstance(found, pa.StructType), "a struct in either"
    return found


def _of(subject: str) -> str:
    return f"the subject {subject}"
