"""How the fields of messages lie in bytes, for plain Python.

`fields.pxd` is the same for compiled modules, where each function becomes a part of its caller and bytes are reached through a
pointer; a typed module takes one or the other by `cython.compiled`.

What reads a length checks that so many bytes are there. Where something is wrong a position is -1, and where a length is wrong
it is -1 too, the length of null: nobody says here what is wrong with it.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from tidelog.wire.errors import MalformedError
from tidelog.wire.varint import Buffer, read_uvarint, write_uvarint

_T = TypeVar("_T")

STRING_BYTES_MAX = 0x7FFF
UUID_BYTES = 16

WRONG = (-1, -1)


# --- numbers ---------------------------------------------------------------------------------------------------------------


def int8(data: Buffer, at: int) -> int:
    value = data[at]
    return value - 0x100 if value >= 0x80 else value


def int16(data: Buffer, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big", signed=True)


def int32(data: Buffer, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def int64(data: Buffer, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def put8(out: bytearray, at: int, value: int) -> None:
    out[at] = value & 0xFF


def put16(out: bytearray, at: int, value: int) -> None:
    out[at : at + 2] = value.to_bytes(2, "big", signed=True)


def put32(out: bytearray, at: int, value: int) -> None:
    out[at : at + 4] = value.to_bytes(4, "big", signed=True)


def put64(out: bytearray, at: int, value: int) -> None:
    out[at : at + 8] = value.to_bytes(8, "big", signed=True)


def fits8(value: int) -> bool:
    return -0x80 <= value <= 0x7F


def fits16(value: int) -> bool:
    return -0x8000 <= value <= 0x7FFF


def fits32(value: int) -> bool:
    return -0x8000_0000 <= value <= 0x7FFF_FFFF


def fits64(value: int) -> bool:
    return -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF


def int32_list(data: Buffer, at: int, count: int) -> list[int]:
    return list(struct.unpack_from(f">{count}i", data, at))


def all_fit32(numbers: list[int]) -> bool:
    return all(isinstance(number, int) and fits32(number) for number in numbers)


def put_int32_list(out: bytearray, at: int, numbers: list[int]) -> int:
    struct.pack_into(f">{len(numbers)}i", out, at, *numbers)
    return at + 4 * len(numbers)


# --- lengths ---------------------------------------------------------------------------------------------------------------


def uvarint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    try:
        value, at = read_uvarint(data, at)
    except (IndexError, MalformedError):
        return WRONG
    return (value, at) if at <= end else WRONG


def string_length(data: Buffer, at: int, end: int, flexible: bool) -> tuple[int, int]:
    """The length of a string, -1 for null, and where its letters begin."""
    if flexible:
        length, at = uvarint(data, at, end)
        length -= 1
        if at < 0 or length > STRING_BYTES_MAX:
            return WRONG
    else:
        if end - at < 2:
            return WRONG
        length = int16(data, at)
        at += 2
    return (length, at) if -1 <= length <= end - at else WRONG


def bytes_length(data: Buffer, at: int, end: int, flexible: bool) -> tuple[int, int]:
    """The same of bytes."""
    if flexible:
        length, at = uvarint(data, at, end)
        length -= 1
        if at < 0:
            return WRONG
    else:
        if end - at < 4:
            return WRONG
        length = int32(data, at)
        at += 4
    return (length, at) if -1 <= length <= end - at else WRONG


def array_length(data: Buffer, at: int, end: int, flexible: bool, size_min: int) -> tuple[int, int]:
    """How many elements follow, each of which takes `size_min` bytes at least."""
    count, at = bytes_length(data, at, end, flexible)
    return WRONG if count > 0 and count * size_min > end - at else (count, at)


def uvarint_bytes(value: int) -> int:
    return 1 if value < 0x80 else (value.bit_length() + 6) // 7


def put_uvarint(out: bytearray, at: int, value: int) -> int:
    written = write_uvarint(value)
    out[at : at + len(written)] = written
    return at + len(written)


def length_bytes(length: int, flexible: bool) -> int:
    """What the length of bytes or of an array takes; -1 is that of null."""
    return uvarint_bytes(length + 1) if flexible else 4


def put_length(out: bytearray, at: int, length: int, flexible: bool) -> int:
    if flexible:
        return put_uvarint(out, at, length + 1)
    put32(out, at, length)
    return at + 4


# --- text, identifiers ---------------------------------------------------------------------------------------------------------


def text(data: Buffer, at: int, length: int) -> str:
    return str(data[at : at + length], "utf-8")


def string_size(value: str | None, flexible: bool, nullable: bool) -> int:
    """What a string takes with its length; -1 for what cannot be written."""
    if value is None:
        return (1 if flexible else 2) if nullable else -1
    if type(value) is not str:
        return -1
    try:
        count = len(value.encode())
    except UnicodeEncodeError:
        return -1
    if count > STRING_BYTES_MAX:
        return -1
    return count + (uvarint_bytes(count + 1) if flexible else 2)


def put_string(out: bytearray, at: int, value: str | None, flexible: bool) -> int:
    letters = b"" if value is None else value.encode()
    length = -1 if value is None else len(letters)
    if flexible:
        at = put_uvarint(out, at, length + 1)
    else:
        put16(out, at, length)
        at += 2
    out[at : at + len(letters)] = letters
    return at + len(letters)


def uuid(data: Buffer, at: int) -> bytes:
    return bytes(data[at : at + UUID_BYTES])


def is_uuid(value: object) -> bool:
    return type(value) is bytes and len(value) == UUID_BYTES


def put_uuid(out: bytearray, at: int, value: bytes) -> int:
    out[at : at + UUID_BYTES] = value
    return at + UUID_BYTES


# --- tagged fields -------------------------------------------------------------------------------------------------------------


def tag_count(data: Buffer, at: int, end: int) -> tuple[int, int]:
    count, at = uvarint(data, at, end)
    # A tag and its size take a byte each at least.
    return WRONG if at < 0 or count * 2 > end - at else (count, at)


def tag_at(data: Buffer, at: int, end: int, last: int) -> tuple[int, int, int]:
    """A tag, which is larger than the last one, and where its value begins and ends."""
    tag, at = uvarint(data, at, end)
    if at < 0 or tag <= last:
        return -1, -1, -1
    size, at = uvarint(data, at, end)
    if at < 0 or size > end - at:
        return -1, -1, -1
    return tag, at, at + size


def skip_tags(data: Buffer, at: int, end: int) -> int:
    """Where the tagged fields end, none of which is known."""
    count, at = tag_count(data, at, end)
    last = -1
    while count > 0 and at >= 0:
        count -= 1
        last, _, at = tag_at(data, at, end, last)
    return at


# --- buffers -------------------------------------------------------------------------------------------------------------------


def frame_start(frame: memoryview) -> memoryview:
    """Where the bytes of a frame are. It is a plain view of bytes, and is not asked whether it is one."""
    return frame


def blank(cls: type[_T]) -> _T:
    """An object of a class without a word to its fields."""
    return cls.__new__(cls)


def start_of(buffer: Buffer) -> Buffer:
    """Where the bytes of a buffer are. Whoever passes it on keeps the buffer."""
    return buffer


def new_room(size: int) -> bytearray:
    """Room for bytes, all of which are to be written."""
    return bytearray(size)


def start_of_room(room: bytearray) -> bytearray:
    return room


def filled(room: bytearray) -> bytes:
    """The bytes that were written."""
    return bytes(room)


def piece(out: bytearray, start: int, stop: int) -> bytes:
    return bytes(out[start:stop])


def put_bytes(out: bytearray, at: int, source: Buffer) -> int:
    """Where the copied bytes end."""
    count = memoryview(source).nbytes
    out[at : at + count] = source
    return at + count
