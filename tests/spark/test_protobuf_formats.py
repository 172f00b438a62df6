"""Protobuf schemas as text, and rows as messages: what is read and written, and what is refused."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from tests.support.confluent_formats import compiled
from tidelog.spark.formats.protobuf_columns import ProtobufError, ProtobufMessage, message_descriptor, misread_fields
from tidelog.spark.formats.protobuf_files import descriptor_set_of, message_indexes, message_name, schema_of
from tidelog.spark.formats.protobuf_rows import ProtobufRows
from tidelog.spark.formats.protobuf_text import ProtoTextError, file_of
from tidelog.spark.formats.schema_registry import PROTOBUF, ReferencedText, Schema

ORDER = """
// What an order is.
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
option java_package = "shop";
/* Two names
   of one number. */
enum State { option allow_alias = true; OPEN = 0; PAID = 1; SETTLED = 1 [deprecated = true]; LOST = -2; reserved 5 to 7; }
message Order {
  message Item {
    enum Kind { A = 0; B = 1; }
    string sku = 1;
    optional sint32 count = 2;
    Kind kind = 3;
  }
  uint64 id = 1;
  optional string note = 2;
  repeated Item items = 3;
  map<string, int32> some_counts = 4;
  map<int64, .shop.v1.Order.Item> by_number = 0x5;
  State state = 6;
  oneof pay { string card = 010; double cash = 9; }
  optional google.protobuf.Timestamp at = 10;
  repeated google.protobuf.Timestamp seen = 11;
  repeated int32 numbers = 12 [packed = false, deprecated = true];
  bytes raw = 13;
  float ratio = 14;
  uint32 count = 15;
  reserved 20, 30 to max;
  reserved "old";
}
service Orders { rpc Get (Order) returns (stream Order) { option deprecated = true; } rpc Put (Order) returns (Order); }
message Two { Order order = 1; Two inner = 2; };
"""
PROTO2 = """
syntax = 'proto2';
message Old {
  extensions 100 to 199;
  required int32 id = 1 [default = -7, json_name = "the [id]"];
  optional string text = 2 [default = "a } \\" b"];
  repeated fixed64 numbers = 3 [packed = true];
}
extend Old { optional int32 more = 100; }
"""


@pytest.mark.parametrize("text", [ORDER, PROTO2])
def test_text_is_read_as_the_compiler_reads_it(text: str) -> None:
    files = FileDescriptorSet.FromString(compiled(text)).file

    assert without_what_is_passed_over(file_of(text, "order.proto"), files[:-1]) == without_what_is_passed_over(
        files[-1], files[:-1]
    )


def without_what_is_passed_over(file: FileDescriptorProto, others: Any) -> FileDescriptorProto:
    """As a pool has it, which looks up the names of types."""
    pool = DescriptorPool()
    for each in others:
        pool.Add(each)
    pool.Add(file)
    found = FileDescriptorProto()
    pool.FindFileByName("order.proto").CopyToProto(found)
    for name in ("options", "service", "extension"):
        found.ClearField(name)
    for message in found.message_type:
        _strip(message)
    for enum in found.enum_type:
        _strip_enum(enum)
    return found


def _strip(message: DescriptorProto) -> None:
    for name in ("reserved_range", "reserved_name", "extension_range"):
        message.ClearField(name)
    for field in message.field:
        field.ClearField("json_name")
        field.ClearField("default_value")
        field.options.ClearField("deprecated")
        if not field.options.ByteSize():
            field.ClearField("options")
    for inner in message.nested_type:
        _strip(inner)
    for enum in message.enum_type:
        _strip_enum(enum)


def _strip_enum(enum: EnumDescriptorProto) -> None:
    enum.ClearField("reserved_range")
    for value in enum.value:
        value.ClearField("options")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('syntax = "proto4";', "near line 1: the syntax is 'proto4'"),
        ('edition = "2023";', "files of editions are not read here"),
        ("message A {\n\n int32 = 1; }", "near line 3: there is '1', where '=' should be"),
        ("message A { int32 a = b; }", "there is 'b', where a number should be"),
        ("message A { int32 a = 1;", "the message A has no end"),
        ("message A { oneof b {", "a oneof has no end"),
        ("enum A {", "the enum A has no end"),
        ("service A { rpc", "a { has no end"),
        ("message A { repeated group B = 1 {} }", "groups are not read here"),
        ("hello", "there is 'hello', where a message or the like should begin"),
        ("syntax = proto3;", "there is 'proto3', where a text in quotes should be"),
        (r'import "\x";', "is no text"),
        ("message A { ! }", "wrong in line 1: there is '!'"),
        ("message A {" * 100, "nested deeper than 64"),
    ],
)
def test_text_that_is_no_schema_is_told(text: str, sentence: str) -> None:
    with pytest.raises(ProtoTextError) as caught:
        file_of(text, "a.proto")
    assert sentence in str(caught.value)


def test_a_schema_comes_as_text_or_as_a_descriptor_and_with_what_it_refers_to() -> None:
    item = 'syntax = "proto3"; package shop; message Item { string sku = 1; }'
    order = 'syntax = "proto3"; package shop; import "item.proto"; message Order { message In { Item item = 1; } In in = 1; }'
    references = (ReferencedText("item.proto", item),)
    files = descriptor_set_of(Schema(PROTOBUF, order, references))

    own = base64.b64encode(FileDescriptorSet.FromString(files).file[-1].SerializeToString()).decode()
    again = descriptor_set_of(Schema(PROTOBUF, own, references))

    assert again == files
    assert message_name(files, (0, 0)) == "shop.Order.In"
    assert message_indexes(message_descriptor(files, "shop.Order.In")) == (0, 0)
    for wrong in ((1,), (0, 7), (0, -1)):
        with pytest.raises(ProtobufError, match="the schema has none there"):
            message_name(files, wrong)
    with pytest.raises(ProtobufError, match=r"imports item\.proto, which it does not refer to"):
        descriptor_set_of(Schema(PROTOBUF, order))
    with pytest.raises(ProtobufError, match=r"the file of shop\.Order imports item\.proto: register both"):
        schema_of(files, "shop.Order")
    with pytest.raises(ProtobufError, match="near line 1"):
        descriptor_set_of(Schema(PROTOBUF, "AAAA"))


AT = pa.timestamp("us", "UTC")


def struct(columns: Mapping[str, Any]) -> pa.StructType:
    fields: list[Any] = [pa.field(name, kind) for name, kind in columns.items()]
    return pa.struct(fields)


ITEM = struct({"sku": pa.string(), "count": pa.int32(), "kind": pa.string()})
COLUMNS = struct(
    {
        "id": pa.decimal128(20, 0),
        "note": pa.string(),
        "items": pa.list_(ITEM),
        "some_counts": pa.map_(pa.string(), pa.int32()),
        "by_number": pa.map_(pa.int64(), ITEM),
        "state": pa.string(),
        "cash": pa.float64(),
        "at": AT,
        "seen": pa.list_(AT),
        "numbers": pa.list_(pa.int16()),
        "raw": pa.binary(),
        "ratio": pa.float32(),
        "count": pa.int64(),
    }
)
MOMENT = datetime(1969, 12, 31, 23, 59, 59, 5, UTC)
ROW: dict[str, Any] = {
    "id": Decimal(2**64 - 1),
    "note": "",
    "items": [{"sku": "a", "count": -1, "kind": "B"}, {"sku": "", "count": None, "kind": "A"}],
    "some_counts": [("x", 1)],
    "by_number": [(-5, {"sku": "b", "count": 3, "kind": "A"})],
    "state": "PAID",
    "cash": 0.5,
    "at": MOMENT,
    "seen": [MOMENT, datetime(2026, 11, 19, tzinfo=UTC)],
    "numbers": [1, -2],
    "raw": b"\0\xff",
    "ratio": 0.25,
    "count": 2**32 - 1,
}


def test_rows_are_read_back_as_they_were() -> None:
    files = compiled(ORDER)
    nulls = {**ROW, "note": None, "cash": None, "at": None, "state": "-2"}

    values = ProtobufRows(files, "shop.v1.Order", COLUMNS).encode(pa.array([ROW, None, nulls], COLUMNS))  # type: ignore[arg-type]

    order = ProtobufMessage(files, "shop.v1.Order")
    assert values[1] is None
    found: pa.Array[Any] = pa.array([order.decode(each, 0) for each in values if each is not None], order.arrow_type)
    assert found.to_pylist() == [{**ROW, "card": None}, {**nulls, "card": None, "state": "LOST"}]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"id": pa.int64(), "price": pa.float64()}, "the column price is no field of shop.v1.Order"),
        ({"note": pa.int64()}, "the column note is of type int64, and the message has string there"),
        ({"ratio": pa.float64()}, "the column ratio is of type double, and the message has float there"),
        ({"raw": pa.string()}, "the message has bytes there"),
        ({"at": pa.timestamp("us")}, "the message has google.protobuf.Timestamp there"),
        ({"items": ITEM}, "the message has a list of shop.v1.Order.Item there"),
        ({"items": pa.list_(pa.string())}, "the column items is of type string"),
        ({"some_counts": pa.list_(pa.int32())}, "the message has a map there"),
        ({"by_number": pa.map_(pa.string(), ITEM)}, "the column by_number.key is of type string"),
        ({"id": pa.decimal128(10, 2)}, "the message has uint64 there"),
    ],
)
def test_a_message_that_would_change_values_is_refused(columns: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ProtobufError) as caught:
        ProtobufRows(compiled(ORDER), "shop.v1.Order", struct(columns))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "row", "sentence"),
    [
        ({"id": pa.int64()}, {"id": None}, "the column id is null in a row, and shop.v1.Order has no null there"),
        ({"id": pa.int64()}, {"id": -1}, "a row is no shop.v1.Order"),
        ({"count": pa.int64()}, {"count": 2**32}, "a row is no shop.v1.Order"),
        ({"state": pa.string()}, {"state": "NONE"}, "a row is no shop.v1.Order"),
        ({"numbers": pa.list_(pa.int32())}, {"numbers": None}, "the column numbers is null"),
        ({"numbers": pa.list_(pa.int32())}, {"numbers": [None]}, "an element of the column numbers is null"),
        ({"items": pa.list_(ITEM)}, {"items": [{"sku": None}]}, "the column items.sku is null"),
        ({"card": pa.string(), "cash": pa.float64()}, {"card": "c", "cash": 1.0}, "a row has card and cash, and"),
    ],
)
def test_a_row_that_is_none_of_the_message_is_told(columns: dict[str, Any], row: Any, sentence: str) -> None:
    kind = struct(columns)
    with pytest.raises(ProtobufError) as caught:
        ProtobufRows(compiled(ORDER), "shop.v1.Order", kind).encode(pa.array([row], kind))  # type: ignore[arg-type]
    assert sentence in str(caught.value)


def test_what_a_message_requires_has_to_be_a_column() -> None:
    with pytest.raises(ProtobufError, match="Old requires id, and there is no such column"):
        ProtobufRows(compiled(PROTO2), "Old", struct({"text": pa.string()}))
    kind = struct({"id": pa.int32()})
    with pytest.raises(ProtobufError, match="the column id is null in a row"):
        ProtobufRows(compiled(PROTO2), "Old", kind).encode(pa.array([{"id": None}], kind))  # type: ignore[arg-type]


def test_fields_that_are_another_thing_on_the_wire_are_found() -> None:
    read = message_descriptor(compiled(ORDER), "shop.v1.Two")
    changed = ORDER.replace("optional sint32 count = 2", "optional int32 count = 2").replace("bytes raw", "string raw")
    changed = changed.replace("float ratio", "double ratio").replace("uint64 id", "sint64 id")

    written = message_descriptor(compiled(changed), "shop.v1.Two")

    assert misread_fields(written, read) == [
        "order.id",
        "order.items.count",
        "order.by_number.value.count",
        "order.ratio",
    ]
    assert misread_fields(read, read) == []
