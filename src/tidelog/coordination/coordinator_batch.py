# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True, boundscheck=False
# mypy: disable-error-code="valid-type, index, attr-defined, no-any-return"
"""A batch of a coordinator's records, put together in one pass: what `records.build_batch` makes of them, byte for byte.

    size = HEADER_BYTES + record_bytes(0, key_bytes, value_bytes) + ...
    batch = bytearray(size)
    at = begin_record(out, HEADER_BYTES, 0, key_bytes, value_bytes)     there goes the key, after it `begin_value`
    seal(batch, count, timestamp_ms, producer_id, producer_epoch)

Who makes the records knows how long keys and values are, and puts their bytes in. They have no headers, and the batch's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.wire.crc32c import crc32c

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.tidelog.wire.record_fields_inline import put_bytes, put_varint, record_body_bytes, varint_bytes
    from cython.cimports.tidelog.wire.typed.fields_inline import (
        put16,
        put32,
        put64,
        put_uvarint,
        room_in,
        uvarint_bytes,
    )
else:
    from tidelog.wire.record_fields import put_bytes, put_varint, record_body_bytes, varint_bytes
    from tidelog.wire.typed.fields import put16, put32, put64, put_uvarint, room_in, uvarint_bytes

HEADER_BYTES = 61

_CRC_AT = 17
_CHECKED_AT = 21
_TRANSACTIONAL = 0x10


def record_bytes(number: int, key_bytes: int, value_bytes: int) -> int:
    """What a record takes in all."""
    body_bytes = record_body_bytes(number, key_bytes, value_bytes)
    return varint_bytes(body_bytes) + body_bytes


def begin_record(out: bytearray, at: int, number: int, key_bytes: int, value_bytes: int) -> int:
    """All that stands before a record's key. Where that begins."""
    at = put_varint(out, at, record_body_bytes(number, key_bytes, value_bytes))
    # No attributes, and the batch's own time.
    at = put_varint(out, at + 2, number)
    return put_varint(out, at, key_bytes)


def begin_value(out: bytearray, at: int, value_bytes: int) -> int:
    """What stands between a record's key and its value. Where that begins."""
    return put_varint(out, at, value_bytes)


def put_name(out: bytearray, at: int, name: bytes) -> int:
    """A string behind its length in 16 bits. Where it ends."""
    put16(out, at, len(name))
    return put_bytes(out, at + 2, name)


def put_compact(out: bytearray, at: int, text: bytes) -> int:
    """A string as newer versions have it. Where it ends."""
    return put_bytes(out, put_uvarint(out, at, len(text) + 1), text)


def compact_bytes(text: bytes) -> int:
    """How many bytes `put_compact` takes."""
    return uvarint_bytes(len(text) + 1) + len(text)


def seal(batch: bytearray, count: int, timestamp_ms: int, producer_id: int, producer_epoch: int) -> None:
    """The header, once all records are in. With a producer they belong to its transaction; one below 0 is none."""
    out = room_in(batch)
    put32(out, 8, len(batch) - 12)
    put32(out, 12, -1)
    out[16] = 2
    put32(out, 23, count - 1)
    put64(out, 27, timestamp_ms)
    put64(out, 35, timestamp_ms)
    if producer_id >= 0:
        out[22] = _TRANSACTIONAL
        put64(out, 43, producer_id)
        put16(out, 51, producer_epoch)
    else:
        put64(out, 43, -1)
        put16(out, 51, -1)
    # No sequence numbers.
    put32(out, 53, -1)
    put32(out, 57, count)
    put32(out, _CRC_AT, crc32c(memoryview(batch)[_CHECKED_AT:]))
