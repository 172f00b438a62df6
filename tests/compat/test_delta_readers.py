"""Delta tables that are written without a jar, read and written to by Spark with Delta's own."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tests.compat.delta_reader import delta_sql
from tests.spark.delta_batches import APP, Row, delta_kind, schema_of, staged, table_rows
from tidelog.spark.outputs.delta_upkeep import upkeep
from tidelog.spark.outputs.staged import DELETED, Changes

pytestmark = pytest.mark.compat

AT = dt.datetime(2026, 7, 1, 12, 0, 0, 123456, dt.UTC)
TYPES: dict[str, pa.DataType] = {
    "n": pa.int64(),
    "day": pa.date32(),
    "place": pa.string(),
    "at": pa.timestamp("us", "Europe/Berlin"),
    "plain": pa.timestamp("us"),
    "price": pa.decimal128(38, 10),
    "small": pa.int8(),
    "ratio": pa.float32(),
    "flag": pa.bool_(),
    "bytes": pa.binary(),
    "text": pa.string(),
    "tags": pa.list_(pa.string()),
    "inner": pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.timestamp("us", "Europe/Berlin"))]),
    "counts": pa.map_(pa.string(), pa.int64()),
}
FULL: Row = {
    "n": 1,
    "day": AT.date(),
    "place": "a b/c%=é:*",
    "at": AT,
    "plain": AT.replace(tzinfo=None),
    "price": Decimal("-12345678901234567890.1234567891"),
    "small": -7,
    "ratio": 0.5,
    "flag": True,
    "bytes": b"\x00\x01",
    "text": "y" * 40,
    "tags": ["x", None],
    "inner": {"a": 5, "b": AT},
    "counts": [("k", 3)],
}


def test_tables_of_every_make_are_read_by_deltas_own_jar(tmp_path: Path) -> None:
    added = _added(tmp_path / "added")
    upserts = _merged(tmp_path / "merged", Changes(("n",), sequence_by="seq"))
    history = _merged(tmp_path / "history", Changes(("n",), sequence_by="seq", history=True))

    whole, by_time, by_text, by_price, by_place, times, merged, versions, counted = delta_sql(
        [
            f"SELECT * FROM {added} ORDER BY n",
            # Each by what the log says of the files: one bound too narrow, and the row is passed over.
            f"SELECT n FROM {added} WHERE at >= timestamp'2026-07-01 12:00:00.123456Z'",
            f"SELECT n FROM {added} WHERE text > '{'y' * 39}'",
            f"SELECT n FROM {added} WHERE price < -12345678901234567890.1234567890",
            f"SELECT n FROM {added} WHERE place = 'a b/c%=é:*' AND day = date'2026-07-01'",
            f"SELECT cast(at AS string) at, cast(plain AS string) plain, hex(bytes) bytes FROM {added} WHERE n = 1",
            f"SELECT * FROM {upserts} ORDER BY n",
            f"SELECT n, text, valid_from, valid_to FROM {history} ORDER BY n, valid_from",
            f"SELECT count(*) rows, max(n) most FROM {added}",
        ]
    )

    types, rows = whole
    assert {name: types[name] for name in ("at", "plain", "day", "price", "small", "ratio", "bytes", "later")} == {
        "at": "timestamp",
        "plain": "timestamp_ntz",
        "day": "date",
        "price": "decimal(38,10)",
        "small": "tinyint",
        "ratio": "float",
        "bytes": "binary",
        "later": "int",
    }
    assert types["inner"] == "struct<a:int,b:timestamp>"
    assert [row["n"] for row in rows] == [1, 2, 3]
    assert rows[0]["tags"] == ["x", None]
    assert rows[0]["counts"] == {"k": 3}
    assert (rows[0]["price"], rows[0]["later"]) == ("-12345678901234567890.1234567891", None)
    assert (rows[1]["day"], rows[1]["place"], rows[1]["text"]) == (None, None, None)
    assert (rows[2]["later"], rows[2]["place"]) == (9, "x" * 300)
    for name, (_, found) in {"time": by_time, "text": by_text, "price": by_price, "place": by_place}.items():
        assert [row["n"] for row in found] == [1], name
    expected = "2026-07-01 12:00:00.123456"
    assert times[1] == [{"at": expected, "plain": expected, "bytes": "0001"}]
    assert counted[1] == [{"rows": 3, "most": 3}]
    assert [(row["n"], row["text"]) for row in merged[1]] == [(1, "newer"), (3, "c"), (4, "new")]
    assert [tuple(row.values()) for row in versions[1]] == [
        (1, "a", 10, 20),
        (1, "newer", 20, None),
        (2, "b", 10, 20),
        (3, "older", 5, 10),
        (3, "c", 10, None),
        (4, "new", 20, None),
        # A delete of what was never there: it counts at no time.
        (5, None, 20, 20),
    ]


def test_spark_and_batches_write_to_one_table_in_turn(tmp_path: Path) -> None:
    schema = schema_of(n=pa.int64(), text=pa.string())
    kind = delta_kind(tmp_path)
    kind.prepare(schema)
    kind.end(staged(kind, 0, schema, [{"n": 1, "text": "ours"}]))
    table = f"delta.`{kind.target.place}`"

    delta_sql(
        [
            f"INSERT INTO {table} VALUES (2, 'theirs')",
            f"UPDATE {table} SET text = 'changed' WHERE n = 1",
            f"OPTIMIZE {table}",
        ]
    )
    kind.end(staged(kind, 0, schema, [{"n": 1, "text": "ours"}], run="replay"))
    kind.end(staged(kind, 1, schema, [{"n": 3, "text": "ours"}]))

    assert table_rows(kind) == [
        {"n": 1, "text": "changed"},
        {"n": 2, "text": "theirs"},
        {"n": 3, "text": "ours"},
    ]
    assert kind.last_batch(APP) == 1
    assert upkeep(kind.target, frozenset()).files == 2


def _added(place: Path) -> str:
    """Partitioned, and widened on the way."""
    kind = delta_kind(place, partition_by=("day", "place"))
    schema = schema_of(**TYPES)
    kind.prepare(schema)
    kind.end(staged(kind, 0, schema, [FULL], [{"n": 2}]))
    wide = schema.append(pa.field("later", pa.int32()))
    kind.prepare(wide)
    kind.end(staged(kind, 1, wide, [{"n": 3, "later": 9, "place": "x" * 300}]))
    return f"delta.`{kind.target.place}`"


def _merged(place: Path, changes: Changes) -> str:
    schema = schema_of(n=pa.int64(), seq=pa.int64(), text=pa.string(), **{DELETED: pa.bool_()})
    kind = delta_kind(place, changes=changes)
    kind.prepare(schema)
    first: list[tuple[object, ...]] = [(1, 10, "a", False), (2, 10, "b", False), (3, 10, "c", False)]
    second: list[tuple[object, ...]] = [
        (1, 20, "newer", False),
        (2, 20, None, True),
        (3, 5, "older", False),
        (4, 20, "new", False),
        (5, 20, None, True),
    ]
    for batch_id, rows in enumerate((first, second)):
        kind.end(staged(kind, batch_id, schema, [dict(zip(schema.names, row, strict=True)) for row in rows]))
    return f"delta.`{kind.target.place}`"
