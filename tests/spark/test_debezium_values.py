"""Values of every kind that Debezium has, as columns of every type that takes them."""

# ruff: noqa: DTZ001 - times without a zone are among what is tested

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from tidelog.spark.pipelines.debezium.column_values import ValueUnreadableError, is_readable, value_reader
from tidelog.spark.pipelines.debezium.value_kinds import (
    DECIMAL,
    VARIABLE_DECIMAL,
    Kind,
    KindError,
    kind_of_avro,
    kind_of_connect,
)

TIME, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
LOCAL, MOMENT, TEXT = pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.string()
US = 1_795_032_550_123_456


def read(kind: Kind | None, target: pa.DataType, value: Any) -> Any:
    """Through Arrow: what a column has in the end."""
    made: Any = pa.array([value_reader(kind, target)(value)], target)
    return made.to_pylist()[0]


@pytest.mark.parametrize(
    ("kind", "target", "value", "right"),
    [
        (Kind("int64", f"{TIME}Timestamp"), LOCAL, US // 1000, datetime(2026, 11, 18, 20, 9, 10, 123000)),
        (Kind("int64", f"{TIME}MicroTimestamp"), LOCAL, US, datetime(2026, 11, 18, 20, 9, 10, 123456)),
        (Kind("int64", f"{TIME}NanoTimestamp"), LOCAL, US * 1000 + 789, datetime(2026, 11, 18, 20, 9, 10, 123456)),
        (Kind("int64", f"{TIME}NanoTimestamp"), TEXT, US * 1000 + 789, "2026-11-18T20:09:10.123456789"),
        (Kind("int64", f"{TIME}NanoTimestamp"), pa.int64(), US * 1000 + 789, US * 1000 + 789),
        (Kind("int64", f"{TIME}NanoTimestamp"), LOCAL, -1, datetime(1969, 12, 31, 23, 59, 59, 999999)),
        (Kind("int64", f"{CONNECT}Timestamp"), MOMENT, -1, datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
        (
            Kind("string", f"{TIME}ZonedTimestamp"),
            MOMENT,
            "2026-11-18T20:09:10+01:00",
            datetime(2026, 11, 18, 19, 9, 10, tzinfo=UTC),
        ),
        (
            Kind("string", f"{TIME}ZonedTimestamp"),
            MOMENT,
            "2026-11-18T20:09Z",
            datetime(2026, 11, 18, 20, 9, tzinfo=UTC),
        ),
        (Kind("string", f"{TIME}ZonedTimestamp"), TEXT, "2026-11-18T20:09:10Z", "2026-11-18T20:09:10Z"),
        (
            Kind("string", f"{TIME}IsoTimestamp"),
            LOCAL,
            "1969-12-31T23:59:59.999999",
            datetime(1969, 12, 31, 23, 59, 59, 999999),
        ),
        (Kind("int32", f"{TIME}Date"), pa.date32(), -1, date(1969, 12, 31)),
        (Kind("int32", f"{CONNECT}Date"), pa.date32(), 2932896, date(9999, 12, 31)),
        (Kind("string", f"{TIME}IsoDate"), pa.date32(), "2026-11-18Z", date(2026, 11, 18)),
        (Kind("int32", f"{TIME}Time"), TEXT, 86_399_999, "23:59:59.999"),
        (Kind("int64", f"{TIME}MicroTime"), TEXT, 86_400_000_000, "24:00:00"),
        (Kind("int64", f"{TIME}MicroTime"), TEXT, -3_020_399_000_000, "-838:59:59"),
        (Kind("int64", f"{TIME}NanoTime"), TEXT, 1, "00:00:00.000000001"),
        (Kind("int32", f"{CONNECT}Time"), pa.int32(), 5, 5),
        (Kind("string", f"{TIME}ZonedTime"), TEXT, "10:59:59Z", "10:59:59Z"),
        (Kind("string", f"{TIME}IsoTime"), TEXT, "10:59:59Z", "10:59:59Z"),
        (Kind("int64", f"{TIME}MicroDuration"), TEXT, -1_500_000, "PT-1.5S"),
        (Kind("int64", f"{TIME}NanoDuration"), TEXT, 2_000_000_000, "PT2S"),
        (Kind("string", f"{TIME}Interval"), TEXT, "P1Y", "P1Y"),
        (Kind("bytes", DECIMAL, 2), pa.decimal128(10, 2), b"\x04\xd2", Decimal("12.34")),
        (Kind("bytes", DECIMAL, 0), pa.decimal128(10, 2), "/w==", Decimal("-1.00")),
        (Kind("bytes", DECIMAL, -3), pa.decimal128(10, 0), "Ag==", Decimal(2000)),
        (Kind("bytes", DECIMAL, 2), pa.float64(), "BNI=", 12.34),
        (Kind("bytes", DECIMAL, 2), TEXT, "BNI=", "12.34"),
        (Kind("struct", VARIABLE_DECIMAL), pa.decimal128(10, 2), {"scale": 1, "value": "Cw=="}, Decimal("1.10")),
        (Kind("struct", VARIABLE_DECIMAL), TEXT, {"scale": -2, "value": b"\x01"}, "100"),
        (Kind("string"), pa.decimal128(10, 2), "-0.10", Decimal("-0.10")),
        (Kind("double"), pa.decimal128(10, 2), 0.1, Decimal("0.10")),
        (None, pa.decimal128(10, 2), 7, Decimal("7.00")),
        (None, pa.decimal128(3, 1), {"scale": 1, "value": "Cw=="}, Decimal("1.1")),
        (Kind("double"), pa.float64(), "-Infinity", float("-inf")),
        (Kind("bytes"), pa.binary(), "AP8=", b"\x00\xff"),
        (Kind("bytes"), pa.binary(), b"\x00\xff", b"\x00\xff"),
        (Kind("map", items=Kind("string")), pa.map_(TEXT, TEXT), {"a": "b"}, [("a", "b")]),
        (
            Kind("struct", fields={"at": Kind("int32", f"{TIME}Date")}),
            pa.struct([("at", pa.date32()), ("more", TEXT)]),
            {"at": 0},
            {"at": date(1970, 1, 1), "more": None},
        ),
        (None, TEXT, {"a": [1, True]}, '{"a":[1,true]}'),
        (None, TEXT, True, "true"),
        (None, pa.int64(), None, None),
    ],
)
def test_a_value_as_its_column_has_it(kind: Kind | None, target: pa.DataType, value: Any, right: Any) -> None:
    assert read(kind, target, value) == right


@pytest.mark.parametrize(
    ("kind", "target", "value"),
    [
        # Infinite dates and times of PostgreSQL.
        (Kind("int32", f"{TIME}Date"), pa.date32(), 2**31 - 1),
        (Kind("int64", f"{TIME}MicroTimestamp"), LOCAL, 9_223_372_036_825_200_000),
        (Kind("int64", f"{TIME}MicroTimestamp"), TEXT, -9_223_372_036_832_400_000),
        (Kind("string", f"{TIME}ZonedTimestamp"), MOMENT, "+292278994-08-16T23:00:00Z"),
        (Kind("string", f"{TIME}ZonedTimestamp"), MOMENT, "2026-02-30T00:00:00Z"),
        (Kind("string", f"{TIME}ZonedTimestamp"), MOMENT, "0001-01-01T00:00:00+01:00"),
        (Kind("string", f"{TIME}IsoDate"), pa.date32(), "2026-02-30Z"),
        (Kind("int64"), LOCAL, 5),
        (Kind("int64", f"{TIME}MicroTime"), LOCAL, 5),
        (Kind("int64", f"{TIME}MicroTimestamp"), pa.date32(), 5),
        (Kind("int64", f"{TIME}MicroTimestamp"), LOCAL, True),
        (None, LOCAL, 1.5),
        (Kind("string"), pa.decimal128(10, 2), "NaN"),
        (Kind("string"), pa.decimal128(10, 2), "Infinity"),
        (Kind("string"), pa.decimal128(10, 2), "0.001"),
        (Kind("string"), pa.decimal128(10, 2), "1" * 1000),
        (Kind("string"), pa.decimal128(10, 2), "1e999999"),
        (Kind("string"), pa.decimal128(10, 2), "twelve"),
        (Kind("bytes", DECIMAL, 2), pa.decimal128(38, 2), b"\x7f" * 17),
        (Kind("bytes", DECIMAL, 2), pa.decimal128(38, 2), b"\x7f" * 500),
        (Kind("struct", VARIABLE_DECIMAL), pa.decimal128(38, 2), {"scale": 10**9, "value": "AQ=="}),
        (Kind("struct", VARIABLE_DECIMAL), pa.decimal128(38, 2), {"value": "AQ=="}),
        (Kind("struct", VARIABLE_DECIMAL), pa.decimal128(38, 2), "AQ=="),
        (Kind("string"), pa.binary(), "AP8="),
        (Kind("bytes"), TEXT, b"\xff"),
        (Kind("bytes"), pa.binary(), "!"),
        (None, pa.float64(), "1.5"),
        (None, pa.bool_(), 1),
        (None, pa.int8(), 128),
        (None, pa.int64(), True),
        (None, pa.map_(TEXT, TEXT), []),
    ],
)
def test_a_value_that_its_column_cannot_hold(kind: Kind | None, target: pa.DataType, value: Any) -> None:
    with pytest.raises(ValueUnreadableError):
        read(kind, target, value)


def test_types_that_no_column_has() -> None:
    assert [is_readable(each) for each in (pa.null(), pa.duration("us"), pa.map_(pa.int32(), TEXT))] == [False] * 3


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**14), max_value=10**14))
def test_every_decimal_comes_as_it_was_in_every_mode(number: Decimal) -> None:
    unscaled = int(number.scaleb(4))
    raw = unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
    target = pa.decimal128(20, 4)

    assert read(Kind("bytes", DECIMAL, 4), target, raw) == number
    assert read(Kind("struct", VARIABLE_DECIMAL), target, {"scale": 4, "value": raw}) == number
    assert read(Kind("string"), target, format(number, "f")) == number


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31, 23, 59, 59, 999999)))
def test_every_moment_comes_as_it_was_in_every_unit(moment: datetime) -> None:
    delta = moment - datetime(1970, 1, 1)
    microseconds = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds

    assert read(Kind("int64", f"{TIME}MicroTimestamp"), LOCAL, microseconds) == moment
    assert read(Kind("int64", f"{TIME}NanoTimestamp"), LOCAL, microseconds * 1000 + 999) == moment
    text = read(Kind("int64", f"{TIME}MicroTimestamp"), TEXT, microseconds)
    assert datetime.fromisoformat(text) == moment
    assert read(Kind("string", f"{TIME}ZonedTimestamp"), MOMENT, f"{text}Z") == moment.replace(tzinfo=UTC)


def test_avro_without_the_names_of_connect() -> None:
    schema = {
        "type": "record",
        "name": "a.Row",
        "fields": [
            {
                "name": "price",
                "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
            },
            {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "scale": 1}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "mood", "type": {"type": "enum", "name": "Mood", "symbols": ["a"]}},
            {"name": "moods", "type": {"type": "map", "values": "Mood"}},
        ],
    }
    found = kind_of_avro(json.loads(json.dumps(schema))).fields

    assert found["price"] == Kind("bytes", DECIMAL, 2)
    assert found["fixed"] == Kind("bytes", DECIMAL, 1)
    assert (found["at"].name, found["day"].name) == (f"{TIME}MicroTimestamp", f"{CONNECT}Date")
    assert found["moods"] == Kind("map", items=Kind("string"))


@pytest.mark.parametrize(
    ("made", "schema"),
    [
        (kind_of_avro, ["null", "int", "string"]),
        (kind_of_avro, "Unknown"),
        (kind_of_avro, {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}),
        (kind_of_avro, 5),
        (kind_of_connect, {"type": "array"}),
        (kind_of_connect, {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "two"}}),
        (kind_of_connect, {"type": "bytes", "name": DECIMAL}),
        (kind_of_connect, []),
    ],
)
def test_a_schema_that_has_no_columns(made: Any, schema: Any) -> None:
    with pytest.raises(KindError):
        made(schema)
