"""Values decoded, column by column: without Spark, but for one test through it."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import SparkSession

from tests.support.schema_registry import schema_registry
from tidelog.spark.decoding import AvroByWriters, DecodingError, decode_column, from_avro, from_json, from_protobuf
from tidelog.spark.formats.avro_columns import AvroError, AvroSchema
from tidelog.spark.formats.known_schemas import UNKNOWN_MAX
from tidelog.spark.formats.protobuf_columns import ProtobufError, ProtobufMessage
from tidelog.spark.formats.registry_framing import (
    FramingError,
    frame,
    protobuf_frame,
    read_frame,
    read_protobuf_frame,
)
from tidelog.spark.formats.schema_registry import RegistryAddress, RegistryError

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "price",
                "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
            },
            {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "counts", "type": {"type": "map", "values": "int"}},
            {
                "name": "buyer",
                "type": {"type": "record", "name": "Buyer", "fields": [{"name": "name", "type": "string"}]},
            },
        ],
    }
)
VALUE: dict[str, Any] = {
    "id": 7,
    "price": Decimal("12.50"),
    "placed": datetime(2024, 5, 1, 12, 0, 0, 123000, UTC),
    "day": date(2024, 5, 1),
    "at": 45_000,
    "state": "PAID",
    "tags": ["a", "b"],
    "counts": {"x": 1},
    "buyer": {"name": "Ada"},
}
PLAIN_ORDER = json.loads(ORDER) | {
    "fields": [
        {"name": "at", "type": "int"} if field["name"] == "at" else field for field in json.loads(ORDER)["fields"]
    ]
}


def avro(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def framed(schema_id: int, value: bytes) -> bytes:
    return struct.pack(">bi", 0, schema_id) + value


def test_avro_has_a_column_for_every_type() -> None:
    schema = AvroSchema(ORDER)

    decoded = decode_column(
        pa.array([avro(PLAIN_ORDER, VALUE), None]),
        schema.arrow_type,
        lambda value: schema.decode(value, 0, schema),
        "FAILFAST",
    )

    assert str(schema.arrow_type) == (
        "struct<id: int64, price: decimal128(9, 2), placed: timestamp[us, tz=UTC], day: date32[day], at: int32, "
        "state: string, tags: list<item: string>, counts: map<string, int32>, buyer: struct<name: string>>"
    )
    assert decoded.to_pylist() == [VALUE | {"counts": [("x", 1)]}, None]


def test_a_value_is_read_by_the_schema_that_it_was_written_with() -> None:
    old = AvroSchema(
        '{"type":"record","name":"O","fields":[{"name":"id","type":"int"},{"name":"gone","type":"string"}]}'
    )
    new = AvroSchema(
        '{"type":"record","name":"O","fields":[{"name":"id","type":"long"},{"name":"note","type":"string","default":"-"}]}'
    )

    assert old.decode(avro(old.parsed, {"id": 5, "gone": "x"}), 0, new) == {"id": 5, "note": "-"}


def test_times_come_out_as_they_were_meant_whichever_unit_they_were_written_in() -> None:
    def schema(at: Any, **default: Any) -> AvroSchema:
        return AvroSchema(
            json.dumps({"type": "record", "name": "O", "fields": [{"name": "at", "type": at, **default}]})
        )

    millis = {"type": "long", "logicalType": "timestamp-millis"}
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    none = AvroSchema('{"type":"record","name":"O","fields":[]}')
    moment = VALUE["placed"]

    def read(writer: AvroSchema, value: bytes, reader: AvroSchema) -> Any:
        found: Any = pa.array([writer.decode(value, 0, reader)], reader.arrow_type)
        return found.to_pylist()[0]["at"]

    by_millis, by_micros = schema(millis), schema(micros)
    written = avro(json.loads(json.dumps(by_millis.parsed)), {"at": moment})
    assert read(by_millis, written, by_millis) == read(by_millis, written, by_micros) == moment
    assert read(none, b"", schema(millis, default=1_000)) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert read(none, b"", schema("bytes", default="\u00ff")) == b"\xff"
    money = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert read(none, b"", schema(["null", money], default=None)) is None
    assert read(none, b"", schema(money, default="\u0001\u0000")) == Decimal("2.56")
    by_millis.check_readable_by(by_micros)
    with pytest.raises(AvroError, match="at is a time in one of the schemas"):
        schema("long").check_readable_by(by_millis)


def test_a_schema_has_the_types_that_it_refers_to() -> None:
    city = '{"type":"record","name":"geo.City","fields":[{"name":"name","type":"string"}]}'
    home = (
        '{"type":"record","name":"geo.Home","fields":[{"name":"city","type":"geo.City"},{"name":"old","type":"City"}]}'
    )

    schema = AvroSchema(home, [city])

    assert str(schema.arrow_type) == "struct<city: struct<name: string>, old: struct<name: string>>"
    assert schema.decode(b"\x02a\x02b", 0, schema) == {"city": {"name": "a"}, "old": {"name": "b"}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "the Avro schema is wrong"),
        ('{"type":"nothing"}', "the Avro schema is wrong"),
        ('["int","string"]', "only a union of null and one other type"),
        ('{"type":"record","name":"A","fields":[{"name":"a","type":["null","A"]}]}', "A holds itself"),
        ('{"type":"bytes","logicalType":"decimal","precision":39,"scale":0}', "a decimal of 39 digits"),
    ],
)
def test_a_schema_without_columns_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(AvroError, match=sentence):
        _ = AvroSchema(text).arrow_type


def test_a_schema_that_grows_as_it_is_unfolded_is_refused() -> None:
    kinds: list[str] = ['{"type":"record","name":"T0","fields":[{"name":"x","type":"int"}]}']
    for n in range(1, 30):
        fields = [{"name": f"f{i}", "type": f"T{n - 1}"} for i in range(2)]
        kinds.append(json.dumps({"type": "record", "name": f"T{n}", "fields": fields}))

    with pytest.raises(AvroError, match="more than 10000 fields"):
        _ = AvroSchema(kinds[-1], kinds[:-1]).arrow_type


@pytest.mark.parametrize("value", [b"", b"\xff" * 3, avro(PLAIN_ORDER, VALUE)[:-2], avro(PLAIN_ORDER, VALUE) + b"!"])
def test_a_damaged_value_fails_or_is_null(value: bytes) -> None:
    schema = AvroSchema(ORDER)

    def decode(each: bytes) -> Any:
        return schema.decode(each, 0, schema)

    with pytest.raises(DecodingError, match="Avro schema"):
        decode_column(pa.array([value]), schema.arrow_type, decode, "FAILFAST")
    assert decode_column(pa.array([value]), schema.arrow_type, decode, "PERMISSIVE").to_pylist() == [None]


def test_frames_name_a_schema() -> None:
    assert read_frame(framed(300, b"x")) == (300, 5)
    assert read_protobuf_frame(framed(1, b"\0rest")) == ((1, 6), (0,))
    assert read_protobuf_frame(framed(1, b"\x04\x02\x00rest")) == ((1, 8), (1, 0))
    for damaged in (b"", b"\0\0\0\0", b"\1\0\0\0\1x"):
        with pytest.raises(FramingError):
            read_frame(damaged)
    for damaged in (
        framed(1, b""),
        framed(1, b"\x80" * 9),
        framed(1, b"\x04\x02"),
        framed(1, b"\x01"),
        framed(1, b"\xfe\x7f"),
    ):
        with pytest.raises(FramingError):
            read_protobuf_frame(damaged)


@pytest.mark.parametrize("indexes", [(0,), (1,), (2, 0), (0, 300)])
def test_a_frame_is_read_as_it_was_written(indexes: tuple[int, ...]) -> None:
    assert read_frame(frame(7) + b"x") == (7, 5)
    written = protobuf_frame(7, indexes)
    assert read_protobuf_frame(written + b"x") == ((7, len(written)), indexes)


def test_a_value_that_no_column_holds_is_the_only_one_that_is_broken() -> None:
    schema = AvroSchema('{"type":"long","logicalType":"timestamp-millis"}')
    values = pa.array([avro("long", number) for number in (1, 2**62, 3)])

    def decode(value: bytes) -> Any:
        return schema.decode(value, 0, schema)

    found = decode_column(values, schema.arrow_type, decode, "PERMISSIVE")

    assert found.is_null().to_pylist() == [False, True, False]
    with pytest.raises(DecodingError, match="a value does not fit into its column"):
        decode_column(values, schema.arrow_type, decode, "FAILFAST")


def test_each_value_is_read_by_the_schema_that_its_frame_names() -> None:
    def order(*more: Any) -> Any:
        return {"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}, *more]}

    note = {"name": "note", "type": "string", "default": "-"}
    with schema_registry() as server:
        old, new = server.add("o-value", order()), server.add("o-value", order(note))
        other = server.add("other-value", {"type": "string"}, kind="JSON")
        far = server.add("p-value", order({"name": "x", "type": "int"}) | {"name": "P"})
        values = [
            framed(old, avro(order(), {"id": 1})),
            framed(new, avro(order(note), {"id": 2, "note": "b"})),
            framed(99, b"\2"),
            framed(other, b"\2"),
            framed(new, b"\2"),
            *[framed(old, avro(order(), {"id": number})) for number in range(100)],
        ]
        reader = AvroSchema(json.dumps(order(note)))
        by_writers = AvroByWriters(reader, RegistryAddress(server.url))

        found = decode_column(pa.array(values), reader.arrow_type, by_writers.decode, "PERMISSIVE").to_pylist()

        assert found[:5] == [{"id": 1, "note": "-"}, {"id": 2, "note": "b"}, None, None, None]
        assert len(found) == len(values)
        for wrong, sentence in (
            (values[2], "has no schema 99"),
            (values[3], "has a schema of type JSON, and not of AVRO"),
            (framed(far, b"\2\2"), "a value is not of the Avro schema"),
        ):
            with pytest.raises(DecodingError, match=sentence):
                decode_column(pa.array([wrong]), reader.arrow_type, by_writers.decode, "FAILFAST")
        assert [each for each in server.asked if each.startswith("GET /schemas")] == [
            f"GET /schemas/ids/{each}" for each in (old, new, 99, other, far)
        ]
        strangers = pa.array([framed(number, b"\2") for number in range(1000, 1000 + 2 * UNKNOWN_MAX)])
        with pytest.raises(RegistryError, match="is it another registry's topic"):
            decode_column(strangers, reader.arrow_type, by_writers.decode, "PERMISSIVE")
        assert len(server.asked) < 2 * UNKNOWN_MAX


def test_a_registry_that_fails_is_no_damaged_value() -> None:
    def decode(_value: bytes) -> Any:
        raise RegistryError("nobody answers")

    with pytest.raises(RegistryError):
        decode_column(pa.array([b"x"]), pa.string(), decode, "PERMISSIVE")


def descriptors() -> bytes:
    """`protoc` of a message with a scalar of each kind, a nested one, a map, an enum, repeated fields and a timestamp."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3", dependency=["timestamp.proto"])
    stamp = FileDescriptorProto(name="timestamp.proto", package="google.protobuf", syntax="proto3")
    stamp.message_type.add(name="Timestamp").field.extend(
        [
            FieldDescriptorProto(name="seconds", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL"),
            FieldDescriptorProto(name="nanos", number=2, type="TYPE_INT32", label="LABEL_OPTIONAL"),
        ]
    )
    file.enum_type.add(name="State").value.add(name="OPEN", number=0)
    file.enum_type[0].value.add(name="PAID", number=1)
    order: DescriptorProto = file.message_type.add(name="Order")

    def field(name: str, kind: str, label: str = "LABEL_OPTIONAL", type_name: str = "") -> FieldDescriptorProto:
        added: FieldDescriptorProto = order.field.add(name=name, number=len(order.field) + 1, type=kind, label=label)
        if type_name:
            added.type_name = type_name
        return added

    field("id", "TYPE_UINT64")
    field("count", "TYPE_UINT32")
    field("price", "TYPE_DOUBLE")
    note = field("note", "TYPE_STRING")
    note.proto3_optional, note.oneof_index = True, 0
    order.oneof_decl.add(name="_note")
    field("raw", "TYPE_BYTES")
    field("state", "TYPE_ENUM", type_name=".shop.State")
    field("tags", "TYPE_STRING", "LABEL_REPEATED")
    field("placed", "TYPE_MESSAGE", type_name=".google.protobuf.Timestamp")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    entry.field.add(name="value", number=2, type="TYPE_INT32", label="LABEL_OPTIONAL")
    field("counts", "TYPE_MESSAGE", "LABEL_REPEATED", ".shop.Order.CountsEntry")
    node = file.message_type.add(name="Node")
    node.field.add(name="next", number=1, type="TYPE_MESSAGE", label="LABEL_OPTIONAL", type_name=".shop.Node")
    made: bytes = FileDescriptorSet(file=[stamp, file]).SerializeToString()
    return made


def message(**fields: Any) -> bytes:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    order = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(**fields)
    made: bytes = order.SerializeToString()
    return made


def test_protobuf_has_a_column_for_every_field() -> None:
    order = ProtobufMessage(descriptors(), "shop.Order")
    full = message(
        id=2**64 - 1,
        count=2**32 - 1,
        price=1.5,
        note="",
        raw=b"\0\xff",
        state=1,
        tags=["a"],
        placed={"seconds": 1_700_000_000, "nanos": 123_456_789},
        counts={"x": 3},
    )

    decoded: list[Any] = decode_column(
        pa.array([full, b""]), order.arrow_type, lambda value: order.decode(value, 0), "FAILFAST"
    ).to_pylist()

    assert str(order.arrow_type) == (
        "struct<id: decimal128(20, 0), count: int64, price: double, note: string, raw: binary, state: string, "
        "tags: list<item: string>, placed: timestamp[us, tz=UTC], counts: map<string, int32>>"
    )
    assert decoded[0] == {
        "id": Decimal(2**64 - 1),
        "count": 2**32 - 1,
        "price": 1.5,
        "note": "",
        "raw": b"\0\xff",
        "state": "PAID",
        "tags": ["a"],
        "placed": datetime.fromtimestamp(1_700_000_000, UTC).replace(microsecond=123_456),
        "counts": [("x", 3)],
    }
    assert decoded[1]["note"] is None
    assert decoded[1]["placed"] is None
    assert decoded[1]["state"] == "OPEN"


def test_protobuf_that_has_no_columns_is_refused() -> None:
    with pytest.raises(ProtobufError, match=r"no message shop\.Nobody"):
        ProtobufMessage(descriptors(), "shop.Nobody")
    with pytest.raises(ProtobufError, match="the descriptor set is wrong"):
        ProtobufMessage(b"\xff\xff", "shop.Order")
    with pytest.raises(ProtobufError, match="holds itself"):
        ProtobufMessage(descriptors(), "shop.Node")
    with pytest.raises(ProtobufError, match=r"a value is no shop\.Order"):
        ProtobufMessage(descriptors(), "shop.Order").decode(b"\xff\xff\xff", 0)


def test_all_of_it_through_spark(spark: SparkSession) -> None:
    with schema_registry() as server:
        assert server.add("word-value", '"string"') == 1
        check_all_of_it(spark, server.url)


def check_all_of_it(spark: SparkSession, registry: str) -> None:
    order = {"id": 5, "price": 1.5}
    rows = [
        (
            json.dumps(order).encode(),
            framed(1, json.dumps(order).encode()),
            avro(PLAIN_ORDER, VALUE),
            framed(1, avro("string", "seven")),
            framed(1, b"\0" + message(id=9)),
        ),
        (b"{broken", b"short", b"\xff", b"\1", b"\xff"),
    ]
    frame = spark.createDataFrame(
        rows, "json binary, framed_json binary, avro binary, word binary, proto binary"
    ).coalesce(1)

    decoded = frame.select(
        from_json("json", "id bigint, price double").alias("json"),
        from_json("framed_json", "id bigint, price double", framed=True).alias("framed_json"),
        from_avro("avro", ORDER, mode="PERMISSIVE").alias("avro"),
        from_avro("word", subject="word-value", registry=registry, mode="PERMISSIVE").alias("word"),
        from_protobuf("proto", "shop.Order", descriptors(), framed=True, mode="PERMISSIVE").alias("proto"),
    ).collect()

    assert decoded[0]["json"].asDict() == decoded[0]["framed_json"].asDict() == order
    assert decoded[0]["avro"]["buyer"]["name"] == "Ada"
    assert decoded[0]["avro"]["price"] == Decimal("12.50")
    assert decoded[0]["word"] == "seven"
    assert decoded[0]["proto"]["id"] == Decimal(9)
    assert (decoded[1]["avro"], decoded[1]["word"], decoded[1]["proto"]) == (None, None, None)
    assert decoded[1]["json"]["id"] is None


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: from_avro("value", "{"), "the Avro schema is wrong"),
        (lambda: from_avro("value", '"string"', registry="http://h"), "it needs framed=True"),
        (lambda: from_protobuf("value", "A", b""), "no message A"),
        (lambda: from_json("value", "a int", mode="MAYBE"), "it can be FAILFAST or PERMISSIVE"),
    ],
)
def test_a_mistake_is_told_at_once(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(DecodingError, match=sentence):
        make()
