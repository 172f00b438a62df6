# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, type-arg"
"""Which partition a key belongs to, as Kafka's Java client reckons it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _murmur2(data: cython.pointer[cython.const[cython.uchar]], length: cython.Py_ssize_t) -> cython.uint:
    """Austin Appleby's 32-bit hash with the seed that Kafka's Java client uses."""
    if cython.compiled:
        mask: cython.uint = 0xFFFFFFFF
    else:
        mask = 0xFFFFFFFF
    m: cython.uint = 0x5BD1E995
    h: cython.uint = (0x9747B28C ^ length) & mask
    k: cython.uint
    at: cython.Py_ssize_t = 0
    rest: cython.Py_ssize_t
    while at + 4 <= length:
        k = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | cython.cast(cython.uint, data[at + 3]) << 24
        k = (k * m) & mask
        k ^= k >> 24
        k = (k * m) & mask
        h = ((h * m) & mask) ^ k
        at += 4
    rest = length - at
    if rest == 3:
        h ^= data[at + 2] << 16
    if rest >= 2:
        h ^= data[at + 1] << 8
    if rest >= 1:
        h ^= data[at]
        h = (h * m) & mask
    h ^= h >> 13
    h = (h * m) & mask
    h ^= h >> 15
    return h


def murmur2(key: bytes) -> cython.longlong:
    """The hash of a key as an unsigned number; Java's has the same bits, with a sign."""
    if cython.compiled:
        return _murmur2(
            cython.cast(cython.pointer[cython.const[cython.uchar]], cython.cast(cython.p_char, key)), len(key)
        )
    return _murmur2(key, len(key))


def partition_of(key: bytes, partition_count: cython.longlong) -> cython.longlong:
    """Where Kafka's Java client puts a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def partition_rows(
    offsets: memoryview,
    data: cython.const[cython.uchar][::1],
    validity: object,
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    partition_count: cython.longlong,
    without_key: cython.longlong,
    partitions: cython.int[::1],
) -> None:
    """The partition of each row by its key, given as an Arrow array of 64-bit offsets. Rows without a key get `without_key`."""
    large: cython.const[cython.longlong][::1] = offsets
    bits: cython.const[cython.uchar][::1] = data if validity is None else validity
    has_nulls: cython.bint = validity is not None
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    start: cython.longlong
    end: cython.longlong
    total: cython.longlong = len(data)
    for row in range(count):
        at = first + row
        if has_nulls and not (bits[at >> 3] >> (at & 7)) & 1:
            partitions[row] = without_key
            continue
        start = large[at]
        end = large[at + 1]
        if start < 0 or end < start or end > total:
            raise ValueError("the offsets of the Arrow array point outside of its data")
        if cython.compiled:
            if end == start:
                partitions[row] = (_murmur2(cython.NULL, 0) & 0x7FFFFFFF) % partition_count
            else:
                partitions[row] = (_murmur2(cython.address(data[start]), end - start) & 0x7FFFFFFF) % partition_count
        else:
            partitions[row] = (_murmur2(data[start:end], end - start) & 0x7FFFFFFF) % partition_count
