"""What the recordings of this directory hold, and the tables that they are of."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tidelog.spark.formats.schema_registry import AVRO, Schema

PLACE = Path(__file__).resolve().parent
MOMENT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")

_ORDER: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "customer": pa.string(),
    "price": pa.decimal128(10, 2),
    "placed": LOCAL,
    "notes": pa.string(),
    "body": pa.binary(),
    "tags": pa.list_(pa.string()),
    "numbers": pa.list_(pa.int32()),
    "more": pa.string(),
}
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "kinds": {
        "id": pa.int32(),
        "a_boolean": pa.bool_(),
        "a_smallint": pa.int16(),
        "an_int": pa.int32(),
        "a_bigint": pa.int64(),
        "a_real": pa.float32(),
        "a_double": pa.float64(),
        "a_price": pa.decimal128(10, 2),
        "a_big": pa.decimal128(38, 9),
        "a_numeric": pa.decimal128(38, 9),
        "a_money": pa.decimal128(20, 2),
        "a_text": pa.string(),
        "a_varchar": pa.string(),
        "a_char": pa.string(),
        "a_bytea": pa.binary(),
        "a_uuid": pa.string(),
        "a_json": pa.string(),
        "a_jsonb": pa.string(),
        "a_date": pa.date32(),
        "a_time": pa.string(),
        "a_time_3": pa.string(),
        "a_timestamp": LOCAL,
        "a_timestamp_3": LOCAL,
        "a_timestamptz": MOMENT,
        "some_ints": pa.list_(pa.int32()),
        "some_bigints": pa.list_(pa.int64()),
        "some_texts": pa.list_(pa.string()),
        "some_prices": pa.list_(pa.decimal128(10, 2)),
        "a_mood": pa.string(),
        "an_inet": pa.string(),
        "a_range": pa.string(),
    },
    "orders": _ORDER,
    "orders_full": _ORDER,
    "customers": {"id": pa.int32(), "name": pa.string(), "email": pa.string(), "phone": pa.string()},
    "sites": {"region": pa.string(), "number": pa.int32(), "name": pa.string()},
    "loose": {"id": pa.int32(), "name": pa.string()},
    "cleared": {"id": pa.int32(), "name": pa.string()},
    "moved": {"id": pa.int32(), "notes": pa.string()},
}
KEYS = {name: ("region", "number") if name == "sites" else ("id",) for name in COLUMNS}


class Recorded(NamedTuple):
    topic: str
    offset: int
    """In its topic, as it would have if that had one partition."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@cache
def recorded(name: str) -> tuple[Recorded, ...]:
    """All records of an engine in a form, as in 'precise.schemas', in the order in which they came."""
    found, ends = [], dict[str, int]()
    for each in _lines(f"{name}.jsonl.gz"):
        line = json.loads(each)
        offset = ends[line["topic"]] = ends.get(line["topic"], -1) + 1
        headers = tuple((key, _bytes(value)) for key, value in line["headers"])
        found.append(Recorded(line["topic"], offset, _bytes(line["key"]), _bytes(line["value"]), headers))
    return tuple(found)


def of_topic(name: str, table: str) -> list[Recorded]:
    engine = name.partition(".")[0]
    return [each for each in recorded(name) if each.topic == f"{engine}.public.{table}"]


@cache
def schemas(name: str) -> tuple[str, ...]:
    """Of an engine's Avro records, those whose ids are 1, 2, 3..."""
    return tuple(_lines(f"{name}.avsc.gz"))


def schema_of(name: str) -> Callable[[int], Schema]:
    return lambda number: Schema(AVRO, schemas(name)[number - 1])


@cache
def truth() -> dict[str, list[dict[str, str | None]]]:
    """What each table held in the end, as PostgreSQL writes it."""
    found: dict[str, list[dict[str, str | None]]] = json.loads((PLACE / "truth.json").read_text())
    return found


def as_postgresql(value: Any, kind: pa.DataType) -> str | None:
    """A column's value as PostgreSQL writes it."""
    types = pa.types
    if value is None:
        return None
    if types.is_boolean(kind):
        return "true" if value else "false"
    if types.is_floating(kind):
        return _fraction(value)
    if types.is_binary(kind):
        return f"\\x{value.hex()}"
    if types.is_decimal(kind):
        return format(value, "f")
    if types.is_timestamp(kind):
        whole, _, fraction = value.replace(tzinfo=None).isoformat(" ").partition(".")
        return f"{whole}{'.' if fraction else ''}{fraction.rstrip('0')}{'+00' if kind == MOMENT else ''}"
    if isinstance(kind, pa.ListType):
        items = (as_postgresql(each, kind.value_type) for each in value)
        return f"{{{','.join('NULL' if each is None else _quoted(each) for each in items)}}}"
    return str(value)


def _fraction(value: float) -> str:
    words = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
    return words.get(str(value), f"{value:g}" if value == float(f"{value:g}") else repr(value))


def _quoted(text: str) -> str:
    return f'"{text}"' if not text or " " in text else text


def _lines(name: str) -> Iterator[str]:
    with gzip.open(PLACE / name, "rt") as lines:
        yield from (line.rstrip("\n") for line in lines)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
