# cython: annotation_typing=False, auto_pickle=False, binding=False, nonecheck=True
# mypy: disable-error-code="no-any-return"
"""What typed messages have in common, and how they become bytes and are read again.

    decode_typed(cls, version, buffer, position)     the message and where it ends; None where its bytes are wrong
    encode_typed(message, version)                   its bytes; None where it cannot be written
    encode_typed_parts(message, version, ...)        the same in parts, behind a response's header if one is wanted

A typed message is a class that `tools/typed_messages.py` wrote from its declaration. It reads and writes itself, with its version
as a number, in plain Python and compiled. Nothing here says what is wrong with bytes or with a value: where the answer is None,
the functions that `tidelog.wire.codec` generates at run time are asked, which name the field.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.tidelog.wire.typed.fields_inline import (
        blank,
        filled,
        new_room,
        piece,
        put8,
        put32,
        start_of,
        start_of_room,
    )
else:
    from tidelog.wire.typed.fields import blank, filled, new_room, piece, put8, put32, start_of, start_of_room

# Below this, copying records beside their neighbours is cheaper than a part and a system call of their own.
RECORDS_COPIED_BYTES_MAX = 16 * 1024

SIZE_BYTES = 4
NO_HEADER = -1

_CANNOT = (TypeError, AttributeError, ValueError, OverflowError)


class TypedMessage:
    """A message that stands on its own. Each of these answers -1 for what cannot be read or written."""

    __slots__ = ()

    def read(self, data: Any, at: int, end: int, version: int, frame: Any) -> int:
        """Takes all fields from `data`, which is where the bytes of `frame` are. Where the message ends."""
        raise NotImplementedError

    def size(self, version: int, copied_max: int) -> int:
        """How many bytes it takes, without records of more than `copied_max` bytes and those that are in files."""
        raise NotImplementedError

    def write(self, out: Any, at: int, version: int, copied_max: int, cuts: list[Any]) -> int:
        """Writes all fields. What `size` did not count is added to `cuts`, each with its place before it."""
        raise NotImplementedError

    def count_errors(self, errors: Any) -> int:  # noqa: ARG002 - has none
        """Adds the error codes of a response to `errors`, by their numbers. How many there are that say NONE."""
        return 0


def is_same(one: Any, other: Any) -> Any:
    """Whether all fields of two structs are equal."""
    if type(one) is not type(other):
        return NotImplemented
    return all(getattr(one, name) == getattr(other, name) for name in one.__struct_fields__)


def described(struct: Any) -> str:
    values = ", ".join(f"{name}={getattr(struct, name)!r}" for name in struct.__struct_fields__)
    return f"{type(struct).__name__}({values})"


def copied(struct: Any) -> tuple[type, tuple[Any, ...]]:
    """What `copy` and `pickle` make another one from."""
    return type(struct), tuple(getattr(struct, name) for name in struct.__struct_fields__)


def records_bytes(records: Any) -> int:
    """How many bytes record batches take, wherever they are."""
    if isinstance(records, (bytes, bytearray)):
        return len(records)
    if isinstance(records, memoryview):
        return records.nbytes
    return int(records.count)


def is_copied(records: Any, count: int, copied_max: int) -> bool:
    """Whether records go into the bytes beside them; otherwise they are a part of their own."""
    return count <= copied_max and isinstance(records, (bytes, bytearray, memoryview))


def view_of(frame: Any, start: int, stop: int) -> memoryview:
    return memoryview(frame)[start:stop]


def decode_typed(cls: type, version: int, buffer: Any, position: int) -> tuple[Any, int] | None:
    """The message that begins at `position`, and the position after it."""
    if not issubclass(cls, TypedMessage):
        return None
    frame = buffer if isinstance(buffer, (bytes, memoryview)) else memoryview(buffer)
    if not 0 <= position <= len(frame):
        return None
    message = blank(cls)
    try:
        at = message.read(start_of(frame), position, len(frame), version, frame)
    except (UnicodeDecodeError, BufferError):
        return None
    return None if at < 0 else (message, at)


def encode_typed(message: Any, version: int) -> bytes | None:
    """The bytes of a message. Records must be in memory."""
    try:
        size = message.size(version, sys.maxsize)
    except _CANNOT:
        return None
    if size < 0:
        return None
    cuts: list[Any] = []
    room = new_room(size)
    at = message.write(start_of_room(room), 0, version, sys.maxsize, cuts)
    if cuts or at != size:
        return None
    return filled(room)


def bytes_beside_records(message: Any, version: int) -> int:
    """How many bytes a message takes without a header, and without its records. -1: there is no such message."""
    try:
        size: int = message.size(version, -1)
    except _CANNOT:
        return -1
    return size


def encode_typed_parts(
    message: Any, version: int, correlation_id: int, header_version: int, with_size: bool
) -> list[Any] | None:
    """The bytes of a message in order, with large records and file regions as they were given.

    They begin with the header of a response, unless that is NO_HEADER, and where `with_size` with the size of all before it.
    """
    try:
        size = message.size(version, RECORDS_COPIED_BYTES_MAX)
    except _CANNOT:
        return None
    if size < 0:
        return None
    start = 4 if with_size else 0
    if header_version >= 0:
        start += 4 + header_version
    cuts: list[Any] = []
    room = new_room(start + size)
    out = start_of_room(room)
    at = message.write(out, start, version, RECORDS_COPIED_BYTES_MAX, cuts)
    if at != start + size:
        return None
    if header_version >= 0:
        put32(out, start - 4 - header_version, correlation_id)
        if header_version == 1:
            put8(out, start - 1, 0)
    total = at
    for place in range(1, len(cuts), 2):
        total += records_bytes(cuts[place])
    if with_size:
        put32(out, 0, total - 4)
    if not cuts:
        return [filled(room)]
    parts: list[Any] = []
    start = 0
    for place in range(0, len(cuts), 2):
        stop = cuts[place]
        if stop > start:
            parts.append(piece(out, start, stop))
        parts.append(cuts[place + 1])
        start = stop
    if at > start:
        parts.append(piece(out, start, at))
    return parts
