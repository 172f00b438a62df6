"""What a test gives to a topic: rows as values that the source's decoder reads, and records as they are.

[{"id": "a", "price": 1.5}]         rows: encoded as the source decodes
["no json", b"\\x00"]                values as they are; None for a tombstone
[Record({"id": "a"}, key="a")]      either, with more of the record
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tidelog.model.config import did_you_mean
from tidelog.spark.pipelines.decoders import Avro, Decoder, Json, Protobuf, Text
from tidelog.spark.pipelines.registry import address_of
from tidelog.spark.testing_kit.errors import PipelineTestError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

# ruff: noqa: PLC0415 - formats are extras, and pytest imports this package

Value: TypeAlias = Mapping[str, Any] | str | bytes | None


@dataclass(frozen=True, slots=True)
class Record:
    """A record that is given."""

    value: Value
    key: str | bytes | None = None
    timestamp: dt.datetime | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """A record as it goes to a topic."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None


def records_of(
    given: Sequence[Record | Value], topic: str, decoder: Decoder | None, columns: Callable[[], StructType]
) -> list[GivenRecord]:
    """PipelineTestError for a row that the decoder would not read, or that nobody can encode. `columns` are the decoder's."""
    if isinstance(given, str | bytes | Mapping):
        raise PipelineTestError(f"given({topic!r}, ...) takes a list of rows or records")
    records = [each if isinstance(each, Record) else Record(each) for each in given]
    rows = [each.value for each in records if isinstance(each.value, Mapping)]
    encoded = iter(encoded_rows(rows, topic, decoder, columns()) if rows else [])
    return [_given(each, next(encoded) if isinstance(each.value, Mapping) else _raw(each.value)) for each in records]


def columns_of(session: SparkSession, decoder: Decoder | None) -> StructType:
    """The columns that values are decoded to; none without a decoder."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, StructType

    if decoder is None:
        return StructType()
    decoded = decoder.decoded(F.col("value"), keeps_broken=False)
    kind = session.range(0).select(F.lit(None).cast("binary").alias("value")).select(decoded.columns).schema[0].dataType
    kind = kind.elementType if isinstance(kind, ArrayType) else kind
    assert isinstance(kind, StructType), "what decoders give"
    return kind


def encoded_rows(
    rows: Sequence[Mapping[str, Any]], topic: str, decoder: Decoder | None, columns: StructType
) -> list[bytes]:
    if decoder is None:
        raise PipelineTestError(
            f"{topic} has no decoder, by which a row could be encoded: give values as bytes or text"
        )
    known = set(columns.names)
    for row in rows:
        for name in row:
            if name not in known:
                advice = did_you_mean(name, known) or f": its columns are {', '.join(columns.names)}"
                raise PipelineTestError(f"the values of {topic} have no column {name}{advice}")
    match decoder:
        case Json():
            before = _frame_of(decoder)
            return [before + json.dumps(row, default=_in_json).encode() for row in rows]
        case Text():
            return [str(row.get(decoder.column, "")).encode() for row in rows]
        case Avro():
            return _avro(decoder, rows, topic)
        case Protobuf():
            return _protobuf(decoder, rows, topic)
    raise PipelineTestError(
        f"no row can be encoded for {type(decoder).__name__}, by which {topic} is decoded: give values as bytes or text"
    )


def _given(record: Record, value: bytes | None) -> GivenRecord:
    at = record.timestamp
    if at is not None and at.tzinfo is None:
        at = at.replace(tzinfo=dt.UTC)
    return GivenRecord(
        value,
        record.key.encode() if isinstance(record.key, str) else record.key,
        None if at is None else round(at.timestamp() * 1000),
        tuple(record.headers),
        record.partition,
    )


def _raw(value: Value) -> bytes | None:
    assert not isinstance(value, Mapping)
    return value.encode() if isinstance(value, str) else value


def _in_json(value: object) -> object:
    match value:
        case dt.datetime() | dt.date():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case bytes():
            import base64

            return base64.b64encode(value).decode()
    raise PipelineTestError(f"{value!r} is a {type(value).__name__}, which JSON does not have")


def _avro(decoder: Avro, rows: Sequence[Mapping[str, Any]], topic: str) -> list[bytes]:
    import pyarrow as pa

    from tidelog.spark.formats.avro_columns import AvroError, AvroSchema
    from tidelog.spark.formats.avro_rows import AvroRows

    text, named = decoder.schema, []
    if decoder.subject is not None and decoder.registry is not None:
        from tidelog.spark.formats.schema_registry import AVRO
        from tidelog.spark.formats.subject_schemas import subject_schema

        found = subject_schema(address_of(decoder.registry), decoder.subject, decoder.version, AVRO).schema
        text, named = found.text, [each.text for each in found.references]
    elif decoder.registry is not None:
        raise PipelineTestError(f"which id the registry has for values of {topic} is not known: give them as bytes")
    assert text is not None, "it was validated"
    schema = AvroSchema(text, named)
    kind = schema.arrow_type
    assert isinstance(kind, pa.StructType), "it was planned"
    before = _frame_of(decoder)
    try:
        values = AvroRows(schema, kind).encode(pa.array([dict(each) for each in rows], kind))  # type: ignore[arg-type]
    except (AvroError, pa.ArrowException, ValueError, TypeError) as error:
        raise PipelineTestError(f"a row of {topic} is none of its Avro schema: {error}") from error
    return [before + (each or b"") for each in values]


def _protobuf(decoder: Protobuf, rows: Sequence[Mapping[str, Any]], topic: str) -> list[bytes]:
    from google.protobuf.json_format import ParseDict, ParseError

    from tidelog.spark.formats.protobuf_columns import ProtobufMessage
    from tidelog.spark.formats.protobuf_files import descriptor_set_of, message_indexes
    from tidelog.spark.formats.registry_framing import protobuf_frame

    files, schema_id = decoder.descriptor_set, _ANY_ID
    if decoder.subject is not None and decoder.registry is not None:
        from tidelog.spark.formats.schema_registry import PROTOBUF
        from tidelog.spark.formats.subject_schemas import subject_schema

        known = subject_schema(address_of(decoder.registry), decoder.subject, decoder.version, PROTOBUF)
        files, schema_id = descriptor_set_of(known.schema), known.schema_id
    elif decoder.registry is not None:
        raise PipelineTestError(f"which id the registry has for values of {topic} is not known: give them as bytes")
    assert files is not None, "it was validated"
    message = ProtobufMessage(files, decoder.message)
    is_framed = decoder.framed or decoder.subject is not None
    before = protobuf_frame(schema_id, message_indexes(message.descriptor)) if is_framed else b""
    found = []
    for row in rows:
        plain = json.loads(json.dumps(row, default=_in_json))
        try:
            found.append(before + ParseDict(plain, message.new()).SerializeToString())
        except ParseError as error:
            raise PipelineTestError(f"a row of {topic} is no {decoder.message}: {error}") from error
    return found


# Where no registry is asked, any id is as good.
_ANY_ID = 1


def _frame_of(decoder: Json | Avro) -> bytes:
    from tidelog.spark.formats.registry_framing import frame

    if decoder.subject is not None and decoder.registry is not None:
        from tidelog.spark.formats.schema_registry import AVRO, JSON
        from tidelog.spark.formats.subject_schemas import subject_schema

        kind = AVRO if isinstance(decoder, Avro) else JSON
        found = subject_schema(address_of(decoder.registry), decoder.subject, decoder.version, kind)
        return frame(found.schema_id)
    return frame(_ANY_ID) if decoder.framed else b""
