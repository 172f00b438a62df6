"""The framing of a schema registry: a zero byte and the id of the writer's schema before the encoded value.

    00 | schema id, 4 bytes | value                       Avro and JSON
    00 | schema id, 4 bytes | message indexes | value     Protobuf: which message of the file it is, as zigzag varints

`schema_registry` knows what an id stands for.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

MAGIC = 0
_FRAME = struct.Struct(">bi")
# Nobody nests messages deeper, and a length from damaged bytes must not decide how long a loop runs.
_INDEXES_MAX = 64


class FramingError(ValueError):
    """Bytes that are not framed as they should be."""


class Framed(NamedTuple):
    schema_id: int
    start: int
    """Where the encoded value begins."""


def read_frame(value: bytes) -> Framed:
    """FramingError for a value that is shorter than its frame, or begins otherwise."""
    if len(value) < _FRAME.size:
        raise FramingError(f"a value of {len(value)} bytes is too short for the frame of a schema registry")
    magic, schema_id = _FRAME.unpack_from(value)
    if magic != MAGIC:
        raise FramingError(f"a value that begins with byte {value[0]:#04x} is not framed for a schema registry")
    return Framed(schema_id, _FRAME.size)


def read_protobuf_frame(value: bytes) -> tuple[Framed, tuple[int, ...]]:
    """The frame of a Protobuf value, and the indexes that lead to its message: (0,) is the first of the file."""
    frame = read_frame(value)
    count, position = _zigzag(value, frame.start)
    if count == 0:
        return Framed(frame.schema_id, position), (0,)
    if not 0 < count <= _INDEXES_MAX:
        raise FramingError(f"a frame with {count} message indexes")
    indexes = []
    for _ in range(count):
        index, position = _zigzag(value, position)
        indexes.append(index)
    return Framed(frame.schema_id, position), tuple(indexes)


def _zigzag(value: bytes, position: int) -> tuple[int, int]:
    bits = shift = 0
    while position < len(value) and shift < 35:
        byte = value[position]
        position += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), position
        shift += 7
    raise FramingError("the message indexes of a frame are cut off")


def frame(schema_id: int) -> bytes:
    """What goes before a value."""
    return _FRAME.pack(MAGIC, schema_id)


def protobuf_frame(schema_id: int, indexes: Sequence[int]) -> bytes:
    """What goes before a Protobuf value. The first message of a file, the commonest, is one zero byte."""
    if tuple(indexes) == (0,):
        return frame(schema_id) + b"\0"
    return frame(schema_id) + b"".join(_as_zigzag(each) for each in (len(indexes), *indexes))


def _as_zigzag(number: int) -> bytes:
    bits = number << 1
    encoded = bytearray()
    while bits >= 0x80:
        encoded.append(bits & 0x7F | 0x80)
        bits >>= 7
    encoded.append(bits)
    return bytes(encoded)
