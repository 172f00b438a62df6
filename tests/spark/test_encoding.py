"""Rows as values: what a schema takes, what is made of it, and that it is read back; without Spark, but for one test."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]
from pyspark.sql import SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tests.support.schema_registry import schema_registry
from tidelog.spark.decoding import from_avro, from_json
from tidelog.spark.encoding import EncodingError, to_avro, to_json
from tidelog.spark.formats.avro_columns import AvroError, AvroSchema
from tidelog.spark.formats.avro_rows import AvroRows
from tidelog.spark.formats.derived_schemas import UnnamedTypeError, avro_schema_of, json_schema_of, record_name
from tidelog.spark.formats.json_columns import JsonSchema, JsonSchemaError
from tidelog.spark.formats.schema_registry import RegistryError


def struct(columns: Mapping[str, Any]) -> pa.StructType:
    fields: list[Any] = [pa.field(name, kind) for name, kind in columns.items()]
    return pa.struct(fields)


AT = pa.timestamp("us", "UTC")
COLUMNS: Any = struct(
    {
        "small": pa.int16(),
        "id": pa.int64(),
        "ok": pa.bool_(),
        "ratio": pa.float32(),
        "price": pa.decimal128(9, 2),
        "at": AT,
        "local": pa.timestamp("us"),
        "day": pa.date32(),
        "raw": pa.binary(),
        "tags": pa.list_(pa.string()),
        "counts": pa.map_(pa.string(), pa.int32()),
        "buyer": struct({"name": pa.string(), "seen": pa.list_(AT)}),
    }
)
ROW: dict[str, Any] = {
    "small": 3,
    "id": 2**40,
    "ok": True,
    "ratio": 0.5,
    "price": Decimal("-12.50"),
    "at": datetime(2024, 5, 1, 12, 0, 0, 123456, UTC),
    "local": datetime(2024, 5, 1, 12, 0, 0, 7),  # noqa: DTZ001 - no instant
    "day": date(2024, 5, 1),
    "raw": b"\0\xff",
    "tags": ["a", None],
    "counts": [("x", 1), ("y", None)],
    "buyer": {"name": "Ada", "seen": [datetime(1969, 12, 31, 23, 59, 59, 5, UTC)]},
}


def rows(*given: Mapping[str, Any] | None, kind: pa.DataType = COLUMNS) -> Any:
    return pa.array(given, kind)


def record(**fields: Any) -> str:
    return json.dumps({"type": "record", "name": "O", "fields": [{"name": n, "type": t} for n, t in fields.items()]})


def test_rows_are_read_back_as_they_were_by_a_schema_that_is_made_of_their_columns() -> None:
    schema = AvroSchema(avro_schema_of(COLUMNS, record_name("shop.orders-value")))
    nothing = dict.fromkeys(ROW)

    values = AvroRows(schema, COLUMNS).encode(rows(ROW, None, nothing))

    assert schema.parsed["name"] == "shop_orders"
    assert values[1] is None
    found = [schema.decode(each, 0, schema) for each in values if each is not None]
    assert rows(*found, kind=schema.arrow_type).to_pylist() == [ROW, nothing]
    # And by a reader of Avro that knows nothing of ours.
    read: Any = fastavro.schemaless_reader(io.BytesIO(values[0] or b""), json.loads(json.dumps(schema.parsed)), None)
    assert read["at"] == ROW["at"]
    assert read["buyer"] == ROW["buyer"]
    assert read["counts"] == dict(ROW["counts"])


def test_a_schema_may_be_wider_than_the_columns() -> None:
    schema = AvroSchema(
        json.dumps(
            {
                "type": "record",
                "name": "O",
                "fields": [
                    {"name": "n", "type": "double"},
                    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                    {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
                    {"name": "more", "type": "string", "default": "-"},
                    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 4}},
                ],
            }
        )
    )
    kind = struct({"n": pa.int32(), "at": AT, "kind": pa.string(), "price": pa.decimal128(9, 2)})
    writing = AvroRows(schema, kind)

    (value,) = writing.encode(rows({"n": 7, "at": ROW["at"], "kind": "B", "price": Decimal("1.25")}, kind=kind))

    assert rows(schema.decode(value or b"", 0, schema), kind=schema.arrow_type).to_pylist() == [
        {"n": 7.0, "at": ROW["at"].replace(microsecond=123000), "kind": "B", "more": "-", "price": Decimal("1.2500")}
    ]
    with pytest.raises(AvroError, match="a row is not of the Avro schema"):
        writing.encode(rows({"n": 7, "at": ROW["at"], "kind": "C", "price": Decimal(1)}, kind=kind))
    with pytest.raises(AvroError, match="the column n is null in a row, and the Avro schema takes no null there"):
        writing.encode(rows({"n": None, "at": ROW["at"], "kind": "A", "price": Decimal(1)}, kind=kind))


@pytest.mark.parametrize(
    ("fields", "columns", "sentence"),
    [
        ({"a": "int"}, {"a": pa.int64()}, r"the column a is of type int64, and the Avro schema has int there"),
        ({"a": "long"}, {"a": pa.string()}, "the column a is of type string"),
        ({"a": {"type": "int", "logicalType": "date"}}, {"a": pa.int32()}, r"the Avro schema has int \(date\) there"),
        ({"a": "long"}, {"a": AT}, "the column a is of type timestamp"),
        ({"a": "double"}, {"a": pa.decimal128(3, 1)}, "the column a is of type decimal"),
        ({"a": "int"}, {"b": pa.int32()}, "has a field a, and there is no such column; the column b is no field"),
        ({"a": {"type": "record", "name": "R", "fields": []}}, {"a": struct({"x": AT})}, r"the column a\.x is no"),
        ({"a": ["int", "string"]}, {"a": pa.int32()}, "a union of 2 types"),
        (
            {"a": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 3}},
            {"a": pa.decimal128(4, 2)},
            "the column a is of type decimal",
        ),
    ],
)
def test_a_schema_that_would_change_values_is_refused(
    fields: dict[str, Any], columns: dict[str, pa.DataType], sentence: str
) -> None:
    with pytest.raises(AvroError, match=sentence):
        AvroRows(AvroSchema(record(**fields)), struct(columns))


def test_what_is_no_record_takes_no_rows() -> None:
    with pytest.raises(AvroError, match="the Avro schema is of no record"):
        AvroRows(AvroSchema('"string"'), COLUMNS)


def test_columns_without_a_type_or_a_name_have_no_schema() -> None:
    with pytest.raises(UnnamedTypeError, match="the column d is of type duration"):
        avro_schema_of(struct({"d": pa.duration("us")}), "O")
    with pytest.raises(UnnamedTypeError, match="the column d is of type duration"):
        json_schema_of(struct({"d": pa.duration("us")}), "O")
    with pytest.raises(UnnamedTypeError, match="'a b' cannot be the name of an Avro field"):
        avro_schema_of(struct({"a b": pa.int32()}), "O")
    assert record_name("1-value") == "_1"


ITEM = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
JSON_ORDER: dict[str, Any] = {
    "$id": "http://shop/order.json",
    "type": "object",
    "required": ["id", "buyer"],
    "properties": {
        "id": {"type": "integer"},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "price": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "state": {"enum": ["OPEN", "PAID"]},
        "items": {"type": "array", "items": {"$ref": "#/definitions/Item"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "buyer": {"$ref": "buyer.json"},
    },
    "additionalProperties": False,
    "definitions": {"Item": ITEM},
}
BUYER = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


def json_order(**changes: Any) -> JsonSchema:
    return JsonSchema(json.dumps(JSON_ORDER | changes), {"buyer.json": json.dumps(BUYER)})


def test_a_json_schema_has_a_column_for_every_property() -> None:
    schema = json_order()

    assert str(schema.arrow_type) == (
        "struct<id: int64, note: string, price: double, at: timestamp[us, tz=UTC], day: date32[day], state: string, "
        "items: list<item: struct<sku: string, count: int64>>, counts: map<string, int64>, buyer: struct<name: string>>"
    )
    assert schema.unfitting(schema.arrow_type) == []
    assert schema.required(schema.arrow_type) == [("id",), ("buyer",), ("buyer", "name")]


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ("{", "the JSON schema is wrong"),
        ("[" * 100_000, "nested too deeply"),
        ('{"type": "string"}', "of no object with properties"),
        ('{"properties": {"a": {}}}', "a has no column: its JSON schema says nothing"),
        ('{"properties": {"a": {"type": ["string", "integer"]}}}', "a has no column: it has 2 types"),
        (
            '{"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}',
            "it can be one of several things",
        ),
        ('{"properties": {"a": {"$ref": "#/nowhere"}}}', "refers to '#/nowhere', which is not there"),
        ('{"properties": {"a": {"$ref": "#"}}}', "holds itself"),
        ('{"properties": {"a": {"$ref": "#/properties/a"}}}', "lead in a circle"),
    ],
)
def test_a_json_schema_without_columns_is_refused(schema: str, sentence: str) -> None:
    with pytest.raises(JsonSchemaError, match=sentence):
        _ = JsonSchema(schema).arrow_type


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"id": pa.string()}, "the column id is of type string, and the JSON schema has integer there"),
        ({"id": pa.int32(), "x": pa.int32()}, "the column x is no property of the JSON schema"),
        ({"buyer": struct({"x": AT})}, "requires a property buyer.name, and there is no such column"),
        ({"note": pa.string()}, "requires a property id, and there is no such column"),
        ({"items": pa.list_(struct({"sku": pa.int32()}))}, "the column items.sku is of type int32"),
        ({"counts": pa.map_(pa.string(), pa.string())}, "the column counts is of type string"),
        ({"price": pa.bool_()}, "the column price is of type bool"),
    ],
)
def test_columns_that_a_json_schema_does_not_take_are_told(columns: dict[str, pa.DataType], sentence: str) -> None:
    assert any(sentence in each for each in json_order().unfitting(struct(columns)))


def test_rows_are_written_and_read_by_what_a_subject_says(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(1, "apples", datetime(2024, 5, 1, 12, 0, 0, 5, UTC), [("x", 1)]), (2, None, None, None)],
        "id bigint, product string, at timestamp, pairs array<struct<a: string, b: int>>",
    ).coalesce(1)
    row, columns = F.struct("*"), frame.schema
    values: list[bytes] = []
    with schema_registry() as server:

        def written(encode: Any, subject: str, **how: Any) -> list[bytes]:
            value = encode(row, columns, subject=subject, registry=server.url, **how)
            return [bytes(each[0]) for each in frame.select(value).collect()]

        # The first time it is registered, the second time found, and then it is the subject's own.
        for encode, read in ((to_avro, from_avro), (to_json, from_json)):
            subject = f"{encode.__name__}-value"
            with pytest.raises(RegistryError, match="has no subject"):
                encode(row, columns, subject=subject, registry=server.url)
            encode(row, columns, subject=subject, registry=server.url, register=True)
            assert subject not in server.subjects
            values = written(encode, subject, register=True)
            assert len(server.subjects[subject]) == 1
            assert values == written(encode, subject, register=True) == written(encode, subject)
            again = spark.createDataFrame([(each,) for each in [*values, None]], "value binary").coalesce(1)
            found = again.select(read("value", subject=subject, registry=server.url, mode="FAILFAST").alias("o"))
            assert found.select("o.*").collect() == [*frame.collect(), (None, None, None, None)]
        json_values = [json.loads(each[5:]) for each in values]
        schema = json.loads(server.schemas[server.subjects["to_json-value"][0]]["schema"])
        assert [list(Draft7Validator(schema).iter_errors(each)) for each in json_values] == [[], []]

        server.add("narrow-value", record(id="int"))
        with pytest.raises(EncodingError, match="the subject narrow-value: the column id is of type int64"):
            to_avro(row, columns, subject="narrow-value", registry=server.url)
        with pytest.raises(RegistryError, match="does not take the schema"):
            to_avro(row, columns, subject="narrow-value", registry=server.url, register=True, schema=record(x="int"))
        strict = json.loads(json_schema_of(struct({"id": pa.int64(), "product": pa.string()}), "s"))
        server.add("strict-value", strict | {"required": ["product"]}, "JSON")
        narrow = frame.select("id", "product")
        encoded = to_json(F.struct("*"), narrow.schema, subject="strict-value", registry=server.url)
        with pytest.raises(Exception, match="the column product is null in a row, and the JSON schema requires it"):
            narrow.select(encoded).collect()
