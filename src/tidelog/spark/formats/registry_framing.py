"""The framing of a schema registry: a zero byte and the id of the writer's schema before the encoded value.

    00 | schema id, 4 bytes | value                       Avro and JSON
    00 | schema id, 4 bytes | message indexes | value     Protobuf: which message of the file it is, as zigzag varints

The registry itself is asked over HTTP, once for each id and process: a schema never changes under its id.
"""

from __future__ import annotations

import json
import struct
import urllib.error
import urllib.request
from typing import NamedTuple

MAGIC = 0
_FRAME = struct.Struct(">bi")
# Nobody nests messages deeper, and a length from damaged bytes must not decide how long a loop runs.
_INDEXES_MAX = 64
_TIMEOUT_S = 30.0
# A schema of several megabytes is a mistake or an attack.
_SCHEMA_BYTES_MAX = 16 * 1024 * 1024


class FramingError(ValueError):
    """Bytes that are not framed as they should be."""


class RegistryError(Exception):
    """The registry does not give the schema; one sentence says why."""


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


def schema_of(registry: str, schema_id: int) -> str:
    """The text of a schema, from a registry's address such as http://127.0.0.1:8081. RegistryError where it gives none."""
    if not registry.startswith(("http://", "https://")):
        raise RegistryError(f"{registry!r} is not the address of a schema registry: expected http://host:port")
    address = f"{registry.rstrip('/')}/schemas/ids/{schema_id}"
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the scheme is checked above
            body = answer.read(_SCHEMA_BYTES_MAX + 1)
        if len(body) > _SCHEMA_BYTES_MAX:
            raise RegistryError(f"schema {schema_id} of {registry} is larger than {_SCHEMA_BYTES_MAX} bytes")
        schema = json.loads(body)["schema"]
    except (urllib.error.URLError, OSError) as error:
        raise RegistryError(f"schema {schema_id} was not found in {registry}: {error}") from None
    except (ValueError, KeyError, TypeError):
        raise RegistryError(f"{registry} did not answer with a schema for id {schema_id}") from None
    if not isinstance(schema, str):
        raise RegistryError(f"{registry} did not answer with a schema for id {schema_id}")
    return schema
