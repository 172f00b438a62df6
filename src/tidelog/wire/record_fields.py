# mypy: disable-error-code="no-any-return"
"""How the numbers and bytes of a record lie in its batch. Numbers are zigzag varints.

Plain Python runs this; compiled modules have `record_fields_inline.pxd`, which `tools/inline_functions.py` writes from it, and
each function becomes a part of its caller there. What is read is checked against the end that is given; what is written has
been measured by its caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cython

    from tidelog.wire.c_types import Bits, Data, Room, Size
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.libc.string import memcpy


def read_varint(data: Data, at: Size, end: Size) -> tuple[int, Size]:
    """A number of at most 32 bits and where it ends: -1 where there is none."""
    byte: int
    # Most are of one byte: small enough to be compiled into each place that reads one.
    if at < end:
        byte = data[at]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        return read_long_varint(data, at, end, 32)
    return 0, -1


def read_long_varint(data: Data, at: Size, end: Size, bit_count: int) -> tuple[int, Size]:
    """The same of at most so many bits."""
    byte: Bits
    bits: Bits = 0
    shift: int = 0
    while at < end and shift < bit_count:
        byte = data[at]
        at += 1
        # Bits beyond the number's last would be lost unseen.
        if shift + 7 > bit_count and byte >> (bit_count - shift):
            return 0, -1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7
    return 0, -1


def varint_bytes(number: int) -> Size:
    """How many bytes a number takes."""
    bits: Bits = (number << 1) ^ (number >> 63)
    size: Size = 3
    if bits < 0x80:
        return 1
    if bits < 0x4000:
        return 2
    bits >>= 21
    while bits:
        bits >>= 7
        size += 1
    return size


def put_varint(out: Room, at: Size, number: int) -> Size:
    """Where it ends."""
    bits: Bits = (number << 1) ^ (number >> 63)
    while bits >= 0x80:
        out[at] = (bits & 0x7F) | 0x80
        bits >>= 7
        at += 1
    out[at] = bits
    return at + 1


def varint(number: int) -> bytes:
    """Its bytes by themselves."""
    made: bytes
    if cython.compiled:
        made = PyBytes_FromStringAndSize(cython.NULL, varint_bytes(number))
        put_varint(cython.cast(cython.p_uchar, PyBytes_AS_STRING(made)), 0, number)
        return made
    out = bytearray(varint_bytes(number))
    put_varint(out, 0, number)
    return bytes(out)


def put_piece(out: Room, at: Size, data: Data, start: Size, end: Size) -> Size:
    """Where the copy of `data` from `start` to `end` ends."""
    if cython.compiled:
        memcpy(cython.address(out[at]), cython.address(data[start]), end - start)
    else:
        out[at : at + end - start] = data[start:end]
    return at + end - start


def put_bytes(out: Room, at: Size, data: bytes) -> Size:
    """Where the copy ends."""
    count: Size = len(data)
    if cython.compiled:
        memcpy(cython.address(out[at]), PyBytes_AS_STRING(data), count)
    else:
        out[at : at + count] = data
    return at + count


def record_body_bytes(number: int, key_bytes: int, value_bytes: int) -> int:
    """What a record takes behind its length: attributes, time, its place; key and value with their lengths; no headers."""
    return 3 + varint_bytes(number) + varint_bytes(key_bytes) + varint_bytes(value_bytes) + key_bytes + value_bytes
