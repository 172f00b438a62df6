"""How the values of a topic become columns, and columns values. Each is data; what it does with columns is Spark's work.

    Json("id bigint, price double")       a schema as in SQL, a StructType, or a JSON Schema
    Avro(schema_in_json)                  framed=True and a registry for Confluent's wire format
    Protobuf("shop.Order", descriptor_set)    or the message of a subject
    Text("line")                          one column of text
    Debezium("id bigint, price double")   change events of a table (`debezium`)

    Avro(subject="orders-value", registry=Registry("https://registry:8081", token="${env:TOKEN}"))

A subject of a registry stands for its schema, and says that values are framed. With one, all but Text encode as well.

A value that cannot be decoded is broken. A pipeline with dead letters sends it there; any other stops at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.spark.formats.schema_registry import RegistryError, Schema
from tidelog.spark.pipelines.declaration import Declaration, lenient
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.registry import Registry, address_of, registry_problems
from tidelog.spark.pipelines.schema_text import unknown_types

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

# Where Spark says which text was no JSON of the schema.
CORRUPT = "_corrupt_record"
# Names columns of a row whose values are not known, because they stay as they are.
LEFT_OUT = "__unchanged"
# A topic's name has 249 characters, and a record's may go before it.
_SUBJECT_MAX = 1000


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
        """Needs a session. Broken values stop the query, unless they are kept to be sent elsewhere.

        DefinitionError where the schema cannot be had, or has no columns.
        """
        ...


class Encoder(Protocol):
    """What `ToTopic(encode=...)` takes, beside its words."""

    def encoding_problems(self) -> list[str]:
        """What is wrong with it, as far as that shows without Spark and without a registry."""
        ...

    def encoded(self, row: Column, columns: StructType) -> Column:
        """A struct of these columns as a value; null where the struct is. DefinitionError where the schema does not take them."""
        ...


@lenient
@dataclass(frozen=True, slots=True)
class Json(Declaration):
    """JSON by a schema of Spark's, or a JSON Schema. Fields that it does not name are left out; what a value lacks is null."""

    schema: str | StructType | None = None
    framed: bool = False
    """Each value begins with a schema registry's frame."""
    options: dict[str, str] = field(default_factory=dict)
    """Of Spark's reader of JSON, such as `timestampFormat`."""
    _: KW_ONLY
    registry: str | Registry | None = None
    subject: str | None = None
    version: int | None = None
    """Of the subject. Without it the latest one."""
    register: bool = False
    """Encoding: whether a schema that the subject does not have yet is added to it."""

    def problems(self) -> list[str]:
        found = _subject_problems(self, self.schema, "its columns, as in 'id bigint, price double'")
        if self.registry is not None and self.subject is None:
            found.append("a registry is asked for the schema of a subject: Json needs subject= for it")
        return found + self._schema_problems()

    def encoding_problems(self) -> list[str]:
        found = _encoding_problems(self, self.schema)
        if self.options:
            found.append("options of Json are for reading")
        if self.schema is not None and not self._is_json_schema:
            found.append("Json writes by a JSON Schema: give its text as schema=, or leave it out")
            return found
        return found + self._schema_problems()

    def _schema_problems(self) -> list[str]:
        if not isinstance(self.schema, str):
            return []
        if not self.schema.strip():
            return ["the schema of Json is empty: name its columns, as in 'id bigint, price double'"]
        if not self._is_json_schema:
            return [f"the schema of Json is wrong: {each}" for each in unknown_types(self.schema)]
        from tidelog.spark.formats.json_columns import JsonSchema, JsonSchemaError  # noqa: PLC0415 - needs pyarrow

        try:
            _ = JsonSchema(self.schema).arrow_type
        except JsonSchemaError as error:
            return [f"the schema of Json is wrong: {error}"]
        return []

    @property
    def _is_json_schema(self) -> bool:
        return isinstance(self.schema, str) and self.schema.lstrip().startswith("{")

    def decoded(self, value: Column, *, keeps_broken: bool) -> Decoded:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415
        from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415

        from tidelog.spark.decoding import unframed, written_for  # noqa: PLC0415 - needs PySpark

        schema = self._columns()
        mode = "PERMISSIVE" if keeps_broken else "FAILFAST"
        body = value
        if self.registry is not None:
            body = written_for(value, schema, address_of(self.registry), mode)
        elif self.framed:
            body = unframed(value, mode)
        text = body.cast("string")
        if not keeps_broken:
            return Decoded(F.from_json(text, schema, {**self.options, "mode": mode}), None)
        fields = StructType([*schema.fields, StructField(CORRUPT, StringType())])
        chosen = {**self.options, "mode": mode, "columnNameOfCorruptRecord": CORRUPT}
        found = F.from_json(text, fields, chosen)
        # Text without any JSON in it is null, and not corrupt, to Spark.
        return Decoded(found, value.isNotNull() & (found.isNull() | found.getField(CORRUPT).isNotNull()))

    def _columns(self) -> StructType:
        from pyspark.sql.types import StructType  # noqa: PLC0415

        from tidelog.spark.decoding import json_type  # noqa: PLC0415 - needs PySpark
        from tidelog.spark.formats.schema_registry import JSON  # noqa: PLC0415
        from tidelog.spark.formats.subject_schemas import subject_schema  # noqa: PLC0415

        if self.subject is not None and self.registry is not None:
            with _told():
                return json_type(subject_schema(address_of(self.registry), self.subject, self.version, JSON).schema)
        if isinstance(self.schema, str) and self._is_json_schema:
            with _told():
                return json_type(Schema(JSON, self.schema))
        schema = StructType.fromDDL(self.schema) if isinstance(self.schema, str) else self.schema
        if not isinstance(schema, StructType):
            raise DefinitionError([f"the schema of Json is {self.schema!r}; it names columns, as in 'id bigint'"])
        return schema

    def encoded(self, row: Column, columns: StructType) -> Column:
        from tidelog.spark.encoding import to_json  # noqa: PLC0415 - needs PySpark

        schema = self.schema if isinstance(self.schema, str) else None
        return _encoded(self, to_json, row, columns, schema=schema)


@lenient
@dataclass(frozen=True, slots=True)
class Avro(Declaration):
    """Avro by a schema in JSON. Needs fastavro: `pip install tidelog[avro]`."""

    schema: str | None = None
    framed: bool = False
    registry: str | Registry | None = None
    """Where the schemas are that values were written with, such as http://127.0.0.1:8081."""
    _: KW_ONLY
    subject: str | None = None
    version: int | None = None
    """Of the subject. Without it the latest one."""
    register: bool = False
    """Encoding: whether a schema that the subject does not have yet is added to it."""

    def problems(self) -> list[str]:
        found = _subject_problems(self, self.schema, "in JSON")
        if self.registry is not None and not self.framed and self.subject is None:
            found.append("a registry knows schemas by the ids of frames: Avro needs framed=True for it")
        return found + self._schema_problems()

    def encoding_problems(self) -> list[str]:
        return _encoding_problems(self, self.schema) + self._schema_problems()

    def _schema_problems(self) -> list[str]:
        try:
            from tidelog.spark.formats.avro_columns import AvroError, AvroSchema  # noqa: PLC0415
        except ImportError:
            return ["Avro needs fastavro: pip install tidelog[avro]"]
        if self.schema is None:
            return []
        try:
            _ = AvroSchema(self.schema).arrow_type
        except AvroError as error:
            return [f"the schema of Avro is wrong: {error}"]
        return []

    def decoded(self, value: Column, *, keeps_broken: bool) -> Decoded:
        from tidelog.spark.decoding import from_avro  # noqa: PLC0415

        with _told():
            found = from_avro(
                value,
                self.schema,
                framed=self.framed,
                registry=None if self.registry is None else address_of(self.registry),
                subject=self.subject,
                version=self.version,
                mode="PERMISSIVE" if keeps_broken else "FAILFAST",
            )
        return Decoded(found, value.isNotNull() & found.isNull() if keeps_broken else None)

    def encoded(self, row: Column, columns: StructType) -> Column:
        from tidelog.spark.encoding import to_avro  # noqa: PLC0415 - needs PySpark

        return _encoded(self, to_avro, row, columns, schema=self.schema)


@lenient
@dataclass(frozen=True, slots=True)
class Protobuf(Declaration):
    """Protobuf by a message of a descriptor set (`protoc --include_imports --descriptor_set_out`), or of a subject. Needs
    protobuf."""

    message: str
    """Its name in full, as in 'shop.Order'."""
    descriptor_set: bytes | None = None
    framed: bool = False
    _: KW_ONLY
    registry: str | Registry | None = None
    subject: str | None = None
    version: int | None = None
    """Of the subject. Without it the latest one."""
    register: bool = False
    """Encoding: whether the file of the message, if the subject does not have it yet, is added to it."""

    def problems(self) -> list[str]:
        found = _subject_problems(self, self.descriptor_set, "as protoc writes it", "descriptor_set")
        if self.registry is not None and not self.framed and self.subject is None:
            found.append("a registry knows schemas by the ids of frames: Protobuf needs framed=True for it")
        return found + self._message_problems()

    def encoding_problems(self) -> list[str]:
        found = _encoding_problems(self, self.descriptor_set, "descriptor_set")
        if self.register and self.descriptor_set is None:
            found.append("Protobuf registers the file of its message: give descriptor_set=, or leave register= out")
        return found + self._message_problems()

    def _message_problems(self) -> list[str]:
        try:
            from tidelog.spark.formats.protobuf_columns import ProtobufError, ProtobufMessage  # noqa: PLC0415
        except ImportError:
            return ["Protobuf needs the package of that name: pip install tidelog[protobuf]"]
        if self.descriptor_set is None:
            return []
        try:
            ProtobufMessage(self.descriptor_set, self.message)
        except ProtobufError as error:
            return [f"the message of Protobuf is wrong: {error}"]
        return []

    def decoded(self, value: Column, *, keeps_broken: bool) -> Decoded:
        from tidelog.spark.decoding import from_protobuf  # noqa: PLC0415

        with _told():
            found = from_protobuf(
                value,
                self.message,
                self.descriptor_set,
                framed=self.framed,
                registry=None if self.registry is None else address_of(self.registry),
                subject=self.subject,
                version=self.version,
                mode="PERMISSIVE" if keeps_broken else "FAILFAST",
            )
        return Decoded(found, value.isNotNull() & found.isNull() if keeps_broken else None)

    def encoded(self, row: Column, columns: StructType) -> Column:
        from tidelog.spark.encoding import to_protobuf  # noqa: PLC0415 - needs PySpark

        return _encoded(self, to_protobuf, row, columns, message=self.message, descriptor_set=self.descriptor_set)


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


def _subject_problems(
    decoder: Json | Avro | Protobuf, schema: object, example: str, named: str = "schema"
) -> list[str]:
    """Of a decoder that has a schema of its own, or a subject's."""
    title = type(decoder).__name__
    found = registry_problems(decoder.registry)
    if decoder.register:
        found.append("register= is for encoding: nothing is registered by who reads")
    if decoder.subject is None:
        if schema is None:
            found.append(f"{title} needs {named}=, {example}, or the subject= of a registry")
        if decoder.version is not None:
            found.append("version= is one of a subject: give subject=")
        return found
    if schema is not None:
        found.append(f"the schema is the subject's: leave {named}= out, or subject=")
    return found + _name_problems(decoder)


def _encoding_problems(encoder: Json | Avro | Protobuf, schema: object, named: str = "schema") -> list[str]:
    """What all that write for a registry's readers need."""
    title = type(encoder).__name__
    found = registry_problems(encoder.registry)
    if encoder.subject is None:
        found.append(f"{title} writes for readers who ask a registry: it needs subject=, as in 'orders-value'")
        return found
    if encoder.version is not None and (encoder.register or schema is not None):
        found.append(f"version= is of a schema that the subject has: leave it out, or {named}= and register=")
    return found + _name_problems(encoder)


def _name_problems(declared: Json | Avro | Protobuf) -> list[str]:
    found = []
    if declared.registry is None:
        found.append(f"the subject {declared.subject} is one of a registry: give registry=")
    if declared.subject is not None and not 0 < len(declared.subject.strip()) <= _SUBJECT_MAX:
        found.append(f"subject is {declared.subject[:40]!r}; it is a name, as in 'orders-value'")
    if declared.version is not None and declared.version < 1:
        found.append(f"version is {declared.version}; versions of a subject begin with 1")
    return found


def _encoded(
    encoder: Json | Avro | Protobuf, encode: Callable[..., Column], row: Column, columns: StructType, **named: Any
) -> Column:
    assert encoder.registry is not None, "it was validated"
    with _told():
        return encode(
            row,
            columns,
            subject=encoder.subject,
            registry=address_of(encoder.registry),
            version=encoder.version,
            register=encoder.register,
            **named,
        )


@contextmanager
def _told() -> Iterator[None]:
    """What is found wrong while columns are made, as a mistake of the pipeline."""
    try:
        yield
    except (RegistryError, ValueError) as error:
        # An OptionError, of a secret that is not there, is a ValueError as well; so are DecodingError and EncodingError.
        raise DefinitionError([str(error)]) from error
