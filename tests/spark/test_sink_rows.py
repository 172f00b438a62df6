"""Which tables can be written, and what of their rows goes to which topic."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark.errors import OptionError, UnwritableError
from tidelog.spark.sink.sink_options import SinkOptions, parse_sink_options
from tidelog.spark.sink.sink_rows import SinkRows, check_columns

_KEY = StructField("key", StringType())
TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(StructType([_KEY, StructField("value", BinaryType())])),
    "keys": ArrayType(StructType([_KEY])),
    "map": MapType(StringType(), BinaryType()),
}


def options(**given: str) -> SinkOptions:
    return parse_sink_options({"kafka.bootstrap.servers": "127.0.0.1:9092", **given}, is_stream=True)


def schema(written: str) -> StructType:
    """A table's columns, as `value string, topic string`."""
    pairs = (each.split() for each in written.split(", "))
    return StructType([StructField(name, TYPES[kind]) for name, kind in pairs])


@pytest.mark.parametrize(
    "written",
    [
        "value string, topic string",
        "value binary, topic string, key string, partition int",
        "topic string, headers headers, key binary, value binary, timestamp timestamp",
        "value string, topic string, offset bigint, timestamp string, whatever double",
    ],
)
def test_what_the_connector_takes_is_taken(written: str) -> None:
    check_columns(options(), schema(written))
    check_columns(options(topic="orders"), schema(written))


def test_the_option_counts_more_than_the_column() -> None:
    check_columns(options(topic="orders"), schema("value string"))
    check_columns(options(topic="orders"), schema("value string, topic int"))


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("topic string, key string", "the column value is missing: the table has topic, key"),
        ("value string", "no topic is named: give the option topic, or each row a column topic"),
        ("value int, topic string", "the column value is of type int; it can be string or binary"),
        ("value string, topic string, key bigint", "the column key is of type bigint"),
        ("value string, topic binary", "the column topic is of type binary; it can be string"),
        ("value string, topic string, partition bigint", "the column partition is of type bigint; it can be int"),
        ("value string, topic string, headers map", "the column headers is of type map"),
        ("value string, topic string, headers keys", "the column headers is of type"),
        ("value string, value string, topic string", "the column value is there twice"),
    ],
)
def test_what_cannot_be_written_is_told(written: str, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        check_columns(options(), schema(written))


def test_a_timestamp_that_is_asked_for_has_to_be_one() -> None:
    with pytest.raises(OptionError, match="there is no column timestamp"):
        check_columns(options(includeTimestamp="true"), schema("value string, topic string"))
    with pytest.raises(OptionError, match="the column timestamp is of type bigint; it can be timestamp"):
        check_columns(options(includeTimestamp="true"), schema("value string, topic string, timestamp bigint"))


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_rows_go_to_the_topics_that_they_name_in_their_order() -> None:
    rows = batch(value=["1", "2", "3", "4"], topic=["b", "a", "b", "b"], key=["x", None, "y", "z"], other=[1, 2, 3, 4])

    found = [(topic, records.to_pydict()) for topic, records in SinkRows(options()).by_topic(rows)]

    assert found == [
        ("b", {"value": ["1", "3", "4"], "key": ["x", "y", "z"]}),
        ("a", {"value": ["2"], "key": [None]}),
    ]


def test_the_option_names_the_topic_of_all_rows() -> None:
    rows = batch(value=["1", "2"], topic=["b", None])
    found = [(topic, records.to_pydict()) for topic, records in SinkRows(options(topic="orders")).by_topic(rows)]
    assert found == [("orders", {"value": ["1", "2"]})]


@pytest.mark.parametrize(("asked", "expected"), [("false", ["value"]), ("true", ["value", "timestamp"])])
def test_a_timestamp_counts_where_asked_for(asked: str, expected: list[str]) -> None:
    rows = batch(value=["1"], timestamp=[5])
    ((_, records),) = SinkRows(options(topic="t", includeTimestamp=asked)).by_topic(rows)
    assert records.schema.names == expected


def test_a_row_without_a_topic_is_told() -> None:
    with pytest.raises(UnwritableError, match="a row has no topic: its column topic is null"):
        list(SinkRows(options()).by_topic(batch(value=["1", "2"], topic=["a", None])))


def test_no_rows_go_nowhere() -> None:
    assert list(SinkRows(options()).by_topic(batch(value=["1"], topic=["a"]).slice(1))) == []
