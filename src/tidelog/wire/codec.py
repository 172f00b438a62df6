"""Messages to bytes and back.

    encode(message, version) -> bytes               encode_parts(...) -> parts, records and file regions among them
    decode(cls, version, buffer) -> message         decode_from(...) -> message and where it ends

The functions behind these are generated from the declaration of a message for one version, when it is first used; a typed
message (`tidelog.wire.typed`) reads and writes itself, and they are generated where it cannot, to say why. Bad bytes raise
`MalformedError`; a version or field that does not exist `UnsupportedVersionError`; a value that its field cannot hold
`EncodeError`. Each names the message, the version and the field.

What a decoded message shares with the buffer: fields of type Records, which are memoryviews of it. All else is copied.
Tagged fields that a declaration does not know are skipped, and so lost when the message is encoded again: a node speaks
for itself, and what it forwards or stores for others stays bytes.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from tidelog.wire.decoders import write_decoder
from tidelog.wire.encoders import records_bytes, write_encoder
from tidelog.wire.errors import EncodeError, MalformedError, UnsupportedVersionError
from tidelog.wire.generated import Function
from tidelog.wire.schema import Message, Region, has_records
from tidelog.wire.typed.message import (
    NO_HEADER,
    RECORDS_COPIED_BYTES_MAX,
    TypedMessage,
    decode_typed,
    encode_typed,
    encode_typed_parts,
)
from tidelog.wire.varint import Buffer

_M = TypeVar("_M", bound=Message)

Part = bytes | memoryview | Region

# Indexing bytes is faster than indexing a memoryview, so that a short message is copied before it is decoded.
_MESSAGE_COPIED_BYTES_MAX = 16 * 1024


def decode(cls: type[_M], version: int, buffer: Buffer) -> _M:
    """The message that fills the whole buffer."""
    message, position = decode_from(cls, version, buffer)
    if position != len(buffer):
        raise MalformedError(f"{cls.__name__} v{version}: {len(buffer) - position} bytes follow the end of the message")
    return message


def decode_from(cls: type[_M], version: int, buffer: Buffer, position: int = 0) -> tuple[_M, int]:
    """The message that begins at `position`, and the position after it. What follows is not looked at."""
    read: tuple[_M, int] | None = decode_typed(cls, version, buffer, position)
    return read or generated_decode_from(cls, version, buffer, position)


def generated_decode_from(cls: type[_M], version: int, buffer: Buffer, position: int = 0) -> tuple[_M, int]:
    """The same with the function that is generated at run time, whatever class the message is."""
    function, shares_buffer = _DECODERS[cls][version]
    if type(buffer) is not bytes and not shares_buffer and len(buffer) <= _MESSAGE_COPIED_BYTES_MAX:
        buffer = bytes(buffer)
    try:
        decoded: tuple[_M, int] = function.call(buffer, position, len(buffer))
    except (struct.error, IndexError):
        raise _malformed(cls, version, function, "the bytes end in the middle of it") from None
    except UnicodeDecodeError as error:
        raise _malformed(cls, version, function, f"a string is not UTF-8 ({error.reason})") from None
    except MalformedError as error:
        raise _malformed(cls, version, function, str(error)) from None
    return decoded


def encode(message: Message, version: int) -> bytes:
    """The bytes of a message. Records must be in memory."""
    if isinstance(message, TypedMessage):
        written: bytes | None = encode_typed(message, version)
        if written is not None:
            return written
    return _join(_parts(message, version))


def encode_parts(message: Message, version: int) -> list[Part]:
    """The bytes of a message in order, with large records and file regions as they were given, to send without a copy."""
    if isinstance(message, TypedMessage):
        written: list[Part] | None = encode_typed_parts(message, version, 0, NO_HEADER, with_size=False)
        if written is not None:
            return written
    return generated_encode_parts(message, version)


def generated_encode_parts(message: Message, version: int) -> list[Part]:
    """The same with the function that is generated at run time, whatever class the message is."""
    parts = _parts(message, version)
    if not has_records(type(message)):
        return [_join(parts)]
    merged: list[Part] = []
    start = 0
    for index, part in enumerate(parts):
        if (type(part) is not bytes and not isinstance(part, memoryview | bytearray)) or (
            len(part) > RECORDS_COPIED_BYTES_MAX
        ):
            if start < index:
                merged.append(_join(parts[start:index]))
            merged.append(part)
            start = index + 1
    if start < len(parts):
        merged.append(_join(parts[start:]))
    return merged


def parts_bytes(parts: list[Part]) -> int:
    """How many bytes the parts of a message take."""
    return sum(map(records_bytes, parts))


def source_of(cls: type[Message], version: int) -> str:
    """The generated decoder and encoder of one version, to read."""
    decoder: Function = _DECODERS[cls][version][0]
    encoder: Function = _ENCODERS[cls][version]
    return f"{decoder.text}\n\n{encoder.text}"


def _parts(message: Message, version: int) -> list[Any]:
    function = _ENCODERS[type(message)][version]
    parts: list[Any] = []
    try:
        function.call(message, parts.append)
    except UnsupportedVersionError as error:
        raise UnsupportedVersionError(_sentence(type(message), version, function, error, str(error))) from None
    except (struct.error, AttributeError, TypeError, ValueError, OverflowError, EncodeError) as error:
        raise EncodeError(_sentence(type(message), version, function, error, str(error))) from None
    return parts


def _join(parts: list[Any]) -> bytes:
    try:
        return b"".join(parts)
    except TypeError:
        raise EncodeError("records that are still in a file cannot become bytes: use encode_parts") from None


class _Versions(dict[int, Any]):
    """The functions of one message by version, each generated when it is first asked for."""

    def __init__(self, cls: type[Message], generate: Callable[[type[Message], int], Any]) -> None:
        super().__init__()
        self._cls = cls
        self._generate = generate

    def __missing__(self, version: int) -> Any:
        if version not in self._cls.versions:
            raise UnsupportedVersionError(
                f"{self._cls.__name__} has the versions {self._cls.versions}, not version {version}"
            )
        generated = self[version] = self._generate(self._cls, version)
        return generated


class _Functions(dict[type[Message], _Versions]):
    def __init__(self, generate: Callable[[type[Message], int], Any]) -> None:
        super().__init__()
        self._generate = generate

    def __missing__(self, cls: type[Message]) -> _Versions:
        versions = self[cls] = _Versions(cls, self._generate)
        return versions


def _generate_decoder(cls: type[Message], version: int) -> tuple[Function, bool]:
    return write_decoder(cls, version), has_records(cls)


_DECODERS = _Functions(_generate_decoder)
_ENCODERS = _Functions(write_encoder)


def _malformed(cls: type[Message], version: int, function: Function, sentence: str) -> MalformedError:
    return MalformedError(_sentence(cls, version, function, sys.exception(), sentence))


def _sentence(cls: type[Message], version: int, function: Function, error: BaseException | None, sentence: str) -> str:
    where = function.field_of(error.__traceback__ if error else None)
    return f"{cls.__name__} v{version}{', ' if where else ''}{where}: {sentence}"
