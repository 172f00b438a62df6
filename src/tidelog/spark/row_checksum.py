"""A checksum of rows that is the same for any order, division into tasks, and codec: the sum modulo 2^64 of a hash of each row.

A row is its columns by name, in any order. What a value is does not depend on the Arrow type that holds it:

    utf8, binary, their large ones and views, dictionaries    the bytes
    whole numbers of any size, bool (0 and 1)                  64 bits
    fractions of any size                                      a double; one NaN, and one zero
    timestamps, times and durations of any unit                microseconds; of finer ones the whole ones
    dates                                                      days
    decimals                                                   without zeros at the end: 1.50 is 1.5
    lists, structs and maps                                    their parts; a map's in any order
    null                                                       the same as a column that is not there, and as nothing else

`value_hashes` has the hash itself, in compiled code.
"""

from __future__ import annotations

import decimal
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tidelog.spark.value_hashes import (
    FRACTION,
    LIST,
    MAP,
    STRUCT,
    WHOLE,
    add_column,
    add_constant,
    decimal_hash,
    hash_decimals,
    hash_lists,
    hash_texts,
    hash_words,
    sum_rows,
    text_hash,
)

if TYPE_CHECKING:
    import pyarrow as pa

    Values: TypeAlias = pa.Array[Any]

# ruff: noqa: PLC0415 - whoever only looks at a module that looks at rows need not wait for Arrow

Hashes: TypeAlias = "array[int]"

# What 64 bits hold without its sign.
_SMALL_DIGITS_MAX = 18


def row_checksum(batch: pa.RecordBatch, constants: Mapping[str, str] = {}) -> int:
    """Of all rows of a batch, and of columns that have one text in all of them. Sums of batches are added modulo 2^64
    (`staged.sum_checksums`)."""
    rows = _rows_of(zip(batch.schema.names, batch.columns, strict=True), batch.num_rows)
    for name, value in constants.items():
        add_constant(rows, text_hash(name.encode()), text_hash(value.encode()))
    return sum_rows(rows)


def _zeros(count: int) -> Hashes:
    return array("Q", bytes(8 * count))


def _rows_of(columns: Any, count: int) -> Hashes:
    rows = _zeros(count)
    for name, values in columns:
        if values.null_count < count:
            add_column(rows, text_hash(name.encode()), _hashes(values))
    return rows


def _hashes(values: Values) -> Hashes:
    """Of each value of a column; 0 for null."""
    import pyarrow as pa

    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    elif isinstance(values, pa.RunEndEncodedArray):
        import pyarrow.compute as pc

        values = pc.call_function("run_end_decode", [values])
    hashes = _zeros(len(values))
    if not len(values) or values.null_count == len(values):
        return hashes
    kind = values.type
    if _is_text(kind):
        _hash_texts(values, hashes)
    elif pa.types.is_decimal(kind):
        _hash_decimals(values, hashes)
    elif pa.types.is_struct(kind):
        assert isinstance(values, pa.StructArray)
        parts = _rows_of(((kind.field(at).name, each) for at, each in enumerate(values.flatten())), len(values))
        hash_words(STRUCT, memoryview(parts).cast("B").cast("q"), *_validity(values), hashes)
    elif pa.types.is_nested(kind) and not pa.types.is_union(kind):
        _hash_lists(values, hashes)
    elif pa.types.is_floating(kind):
        hash_words(FRACTION, _words(_canonical_doubles(values)), *_validity(values), hashes)
    elif (whole := _as_whole(values)) is not None:
        hash_words(WHOLE, _words(whole), *_validity(whole), hashes)
    else:
        # What Spark does not make: by its text.
        _hash_texts(pa.array([None if each is None else str(each) for each in values.to_pylist()], pa.string()), hashes)
    return hashes


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _as_whole(values: Values) -> Values | None:
    """Whole numbers of 64 bits; None for a type that is none."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz), safe=False)
    elif pa.types.is_time(kind):
        values = values.cast(pa.time64("us"), safe=False)
    elif pa.types.is_duration(kind):
        values = values.cast(pa.duration("us"), safe=False)
    elif pa.types.is_date(kind):
        values = values.cast(pa.date32(), safe=False).view(pa.int32())
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        return None
    if values.type.bit_width == 64:
        return values.view(pa.int64())
    return values.cast(pa.int64())


def _canonical_doubles(values: Values) -> Values:
    import pyarrow as pa
    import pyarrow.compute as pc

    # To add nothing makes -0.0 the other zero.
    doubles = pc.add(values.cast(pa.float64()), pa.scalar(0.0))
    canonical: Values = pc.if_else(pc.is_nan(doubles), pa.scalar(float("nan")), doubles)
    return canonical


def _validity(values: Values) -> tuple[memoryview | None, int]:
    """The bits, and which of them is the first row's."""
    bits = values.buffers()[0] if values.null_count else None
    return None if bits is None else memoryview(bits), values.offset


def _words(values: Values, each: int = 1) -> memoryview:
    data = values.buffers()[1]
    assert data is not None, "there are rows"
    return memoryview(data).cast("B")[8 * each * values.offset : 8 * each * (values.offset + len(values))].cast("q")


def _hash_texts(values: Values, hashes: Hashes) -> None:
    import pyarrow as pa

    large = values.cast(pa.large_binary())
    _, offsets, data = large.buffers()
    assert offsets is not None, "there are rows"
    window = memoryview(offsets).cast("B")[8 * large.offset : 8 * (large.offset + len(large) + 1)].cast("q")
    content = memoryview(b"") if data is None else memoryview(data).cast("B")
    hash_texts(window, content, *_validity(large), hashes)


def _hash_decimals(values: Values, hashes: Hashes) -> None:
    import pyarrow as pa

    kind = values.type
    if kind.precision <= _SMALL_DIGITS_MAX:
        fixed = values.cast(pa.decimal128(kind.precision, kind.scale))
        hash_decimals(kind.scale, _words(fixed, 2), *_validity(fixed), hashes)
        return
    for row, value in enumerate(values.to_pylist()):
        if value is not None:
            hashes[row] = decimal_hash(*_unscaled(value))


def _unscaled(value: decimal.Decimal) -> tuple[int, int]:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a column has no infinite decimals"
    number = int("".join(map(str, digits)))
    return -number if sign else number, -exponent


def _hash_lists(values: Any, hashes: Hashes) -> None:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        window = _words(values.offsets.cast(pa.int64()))
        elements = values.values.slice(window[0], window[-1] - window[0])
    else:
        window, elements = _flattened(values)
    hash_lists(MAP if pa.types.is_map(kind) else LIST, window, _hashes(elements), *_validity(values), hashes)


def _flattened(values: Any) -> tuple[memoryview, Values]:
    """Lists that are views or of a fixed size, as offsets into elements: pyarrow's own cast of views is wrong (26)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(values).cast(pa.int64()), 0))
    return memoryview(array("q", [0, *ends.to_pylist()])), values.flatten()
