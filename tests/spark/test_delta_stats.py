"""Bounds of a file's columns: readers pass over files by them, so that one too narrow loses rows."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.spark.delta_batches import delta_kind, schema_of, staged
from tidelog.spark.outputs.delta_stats import COLUMNS_MAX
from tidelog.spark.outputs.delta_table import FileFacts

AT = dt.datetime(2026, 1, 1, 12, 0, 0, 123456, dt.UTC)


def test_bounds_are_those_of_the_values(tmp_path: Path) -> None:
    types: dict[str, pa.DataType] = {
        "n": pa.int64(),
        "at": pa.timestamp("us", "Asia/Tokyo"),
        "plain": pa.timestamp("us"),
        "day": pa.date32(),
        "price": pa.decimal128(38, 10),
        "short": pa.string(),
        "long": pa.string(),
        "nothing": pa.int32(),
        "flag": pa.bool_(),
        "bytes": pa.binary(),
        "ratio": pa.float64(),
        "odd": pa.float64(),
        "infinite": pa.float64(),
        "nested": pa.struct([pa.field("a", pa.int32())]),
        "several": pa.list_(pa.int32()),
    }
    schema = pa.schema(types)
    one: dict[str, object] = {
        "n": -3,
        "at": AT,
        "plain": AT.replace(tzinfo=None),
        "day": AT.date(),
        "price": Decimal("-12345678901234567890.1234567891"),
        "short": "ä",
        "long": "y" * 40,
        "flag": True,
        "bytes": b"x",
        "ratio": 0.5,
        "odd": math.nan,
        "infinite": math.inf,
        "nested": {"a": 1},
        "several": [1],
    }
    other = {"n": 5, "short": "z", "odd": 1.0, "infinite": 2.0, "price": Decimal("0.1000000000")}

    found = _stats(tmp_path, schema, [one, other])

    least, greatest, nulls = found["minValues"], found["maxValues"], found["nullCount"]
    assert (found["numRecords"], least["n"], greatest["n"]) == (2, -3, 5)
    assert least["at"] == greatest["at"] == "2026-01-01T12:00:00.123456Z"
    assert least["plain"] == greatest["plain"] == "2026-01-01T12:00:00.123456"
    assert least["day"] == "2026-01-01"
    assert (least["price"], greatest["price"]) == (Decimal("-12345678901234567890.1234567891"), Decimal("0.1"))
    assert (least["short"], greatest["short"]) == ("z", "ä")
    assert (least["long"], greatest["long"]) == ("y" * 32, "y" * 32 + "\U0010ffff")
    assert (least["infinite"], greatest.get("infinite")) == (2, None)
    for name in ("odd", "flag", "bytes", "nested", "several", "nothing"):
        assert name not in least, name
        assert name not in greatest, name
    assert (nulls["nothing"], nulls["at"], nulls["n"]) == (2, 1, 0)
    assert "nested" not in nulls


def test_a_text_that_nothing_is_greater_than_has_no_upper_bound(tmp_path: Path) -> None:
    found = _stats(tmp_path, pa.schema({"s": pa.string()}), [{"s": "y" * 32 + "\U0010ffff" * 2}])

    assert found["maxValues"] == {}


def test_as_many_columns_have_bounds_as_deltas_own_writer_takes(tmp_path: Path) -> None:
    schema = pa.schema({f"c{n}": pa.int8() for n in range(COLUMNS_MAX + 8)})

    found = _stats(tmp_path, schema, [dict.fromkeys(schema.names, 1)])

    assert list(found["minValues"]) == schema.names[:COLUMNS_MAX]


@pytest.mark.parametrize("predicate", ["at >= '2026-01-01T12:00:00.123456Z'", "s > 'yyyz'"])
def test_a_reader_that_goes_by_the_bounds_misses_no_row(tmp_path: Path, predicate: str) -> None:
    schema = schema_of(at=pa.timestamp("us", "UTC"), s=pa.string(), x=pa.float64())
    kind = delta_kind(tmp_path)
    kind.prepare(schema)

    kind.end(staged(kind, 0, schema, [{"at": AT, "s": "y" * 3 + "z" * 60, "x": math.nan}, {"x": 1.0}]))

    found = pa.RecordBatchReader.from_stream(DeltaTable(kind.target.place).scan(predicate=predicate)).read_all()
    assert found.num_rows == 1


def _stats(place: Path, schema: pa.Schema, rows: list[dict[str, object]]) -> dict[str, Any]:
    (file,) = staged(delta_kind(place), 0, schema, rows).manifest.files
    facts = msgspec.json.decode(file.stats, type=FileFacts)
    found: dict[str, Any] = json.loads(facts.stats, parse_float=Decimal)
    return found
