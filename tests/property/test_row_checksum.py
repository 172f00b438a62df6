"""`row_checksum`: the same for any order, division, column order and Arrow type; another one for other rows. The twins agree."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.kernel_twins import TWINS, module_on
from tidelog.kernel_choice import Twin
from tidelog.spark import row_checksum as under_test
from tidelog.spark.outputs.staged import sum_checksums
from tidelog.spark.row_checksum import row_checksum

_LOOPS = [name for name in vars(under_test) if name.startswith(("hash_", "add_", "sum_")) or name.endswith("_hash")]
# A fixture that only says which twin it is can stay for all examples.
relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


@pytest.fixture(params=TWINS, autouse=True)
def twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    chosen: Twin = request.param
    loops = module_on("tidelog.spark.value_hashes", chosen)
    with mock.patch.multiple(under_test, **{name: getattr(loops, name) for name in _LOOPS}):
        yield chosen


FIELDS: list[pa.Field[Any]] = [
    pa.field("key", pa.string()),
    pa.field("value", pa.binary()),
    pa.field("count", pa.int64()),
    pa.field("share", pa.float64()),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("price", pa.decimal128(30, 6)),
    pa.field("tags", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
]
SCHEMA = pa.schema(FIELDS)
EARLY = dt.datetime(1900, 1, 1)  # noqa: DTZ001 - the strategy adds the zone
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
BYTES = st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"1234567", b"12345678", b"123456789", b"x" * 100]))
ROWS = st.fixed_dictionaries(
    {
        "key": st.none() | TEXT,
        "value": st.none() | BYTES,
        "count": st.none() | st.integers(-(2**63), 2**63 - 1),
        "share": st.none() | st.floats(),
        "at": st.none() | st.datetimes(timezones=st.just(dt.UTC), min_value=EARLY),
        "price": st.none() | st.decimals(-(10**12), 10**12, places=6),
        "tags": st.none() | st.lists(st.fixed_dictionaries({"key": TEXT, "value": st.none() | BYTES}), max_size=3),
    }
)


def batch_of(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def of(values: list[Any], kind: pa.DataType) -> int:
    return row_checksum(pa.record_batch({"x": pa.array(values, kind)}))


@given(st.lists(ROWS, max_size=12), st.randoms(use_true_random=False), st.integers(0, 12))
@relaxed
def test_neither_the_order_of_rows_and_columns_nor_a_division_matters(
    rows: list[dict[str, Any]], chance: random.Random, cut: int
) -> None:
    whole = row_checksum(batch_of(rows))
    shuffled = chance.sample(rows, len(rows))
    names = chance.sample(SCHEMA.names, len(SCHEMA.names))
    other = batch_of(shuffled).select(names)
    assert row_checksum(other) == whole
    # A slice has the whole's buffers, and an offset into them.
    assert sum_checksums([row_checksum(other.slice(0, cut)), row_checksum(other.slice(cut))]) == whole


@given(st.lists(ROWS, min_size=1, max_size=8), st.data())
@relaxed
def test_a_row_that_is_missing_there_twice_or_changed_changes_it(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = row_checksum(batch_of(rows))
    at = data.draw(st.integers(0, len(rows) - 1))
    assert row_checksum(batch_of(rows[:at] + rows[at + 1 :])) != whole
    assert row_checksum(batch_of([*rows, rows[at]])) != whole
    changed = {**rows[at], "count": (rows[at]["count"] or 0) ^ 1}
    assert row_checksum(batch_of([*rows[:at], changed, *rows[at + 1 :]])) != whole
    longer = {**rows[at], "value": (rows[at]["value"] or b"") + b"\0"}
    assert row_checksum(batch_of([*rows[:at], longer, *rows[at + 1 :]])) != whole


@given(st.lists(ROWS, max_size=8))
@relaxed
def test_the_twins_agree(twin: Twin, rows: list[dict[str, Any]]) -> None:
    found = row_checksum(batch_of(rows), {"topic": "out"})
    loops = module_on("tidelog.spark.value_hashes", "python")
    with mock.patch.multiple(under_test, **{name: getattr(loops, name) for name in _LOOPS}):
        assert row_checksum(batch_of(rows), {"topic": "out"}) == found, twin


TWIN_TYPES: list[tuple[list[Any], list[pa.DataType]]] = [
    (
        ["", "a", None, "seven77", "eight888", "nine99999", "ä" * 60],
        [
            pa.string(),
            pa.large_string(),
            pa.binary(),
            pa.large_binary(),
            pa.string_view(),
            pa.binary_view(),
            pa.dictionary(pa.int8(), pa.string()),
        ],
    ),
    ([1, None, 0, 100], [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()]),
    ([1.5, None, 0.0, float("nan"), float("inf")], [pa.float16(), pa.float32(), pa.float64()]),
    (
        [dt.datetime(2024, 2, 29, 12, 0, 1, tzinfo=dt.UTC), None, dt.datetime(1969, 12, 31, 23, 59, 58, tzinfo=dt.UTC)],
        [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")],
    ),
    ([dt.date(2024, 2, 29), None, dt.date(1950, 1, 1)], [pa.date32(), pa.date64()]),
    ([dt.time(12, 30, 1), None], [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]),
    ([dt.timedelta(hours=1), None], [pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns")]),
    (
        [Decimal("1.5"), None, Decimal(-1000), Decimal(0), Decimal("0.25")],
        [pa.decimal32(9, 2), pa.decimal64(18, 3), pa.decimal128(18, 2), pa.decimal128(38, 9), pa.decimal256(60, 4)],
    ),
    (
        [[1, 2], None, [], [3, None]],
        [pa.list_(pa.int32()), pa.large_list(pa.int8()), pa.list_view(pa.int64()), pa.large_list_view(pa.int16())],
    ),
    ([[1, 2], None, [3, None]], [pa.list_(pa.int32(), 2), pa.list_(pa.int64())]),
    ([[("a", 1), ("b", 2)], None], [pa.map_(pa.string(), pa.int32()), pa.map_(pa.binary(), pa.int64())]),
]


@pytest.mark.parametrize(
    ("values", "kinds"), TWIN_TYPES, ids=lambda each: str(each[0]) if isinstance(each, list) else ""
)
def test_the_type_that_holds_a_value_does_not_matter(values: list[Any], kinds: list[pa.DataType]) -> None:
    assert len({of(values, each) for each in kinds}) == 1
    assert len({of(values[1:], each) for each in kinds} | {of(values, kinds[0])}) == 2


def test_equal_numbers_are_written_in_more_ways_than_one() -> None:
    assert of([True, False, None], pa.bool_()) == of([1, 0, None], pa.int32())
    assert of([-0.0], pa.float64()) == of([0.0], pa.float64())
    assert of([-float("nan")], pa.float64()) == of([float("nan")], pa.float64())
    assert of([Decimal("2.50")], pa.decimal128(9, 2)) == of([Decimal("2.5")], pa.decimal128(38, 20))
    wide = Decimal("123456789012345678901234567890.5")
    assert of([wide], pa.decimal128(38, 1)) == of([wide], pa.decimal256(70, 7)) != of([-wide], pa.decimal128(38, 1))
    pairs = pa.map_(pa.string(), pa.int32())
    assert of([[("a", 1), ("b", 2)]], pairs) == of([[("b", 2), ("a", 1)]], pairs) != of([[("a", 2), ("b", 1)]], pairs)


def test_what_differs_only_a_little_differs() -> None:
    text, numbers = pa.string(), pa.list_(pa.int32())
    sums = [
        of([None], text),
        of([""], text),
        of(["\0"], text),
        of(["\0\0"], text),
        of(["1"], text),
        of([1], pa.int32()),
        of([1.0], pa.float64()),
        of([Decimal(1)], pa.decimal128(9, 0)),
        of([Decimal(10)], pa.decimal128(9, 0)),
        of([[]], numbers),
        of([[None]], numbers),
        of([[1]], numbers),
        of([[1, 2]], numbers),
        of([[2, 1]], numbers),
        of([{"a": None}], pa.struct([pa.field("a", pa.int32())])),
        of([{"a": 1}], pa.struct([pa.field("a", pa.int32())])),
        of([{"b": 1}], pa.struct([pa.field("b", pa.int32())])),
    ]
    assert len(set(sums)) == len(sums)


def test_values_that_change_places_between_rows_or_columns_change_it() -> None:
    one = pa.record_batch({"a": ["x", "y"], "b": ["1", "2"]})
    between_rows = pa.record_batch({"a": ["x", "y"], "b": ["2", "1"]})
    between_columns = pa.record_batch({"b": ["x", "y"], "a": ["1", "2"]})
    assert len({row_checksum(each) for each in (one, between_rows, between_columns)}) == 3


def test_a_column_that_is_all_null_is_as_good_as_none() -> None:
    bare = pa.record_batch({"a": ["x", "y"]})
    assert row_checksum(pa.record_batch({"a": ["x", "y"], "b": pa.nulls(2, pa.int32())})) == row_checksum(bare)
    assert row_checksum(pa.record_batch({"a": ["x", "y"], "b": pa.nulls(2)})) == row_checksum(bare)


def test_a_constant_is_a_column() -> None:
    rows = pa.record_batch({"a": ["x", "y"]})
    assert row_checksum(rows, {"t": "out"}) == row_checksum(pa.record_batch({"a": ["x", "y"], "t": ["out", "out"]}))


def test_the_definition_stays() -> None:
    """Checksums are stored with decisions: another definition would take every replay for another batch."""
    rows = pa.record_batch({"key": pa.array([b"k", None]), "value": pa.array(["v" * 100, "w"]), "n": pa.array([7, -1])})
    assert row_checksum(rows) == 8255562525335554309
    assert row_checksum(rows.slice(0, 0)) == 0


def test_offsets_that_point_elsewhere_are_refused() -> None:
    offsets = pa.array([0, 2**40, 5], pa.int64()).buffers()[1]
    wrong = pa.Array.from_buffers(pa.large_binary(), 2, [None, offsets, pa.py_buffer(b"12345")])
    with pytest.raises(ValueError, match="do not rise"):
        row_checksum(pa.record_batch({"x": wrong}))
