"""Values that confluent-kafka's own serializers write and read, and a registry in between."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import SparkSession

from tests.support.confluent_formats import (
    FORMATS,
    JSON,
    MESSAGE,
    NEWER_PROTO,
    PROTO,
    TheirFormats,
    check_both_ways,
    message_class,
    reading,
)
from tests.support.schema_registry import schema_registry
from tidelog.spark.formats.registry_framing import frame, protobuf_frame
from tidelog.spark.formats.schema_registry import RegistryAddress
from tidelog.spark.pipelines import Protobuf
from tidelog.spark.testing_kit.given_records import columns_of, encoded_rows


@pytest.mark.parametrize("name", FORMATS)
def test_values_go_both_ways(name: str, spark: SparkSession) -> None:
    with schema_registry() as server, SchemaRegistryClient({"url": server.url}) as client:
        check_both_ways(spark, TheirFormats(client), RegistryAddress(server.url), name)


def test_a_message_is_read_whichever_schema_it_was_written_by_as_long_as_that_fits(spark: SparkSession) -> None:
    with schema_registry() as server:
        old = server.add("o-value", PROTO, "PROTOBUF")
        column = reading("protobuf", "o-value", RegistryAddress(server.url))
        newer = server.add("newer", NEWER_PROTO, "PROTOBUF")
        other = server.add("other", PROTO.replace("int64 id", "string id"), "PROTOBUF")
        avro = server.add("avro", '"string"')
        order = message_class(PROTO)(id=5, tags=["x"]).SerializeToString()
        grown = message_class(NEWER_PROTO)(id=6, price=1.5).SerializeToString()
        values = [
            protobuf_frame(old, [1]) + order,
            protobuf_frame(newer, [1]) + grown,
            protobuf_frame(old, [0]) + order,
            protobuf_frame(old, [7]) + order,
            protobuf_frame(other, [1]) + order,
            protobuf_frame(avro, [0]) + order,
            protobuf_frame(99, [1]) + order,
            b"no frame",
        ]

        assert [None if row is None else row["id"] for row in read(spark, column, values)] == [5, 6, *[None] * 6]


def test_json_is_read_by_columns_that_its_schema_fits_and_ids_are_asked_for_once(spark: SparkSession) -> None:
    with schema_registry() as server:
        old = server.add("o-value", JSON, "JSON")
        column = reading("json", "o-value", RegistryAddress(server.url))
        first = read(spark, column, [frame(old) + b'{"id": 1, "name": "a"}'] * 3)
        # While the query runs; its columns stay.
        grown = {**JSON, "properties": {**JSON["properties"], "price": {"type": "number"}}}
        newer = server.add("o-value", grown, "JSON")
        changed = server.add("changed", {"type": "object", "properties": {"name": {"type": "integer"}}}, "JSON")
        avro = server.add("avro", '"string"')
        server.asked.clear()
        values = [
            frame(newer) + b'{"id": 2, "price": 1.5}',
            frame(newer) + b'{"id": 3}',
            frame(changed) + b'{"name": 4}',
            frame(avro) + b'{"id": 5}',
            frame(99) + b'{"id": 6}',
            b'{"id": 7}',
            b'{"id',
        ]

        second = read(spark, column, values)

    assert [row["id"] for row in first] == [1, 1, 1]
    assert [None if row is None else row["id"] for row in second] == [2, 3, *[None] * 5]
    assert sorted(set(server.asked)) == sorted(server.asked), "one task asks once for an id"


def read(spark: SparkSession, column: Any, values: list[bytes]) -> list[Any]:
    frame = spark.createDataFrame([(each,) for each in values], "value binary").coalesce(1)
    return [each["row"] for each in frame.select(column.alias("row")).collect()]


def test_rows_that_a_test_gives_are_values_of_the_subject_that_a_source_reads_by(spark: SparkSession) -> None:
    with schema_registry() as server:
        number = server.add("o-value", PROTO, "PROTOBUF")
        decoder = Protobuf(MESSAGE, subject="o-value", registry=server.url)

        (value,) = encoded_rows([{"id": 5, "name": "a"}], "orders", decoder, columns_of(spark, decoder))

    assert value[:7] == protobuf_frame(number, [1])
    assert message_class(PROTO).FromString(value[7:]).name == "a"
