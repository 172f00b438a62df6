# mypy: disable-error-code="no-any-return, untyped-decorator"
"""How the fields of messages lie in bytes.

Plain Python runs this; compiled modules have `fields_inline.pxd`, which `tools/inline_functions.py` writes from it, where each
function becomes a part of its caller and bytes are reached through a pointer. A module takes one or the other by
`cython.compiled`. What has to be C there is in `fields_c.pxd`.

What reads a length checks that so many bytes are there. Where something is wrong a position is -1, and where a length is wrong
it is -1 too, the length of null: nobody says here what is wrong with it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython

    from tidelog.wire.c_types import Data, Room, Size
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.tidelog.wire.typed.fields_c import (
        c_all_fit32,
        c_blank,
        c_frame_start,
        c_int8,
        c_int16,
        c_int32,
        c_int32_list,
        c_int64,
        c_is_uuid,
        c_put16,
        c_put32,
        c_put64,
        c_put_bytes,
        c_put_int32_list,
        c_put_text,
        c_put_uuid,
        c_start_of,
        c_text,
        c_text_bytes,
        c_uint32,
        c_uuid,
        c_writable_start,
    )

STRING_BYTES_MAX = 0x7FFF
UUID_BYTES = 16


# --- numbers ---------------------------------------------------------------------------------------------------------------


def int8(data: Data, at: Size) -> int:
    if cython.compiled:
        return c_int8(data, at)
    value = data[at]
    return value - 0x100 if value >= 0x80 else value


def int16(data: Data, at: Size) -> int:
    if cython.compiled:
        return c_int16(data, at)
    return int.from_bytes(data[at : at + 2], "big", signed=True)


def int32(data: Data, at: Size) -> int:
    if cython.compiled:
        return c_int32(data, at)
    return int.from_bytes(data[at : at + 4], "big", signed=True)


def uint32(data: Data, at: Size) -> int:
    if cython.compiled:
        return c_uint32(data, at)
    return int.from_bytes(data[at : at + 4], "big")


def int64(data: Data, at: Size) -> int:
    if cython.compiled:
        return c_int64(data, at)
    return int.from_bytes(data[at : at + 8], "big", signed=True)


def put8(out: Room, at: Size, value: int) -> None:
    out[at] = value & 0xFF


def put16(out: Room, at: Size, value: int) -> None:
    """As all of these: of a number the bits that there is room for, so that it may be one with a sign or without."""
    if cython.compiled:
        c_put16(out, at, value)
    else:
        out[at : at + 2] = (value & 0xFFFF).to_bytes(2, "big")


def put32(out: Room, at: Size, value: int) -> None:
    if cython.compiled:
        c_put32(out, at, value)
    else:
        out[at : at + 4] = (value & 0xFFFF_FFFF).to_bytes(4, "big")


def put64(out: Room, at: Size, value: int) -> None:
    if cython.compiled:
        c_put64(out, at, value)
    else:
        out[at : at + 8] = (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "big")


def fits8(value: int) -> bool:
    return -0x80 <= value <= 0x7F


def fits16(value: int) -> bool:
    return -0x8000 <= value <= 0x7FFF


def fits32(value: int) -> bool:
    return -0x8000_0000 <= value <= 0x7FFF_FFFF


def fits64(value: int) -> bool:
    if cython.compiled:
        return True
    return -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF


def int32_list(data: Data, at: Size, count: Size) -> list[int]:
    if cython.compiled:
        return c_int32_list(data, at, count)
    return list(struct.unpack_from(f">{count}i", data, at))


def all_fit32(numbers: list[int]) -> bool:
    if cython.compiled:
        return c_all_fit32(numbers)
    return all(isinstance(number, int) and fits32(number) for number in numbers)


def put_int32_list(out: Room, at: Size, numbers: list[int]) -> Size:
    if cython.compiled:
        return c_put_int32_list(out, at, numbers)
    struct.pack_into(f">{len(numbers)}i", out, at, *numbers)
    return at + 4 * len(numbers)


def int8_list(data: Data, at: Size, count: Size) -> list[int]:
    numbers: list[int] = []
    while count > 0:
        numbers.append(int8(data, at))
        at += 1
        count -= 1
    return numbers


def all_fit8(numbers: list[int]) -> bool:
    place: Size = len(numbers)
    while place > 0:
        place -= 1
        if not isinstance(numbers[place], int) or numbers[place] < -0x80 or numbers[place] > 0x7F:
            return False
    return True


def put_int8_list(out: Room, at: Size, numbers: list[int]) -> Size:
    place: Size = 0
    while place < len(numbers):
        put8(out, at + place, numbers[place])
        place += 1
    return at + place


# --- lengths ---------------------------------------------------------------------------------------------------------------


def uvarint(data: Data, at: Size, end: Size) -> tuple[int, Size]:
    """A number of at most 32 bits, seven to a byte, and where it ends."""
    byte: int
    value: int = 0
    shift: int = 0
    while at < end:
        byte = data[at]
        at += 1
        if byte < 0x80:
            if shift == 28 and byte >= 16:
                break
            return value | (byte << shift), at
        if shift == 28:
            break
        value |= (byte & 0x7F) << shift
        shift += 7
    return -1, -1


def string_length(data: Data, at: Size, end: Size, flexible: bool) -> tuple[int, Size]:
    """The length of a string, -1 for null, and where its letters begin."""
    length: int
    if flexible:
        if at >= end:
            return -1, -1
        length = data[at]
        at += 1
        if length >= 0x80:
            length, at = uvarint(data, at - 1, end)
            if length > STRING_BYTES_MAX + 1:
                return -1, -1
        length -= 1
    else:
        if end - at < 2:
            return -1, -1
        length = int16(data, at)
        at += 2
    if length < -1 or length > end - at:
        return -1, -1
    return length, at


def bytes_length(data: Data, at: Size, end: Size, flexible: bool) -> tuple[int, Size]:
    """The same of bytes."""
    length: int
    if flexible:
        if at >= end:
            return -1, -1
        length = data[at]
        at += 1
        if length >= 0x80:
            length, at = uvarint(data, at - 1, end)
        length -= 1
    else:
        if end - at < 4:
            return -1, -1
        length = int32(data, at)
        at += 4
    if length < -1 or length > end - at:
        return -1, -1
    return length, at


def array_length(data: Data, at: Size, end: Size, flexible: bool, size_min: int) -> tuple[int, Size]:
    """How many elements follow, each of which takes `size_min` bytes at least."""
    count: int
    count, at = bytes_length(data, at, end, flexible)
    if count > 0 and count * size_min > end - at:
        return -1, -1
    return count, at


def uvarint_bytes(value: int) -> Size:
    count: Size = 1
    while value >= 0x80:
        value >>= 7
        count += 1
    return count


def put_uvarint(out: Room, at: Size, value: int) -> Size:
    while value >= 0x80:
        out[at] = (value & 0x7F) | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


def length_bytes(length: int, flexible: bool) -> Size:
    """What the length of bytes or of an array takes; -1 is that of null."""
    return uvarint_bytes(length + 1) if flexible else 4


def put_length(out: Room, at: Size, length: int, flexible: bool) -> Size:
    if flexible:
        return put_uvarint(out, at, length + 1)
    put32(out, at, length)
    return at + 4


# --- text, identifiers ---------------------------------------------------------------------------------------------------------


def text(data: Data, at: Size, length: Size) -> str:
    if cython.compiled:
        return c_text(data, at, length)
    return str(data[at : at + length], "utf-8")


def text_bytes(value: Any) -> Size:
    """What the letters of a string take; -1 for what is none, or cannot be written."""
    if cython.compiled:
        return c_text_bytes(value)
    if type(value) is not str:
        return -1
    if value.isascii():
        return len(value)
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        return -1


def put_text(out: Room, at: Size, value: Any) -> Size:
    if cython.compiled:
        return c_put_text(out, at, value)
    letters = value.encode()
    out[at : at + len(letters)] = letters
    return at + len(letters)


def string_size(value: str | None, flexible: bool, nullable: bool) -> Size:
    """What a string takes with its length; -1 for what cannot be written."""
    count: Size
    if value is None:
        if not nullable:
            return -1
        return 1 if flexible else 2
    count = text_bytes(value)
    if count < 0 or count > STRING_BYTES_MAX:
        return -1
    return count + (uvarint_bytes(count + 1) if flexible else 2)


def put_string(out: Room, at: Size, value: str | None, flexible: bool) -> Size:
    count: Size = -1 if value is None else text_bytes(value)
    if flexible:
        at = put_uvarint(out, at, count + 1)
    else:
        put16(out, at, count)
        at += 2
    return at if value is None else put_text(out, at, value)


def uuid(data: Data, at: Size) -> bytes:
    if cython.compiled:
        return c_uuid(data, at)
    return bytes(data[at : at + UUID_BYTES])


def is_uuid(value: Any) -> bool:
    if cython.compiled:
        return c_is_uuid(value)
    return type(value) is bytes and len(value) == UUID_BYTES


def put_uuid(out: Room, at: Size, value: Any) -> Size:
    if cython.compiled:
        return c_put_uuid(out, at, value)
    out[at : at + UUID_BYTES] = value
    return at + UUID_BYTES


# --- tagged fields -------------------------------------------------------------------------------------------------------------


def tag_count(data: Data, at: Size, end: Size) -> tuple[int, Size]:
    count: int
    count, at = uvarint(data, at, end)
    # A tag and its size take a byte each at least.
    if count * 2 > end - at:
        return -1, -1
    return count, at


def tag_at(data: Data, at: Size, end: Size, last: int) -> tuple[int, Size, Size]:
    """A tag, which is larger than the last one, and where its value begins and ends."""
    tag: int
    size: int
    tag, at = uvarint(data, at, end)
    if at < 0 or tag <= last:
        return -1, -1, -1
    size, at = uvarint(data, at, end)
    if at < 0 or size > end - at:
        return -1, -1, -1
    return tag, at, at + size


def skip_tags(data: Data, at: Size, end: Size) -> Size:
    """Where the tagged fields end, none of which is known."""
    count: int
    last: int = -1
    _value_at: Size
    if at < end and data[at] == 0:
        return at + 1
    count, at = tag_count(data, at, end)
    while count > 0 and at >= 0:
        count -= 1
        last, _value_at, at = tag_at(data, at, end, last)
    return at


# --- buffers -------------------------------------------------------------------------------------------------------------------


def frame_start(frame: memoryview) -> Data:
    """Where the bytes of a frame are. It is a plain view of bytes, and is not asked whether it is one: the asking would take as
    long as the reading."""
    if cython.compiled:
        return c_frame_start(frame)
    return frame


def writable_start(frame: memoryview) -> Room | None:
    """The same, to be changed. None where that cannot be."""
    if cython.compiled:
        return c_writable_start(frame)
    return None if frame.readonly else frame


@cython.exceptval(cython.NULL, check=True)
def start_of(buffer: Any) -> Data:
    """Where the bytes of a buffer are. Whoever passes it on keeps the buffer."""
    if cython.compiled:
        return c_start_of(buffer)
    return buffer


def room_in(buffer: bytearray) -> Room:
    """Where a buffer's bytes are to be put."""
    if cython.compiled:
        return cython.cast(cython.p_uchar, PyByteArray_AS_STRING(buffer))
    return buffer


def blank(cls: Any) -> Any:
    """An object of a class without a word to its fields."""
    if cython.compiled:
        return c_blank(cls)
    return cls.__new__(cls)


def new_room(size: Size) -> Any:
    """Room for bytes, all of which are to be written."""
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.NULL, size)
    return bytearray(size)


def start_of_room(room: Any) -> Room:
    if cython.compiled:
        return cython.cast(cython.p_uchar, PyBytes_AS_STRING(room))
    return room


def filled(room: Any) -> bytes:
    """The bytes that were written."""
    if cython.compiled:
        return cython.cast(bytes, room)
    return bytes(room)


def piece(out: Room, start: Size, stop: Size) -> bytes:
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, out) + start, stop - start)
    return bytes(out[start:stop])


@cython.exceptval(-2, check=False)
def put_bytes(out: Room, at: Size, source: Any) -> Size:
    """Where the copied bytes end."""
    if cython.compiled:
        return c_put_bytes(out, at, source)
    count = memoryview(source).nbytes
    out[at : at + count] = source
    return at + count
