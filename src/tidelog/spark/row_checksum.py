"""A checksum of rows that is the same for any order, division into tasks, and codec: the sum modulo 2^64 of a hash of each row.

What a row's hash is made of is its columns by name, each value in one canonical form whatever Arrow type holds it: whole
numbers and times as 64 bits (times in microseconds), fractions as doubles, text and bytes as their bytes, decimals as text,
lists and structs by their parts. A null differs from everything else.
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    import pyarrow as pa

_MODULUS = 1 << 64
_NULL = b"\x00"


def row_checksum(batch: pa.RecordBatch) -> int:
    """Of all rows of a batch. Sums of batches are added modulo 2^64 (`staged.sum_checksums`)."""
    names = sorted(batch.schema.names)
    heads = [xxhash.xxh3_64_digest(name.encode()) for name in names]
    columns = [batch.column(name).to_pylist() for name in names]
    total = 0
    for row in zip(*columns, strict=True):
        hashed = xxhash.xxh3_64()
        for head, value in zip(heads, row, strict=True):
            hashed.update(head)
            hashed.update(_canonical(value))
        total += hashed.intdigest()
    return total % _MODULUS


def _canonical(value: object) -> bytes:
    match value:
        case None:
            return _NULL
        case bool() | int():
            return b"i" + int(value).to_bytes(8, "little", signed=True)
        case float():
            return b"f" + struct.pack("<d", value)
        case str():
            return _sized(b"s", value.encode())
        case bytes():
            return _sized(b"s", value)
        case dt.datetime():
            return b"i" + _microseconds(value).to_bytes(8, "little", signed=True)
        case dt.date():
            return b"i" + value.toordinal().to_bytes(8, "little", signed=True)
        case decimal.Decimal():
            return _sized(b"d", str(value.normalize()).encode())
        case dict():
            return _sized(b"m", b"".join(_canonical(name) + _canonical(value[name]) for name in sorted(value)))
        case list() | tuple():
            return _sized(b"l", b"".join(_canonical(each) for each in value))
    return _sized(b"?", str(value).encode())


def _sized(kind: bytes, content: bytes) -> bytes:
    return kind + len(content).to_bytes(8, "little") + content


def _microseconds(value: dt.datetime) -> int:
    zero = dt.datetime(1970, 1, 1, tzinfo=value.tzinfo and dt.UTC)
    return (value - zero) // dt.timedelta(microseconds=1)
