"""How the values of a topic become columns. Each decoder is data; what it does with columns is Spark's work.

    Json("id bigint, price double")       a schema as in SQL, or a StructType
    Avro(schema_in_json)                  framed=True and a registry for Confluent's wire format
    Protobuf("shop.Order", descriptor_set)
    Text("line")                          one column of text
    Debezium("id bigint, price double")   change events of a table (`debezium`)

A value that cannot be decoded is broken. A pipeline with dead letters sends it there; any other stops at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tidelog.spark.pipelines.declaration import Declaration, lenient
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.schema_text import unknown_types

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

# Where Spark says which text was no JSON of the schema.
CORRUPT = "_corrupt_record"
_FRAME_BYTES = 5


@dataclass(frozen=True, slots=True)
class Decoded:
    """A column of structs, and whether the value that it came from is broken; None where that has stopped the query."""

    columns: Column
    is_broken: Column | None
    reason: Column | None = None
    """Why a value is broken, in words of the decoder's own."""
    is_list: bool = False
    """Each value is a list of structs: a record may be several rows, or none. A broken one has a list of one null."""


class Decoder(Protocol):
    """What `FromTopic(decode=...)` takes."""

    def problems(self) -> list[str]:
        """What is wrong with it, as far as that shows without Spark."""
        ...

    def decoded(self, value: Column, *, keeps_broken: bool) -> Decoded:
        """Needs a session. Broken values stop the query, unless they are kept to be sent elsewhere."""
        ...


@lenient
@dataclass(frozen=True, slots=True)
class Json(Declaration):
    """JSON by a schema of Spark's. Fields that it does not name are left out, those that a value lacks are null."""

    schema: str | StructType
    framed: bool = False
    """Each value begins with a schema registry's frame."""
    options: dict[str, str] = field(default_factory=dict)
    """Of Spark's reader of JSON, such as `timestampFormat`."""

    def problems(self) -> list[str]:
        if isinstance(self.schema, str) and not self.schema.strip():
            return ["the schema of Json is empty: name its columns, as in 'id bigint, price double'"]
        if isinstance(self.schema, str):
            return [f"the schema of Json is wrong: {each}" for each in unknown_types(self.schema)]
        return []

    def decoded(self, value: Column, *, keeps_broken: bool) -> Decoded:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415
        from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415

        schema = StructType.fromDDL(self.schema) if isinstance(self.schema, str) else self.schema
        if not isinstance(schema, StructType):
            raise DefinitionError([f"the schema of Json is {self.schema!r}; it names columns, as in 'id bigint'"])
        body = F.substring(value, _FRAME_BYTES + 1, 2**31 - 1) if self.framed else value
        text = body.cast("string")
        if not keeps_broken:
            return Decoded(F.from_json(text, schema, {**self.options, "mode": "FAILFAST"}), None)
        fields = StructType([*schema.fields, StructField(CORRUPT, StringType())])
        chosen = {**self.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        found = F.from_json(text, fields, chosen)
        # Text without any JSON in it is null, and not corrupt, to Spark.
        return Decoded(found, value.isNotNull() & (found.isNull() | found.getField(CORRUPT).isNotNull()))


@lenient
@dataclass(frozen=True, slots=True)
class Avro(Declaration):
    """Avro by a schema in JSON. Needs fastavro: `pip install tidelog[avro]`."""

    schema: str
    framed: bool = False
    registry: str | None = None
    """Where the schemas are that values were written with, such as http://127.0.0.1:8081."""

    def problems(self) -> list[str]:
        if self.registry is not None and not self.framed:
            return ["a registry knows schemas by the ids of frames: Avro needs framed=True for it"]
        try:
            from tidelog.spark.formats.avro_columns import AvroError, AvroSchema  # noqa: PLC0415
        except ImportError:
            return ["Avro needs fastavro: pip install tidelog[avro]"]
        try:
            AvroSchema(self.schema)
        except AvroError as error:
            return [f"the schema of Avro is wrong: {error}"]
        return []

    def decoded(self, value: Column, *, keeps_broken: bool) -> Decoded:
        from tidelog.spark.decoding import from_avro  # noqa: PLC0415

        mode = "PERMISSIVE" if keeps_broken else "FAILFAST"
        found = from_avro(value, self.schema, framed=self.framed, registry=self.registry, mode=mode)
        return Decoded(found, value.isNotNull() & found.isNull() if keeps_broken else None)


@lenient
@dataclass(frozen=True, slots=True)
class Protobuf(Declaration):
    """Protobuf by a message of a descriptor set (`protoc --include_imports --descriptor_set_out`). Needs protobuf."""

    message: str
    descriptor_set: bytes
    framed: bool = False

    def problems(self) -> list[str]:
        try:
            from tidelog.spark.formats.protobuf_columns import ProtobufError, ProtobufMessage  # noqa: PLC0415
        except ImportError:
            return ["Protobuf needs the package of that name: pip install tidelog[protobuf]"]
        try:
            ProtobufMessage(self.descriptor_set, self.message)
        except ProtobufError as error:
            return [f"the message of Protobuf is wrong: {error}"]
        return []

    def decoded(self, value: Column, *, keeps_broken: bool) -> Decoded:
        from tidelog.spark.decoding import from_protobuf  # noqa: PLC0415

        mode = "PERMISSIVE" if keeps_broken else "FAILFAST"
        found = from_protobuf(value, self.message, self.descriptor_set, framed=self.framed, mode=mode)
        return Decoded(found, value.isNotNull() & found.isNull() if keeps_broken else None)


@lenient
@dataclass(frozen=True, slots=True)
class Text(Declaration):
    """The value as one column of text. Every value is some text, so none is broken."""

    column: str = "text"

    def problems(self) -> list[str]:
        return [] if self.column.isidentifier() else [f"{self.column!r} cannot be the name of Text's column"]

    def decoded(self, value: Column, *, keeps_broken: bool) -> Decoded:  # noqa: ARG002 - none is
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        return Decoded(F.struct(value.cast("string").alias(self.column)), None)
