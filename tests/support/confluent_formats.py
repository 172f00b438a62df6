"""Values in a registry's frame by confluent-kafka's own serializers and by Spark columns of ours, each read by the other."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.decoding import from_avro, from_json, from_protobuf
from tidelog.spark.encoding import to_avro, to_json, to_protobuf
from tidelog.spark.formats.schema_registry import RegistryAddress

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
JSON: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
PROTO = """syntax = "proto3";
package shop;
message Other { bool ok = 1; }
message Order {
  int64 id = 1;
  optional string name = 2;
  repeated string tags = 3;
}
"""
NEWER_PROTO = PROTO.replace("tags = 3;", "tags = 3;\n  double price = 4;")
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "Zoë", "tags": ["a", "b"]},
    {"id": 2**40, "name": None, "tags": []},
]
COLUMNS = "id bigint, name string, tags array<string>"
FORMATS = ("avro", "json", "protobuf")
MESSAGE = "shop.Order"


def compiled(text: str, name: str = "order.proto") -> bytes:
    """The descriptor set of a file, by Protobuf's own compiler."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / name).write_text(text)
        own = Path(protoc.__file__).parent / "_proto"
        out = Path(place) / "out"
        arguments = ["protoc", f"-I{place}", f"-I{own}", "--include_imports", f"--descriptor_set_out={out}", name]
        assert protoc.main(arguments) == 0, text
        return out.read_bytes()


@cache
def message_class(text: str) -> Any:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compiled(text)).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(MESSAGE))


class TheirFormats:
    """confluent-kafka, as a program of somebody else uses it."""

    def __init__(self, client: SchemaRegistryClient) -> None:
        self.client = client

    def written(self, name: str, topic: str, row: dict[str, Any]) -> bytes:
        """A value of a topic, under the subject `<topic>-value`."""
        found: bytes = self._serializer(name)(self._given(name, row), SerializationContext(topic, MessageField.VALUE))
        return found

    def read(self, name: str, topic: str, value: bytes) -> dict[str, Any]:
        found = self._deserializer(name)(value, SerializationContext(topic, MessageField.VALUE))
        if name == "protobuf":
            read = MessageToDict(found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
            found = {"name": None, **read, "id": int(read["id"])}
        return {"name": None, **found}

    def register(self, subject: str, kind: str, text: str) -> int:
        number: int = self.client.register_schema(subject, Schema(text, kind))
        return number

    def _given(self, name: str, row: dict[str, Any]) -> Any:
        if name != "protobuf":
            return row
        return message_class(PROTO)(**{each: value for each, value in row.items() if value is not None})

    def _serializer(self, name: str) -> Any:
        match name:
            case "avro":
                return AvroSerializer(self.client, json.dumps(AVRO))
            case "json":
                return JSONSerializer(json.dumps(JSON), self.client)
        return ProtobufSerializer(message_class(PROTO), self.client, {"use.deprecated.format": False})

    def _deserializer(self, name: str) -> Any:
        match name:
            case "avro":
                return AvroDeserializer(self.client)
            case "json":
                return JSONDeserializer(None, schema_registry_client=self.client)
        # With a client it would have the registry turn schemas into descriptors, which Apicurio's cannot do with what this
        # library's own serializer has registered.
        return ProtobufDeserializer(message_class(PROTO), {"use.deprecated.format": False})


def reading(name: str, subject: str, registry: RegistryAddress, **more: Any) -> Column:
    """By what the subject says."""
    match name:
        case "avro":
            return from_avro("value", subject=subject, registry=registry, mode="PERMISSIVE", **more)
        case "json":
            return from_json("value", subject=subject, registry=registry, mode="PERMISSIVE", **more)
    return from_protobuf("value", MESSAGE, subject=subject, registry=registry, mode="PERMISSIVE", **more)


def writing(name: str, rows: DataFrame, subject: str, registry: RegistryAddress) -> Column:
    """Registered by the first who writes."""
    row = F.struct(*rows.columns)
    match name:
        case "avro":
            return to_avro(row, rows.schema, subject=subject, registry=registry, schema=json.dumps(AVRO), register=True)
        case "json":
            return to_json(row, rows.schema, subject=subject, registry=registry, register=True)
    return to_protobuf(
        row,
        rows.schema,
        message=MESSAGE,
        subject=subject,
        registry=registry,
        descriptor_set=compiled(PROTO),
        register=True,
    )


def check_both_ways(spark: SparkSession, theirs: TheirFormats, registry: RegistryAddress, name: str) -> None:
    """What they write is read by us, and what we write by them, each under a subject of the writer's."""
    their_topic, our_topic = f"{name}-theirs", f"{name}-ours"
    values = [(theirs.written(name, their_topic, row),) for row in ROWS]
    column = reading(name, f"{their_topic}-value", registry)
    read = [
        each["row"].asDict()
        for each in spark.createDataFrame(values, "value binary").select(column.alias("row")).collect()
    ]
    assert read == ROWS

    rows = spark.createDataFrame([tuple(row.values()) for row in ROWS], COLUMNS)
    written = rows.select(writing(name, rows, f"{our_topic}-value", registry).alias("value")).collect()
    assert [theirs.read(name, our_topic, bytes(each["value"])) for each in written] == ROWS
