"""What the kernels that read requests and write records have in common, for their plain twins.

`frame_bytes.pxd` is the same for the compiled ones, where each function becomes a part of its caller. A kernel takes one or the
other by `cython.compiled`; the tests that run over both twins of a kernel hold them against each other. In the compiled ones the
bytes of a frame or buffer are reached through a pointer; here they are what they are.
"""

from __future__ import annotations

NO_LENGTH = -2
"""What is no length at all, as -1 is that of null."""

Bytes = bytes | bytearray | memoryview


def bytes_of(frame: memoryview) -> memoryview:
    """Where a frame's bytes are. A frame is a plain view of bytes, and is not asked whether it is one: the asking would take as
    long as the reading."""
    return frame


def writable_bytes_of(frame: memoryview) -> memoryview | None:
    """The same, to be changed. None where that cannot be."""
    return None if frame.readonly else frame


def room_in(buffer: bytearray) -> bytearray:
    """Where a buffer's bytes are to be put."""
    return buffer


def int16(data: Bytes, at: int) -> int:
    value = (data[at] << 8) | data[at + 1]
    return value - 0x10000 if value >= 0x8000 else value


def uint32(data: Bytes, at: int) -> int:
    return (data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3]


def int32(data: Bytes, at: int) -> int:
    value = uint32(data, at)
    return value - 0x100000000 if value >= 0x80000000 else value


def int64(data: Bytes, at: int) -> int:
    return int32(data, at) * 0x100000000 + uint32(data, at + 4)


def length_at(data: Bytes, at: int, end: int, is_flexible: bool, is_short: bool) -> tuple[int, int]:
    """A length or a number of elements, and where it ends. -1 for null, NO_LENGTH for what is none, or is longer than need be."""
    value = 0
    shift = 0
    if is_flexible:
        while at < end and shift < 28:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (NO_LENGTH if byte == 0 and shift > 0 else value - 1), at
            shift += 7
        return NO_LENGTH, at
    if is_short:
        if end - at >= 2:
            value = int16(data, at)
            return (value if value >= -1 else NO_LENGTH), at + 2
    elif end - at >= 4:
        value = int32(data, at)
        return (value if value >= 0 else NO_LENGTH), at + 4
    return NO_LENGTH, at


def after_letters(data: Bytes, at: int, length: int, end: int) -> int:
    """Where a string of plain letters ends, so that nobody has to look whether it is UTF-8. -1 where it is none."""
    stop = at + length
    if stop > end:
        return -1
    while at < stop:
        if data[at] >= 0x80:
            return -1
        at += 1
    return at


def header_end(data: Bytes, end: int, is_flexible: bool) -> int:
    """Where the request's body begins; -1 where its header is an unusual one. A client id is plain letters, or null."""
    length, at = length_at(data, 8, end, False, True)
    if length < -1:
        return -1
    if length > 0:
        at = after_letters(data, at, length, end)
        if at < 0:
            return -1
    if is_flexible:
        if at >= end or data[at] != 0:
            return -1
        at += 1
    return at


def text_at(data: Bytes, at: int, end: int, length: int) -> str | None:
    """The text of plain letters of this length; None where it is something else, or goes beyond the end."""
    if length < 0 or after_letters(data, at, length, end) < 0:
        return None
    return bytes(data[at : at + length]).decode("ascii")


def put16(out: bytearray, at: int, value: int) -> None:
    out[at] = (value >> 8) & 0xFF
    out[at + 1] = value & 0xFF


def put32(out: bytearray, at: int, value: int) -> None:
    put16(out, at, value >> 16)
    put16(out, at + 2, value)


def put64(out: bytearray, at: int, value: int) -> None:
    put32(out, at, value >> 32)
    put32(out, at + 4, value)


def put_varint(out: bytearray, at: int, value: int, shift: int) -> int:
    """A number that is not negative, times two for a zigzag one (shift 1) or as it is (0). Where it ends."""
    value <<= shift
    while value >= 0x80:
        out[at] = (value & 0x7F) | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


def varint_bytes(value: int, shift: int) -> int:
    """How many bytes `put_varint` takes."""
    count = 1
    value <<= shift
    while value >= 0x80:
        value >>= 7
        count += 1
    return count


def put_bytes(out: bytearray, at: int, text: bytes) -> int:
    """Where the copied bytes end."""
    out[at : at + len(text)] = text
    return at + len(text)


def record_body_bytes(number: int, key_bytes: int, value_bytes: int) -> int:
    """What a record takes behind its length: attributes, time, its place; key and value with their lengths; no headers."""
    lengths = varint_bytes(number, 1) + varint_bytes(key_bytes, 1) + varint_bytes(value_bytes, 1)
    return 3 + lengths + key_bytes + value_bytes
