"""Columns of bytes decoded: plain functions of columns, for keys and values alike.

    from tidelog.spark.decoding import from_avro, from_json, from_protobuf

    orders.select(from_json("value", "id bigint, price double").alias("order")).select("order.*")
    orders.select(from_avro("value", AVRO_SCHEMA, framed=True, registry="http://127.0.0.1:8081"))
    orders.select(from_protobuf("value", "shop.Order", descriptor_set))

With `framed` each value begins with a schema registry's frame. Avro values are then read by the schema that they were written
with, which the `registry` is asked for, and come out as the schema given here has them; without a registry they are taken to be
written with that one. `mode="FAILFAST"` stops at a value that cannot be decoded; `"PERMISSIVE"` makes it null, for a pipeline
that sends such records elsewhere. JSON is decoded by Spark itself, Avro and Protobuf in Python, a batch of the column at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, functions as F  # noqa: N812 - as everybody calls them
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from tidelog.spark.formats.registry_framing import (
    FramingError,
    RegistryError,
    read_frame,
    read_protobuf_frame,
    schema_of,
)

if TYPE_CHECKING:
    from tidelog.spark.formats.avro_columns import AvroSchema

_FRAME_BYTES = 5
_MODES = ("FAILFAST", "PERMISSIVE")


class DecodingError(ValueError):
    """A value that cannot be decoded, or a schema that has no columns; one sentence says why."""


def from_json(
    column: Column | str, schema: StructType | str, *, framed: bool = False, mode: str = "PERMISSIVE"
) -> Column:
    """A column of JSON text in bytes, by a schema of Spark's.

    >>> orders.select(from_json("value", "id bigint, price double").alias("order"))
    """
    _check_mode(mode)
    value = F.col(column) if isinstance(column, str) else column
    if framed:
        value = F.substring(value, _FRAME_BYTES + 1, 2**31 - 1)
    return F.from_json(value.cast("string"), schema, {"mode": mode})


def from_avro(
    column: Column | str,
    schema: str,
    *,
    framed: bool = False,
    registry: str | None = None,
    mode: str = "FAILFAST",
) -> Column:
    """A column of Avro values, by a schema in JSON. Needs fastavro.

    >>> orders.select(from_avro("value", open("order.avsc").read()).alias("order"))
    """
    from tidelog.spark.formats.avro_columns import AvroError, AvroSchema  # noqa: PLC0415 - fastavro is an extra

    _check_mode(mode)
    if registry is not None and not framed:
        raise DecodingError("a registry knows schemas by the ids of frames: it needs framed=True")
    try:
        kind = AvroSchema(schema).arrow_type
    except AvroError as error:
        raise DecodingError(str(error)) from None

    def decoder() -> Callable[[bytes], Any]:
        reader = AvroSchema(schema)
        writers: dict[int, AvroSchema] = {}

        def decode(value: bytes) -> Any:
            if not framed:
                return reader.decode(value, 0, reader)
            frame = read_frame(value)
            writer = reader
            if registry is not None:
                known = writers.get(frame.schema_id)
                if known is None:
                    known = writers[frame.schema_id] = AvroSchema(schema_of(registry, frame.schema_id))
                writer = known
            return writer.decode(value, frame.start, reader)

        return decode

    return _decoded(column, kind, decoder, mode)


def from_protobuf(
    column: Column | str, message: str, descriptor_set: bytes, *, framed: bool = False, mode: str = "FAILFAST"
) -> Column:
    """A column of Protobuf values, by a message of a descriptor set. Needs protobuf.

    >>> orders.select(from_protobuf("value", "shop.Order", open("shop.desc", "rb").read()).alias("order"))

    A frame's message indexes are passed over: the message is the one that is named.
    """
    from tidelog.spark.formats.protobuf_columns import ProtobufError, ProtobufMessage  # noqa: PLC0415 - protobuf is an extra

    _check_mode(mode)
    try:
        kind = ProtobufMessage(descriptor_set, message).arrow_type
    except ProtobufError as error:
        raise DecodingError(str(error)) from None

    def decoder() -> Callable[[bytes], Any]:
        known = ProtobufMessage(descriptor_set, message)
        return lambda value: known.decode(value, read_protobuf_frame(value)[0].start if framed else 0)

    return _decoded(column, kind, decoder, mode)


def decode_column(values: pa.Array[Any], kind: pa.DataType, decode: Callable[[bytes], Any], mode: str) -> pa.Array[Any]:
    """The values of a column, null where there is none. DecodingError for one that cannot be decoded, unless that is null too.

    A registry that does not answer is an error in either mode: it is not the value that is wrong.
    """
    decoded: list[Any] = []
    for value in values.to_pylist():
        if value is None:
            decoded.append(None)
            continue
        try:
            decoded.append(decode(value))
        except RegistryError:
            raise
        except (FramingError, ValueError) as error:
            if mode != "PERMISSIVE":
                raise DecodingError(str(error)) from None
            decoded.append(None)
    return pa.array(decoded, kind)


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


def _check_mode(mode: str) -> None:
    if mode not in _MODES:
        raise DecodingError(f"mode is {mode!r}; it can be {' or '.join(_MODES)}")
