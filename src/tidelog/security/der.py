"""DER, as far as certificates need it: tags, lengths and contents, without decoding values that nobody asks for.

    item = read(data, start)                        item.tag, item.content
    for item in items(content): ...
    fields = CertificateFields.of(certificate)      names, validity and alternative names of a certificate

A peer's certificate has been verified before it is looked at here; a file of ours may hold anything. Both get a DerError, never
anything else, and nothing is allocated by a length that is only announced.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

SEQUENCE = 0x30
SET = 0x31
OBJECT_IDENTIFIER = 0x06
OCTET_STRING = 0x04
UTC_TIME = 0x17
_VERSION = 0xA0
_EXTENSIONS = 0xA3
_SUBJECT_ALT_NAME = bytes.fromhex("551d11")

# No structure of a certificate is larger; a length has at most three bytes then.
_LENGTH_BYTES_MAX = 4


class DerError(ValueError):
    """Bytes that are not DER, or not the structure that was expected."""


class Item(NamedTuple):
    """One element: `start` and `end` are those of all of it, in the data that it was read from."""

    tag: int
    content: bytes
    start: int
    end: int


def read(data: bytes, start: int = 0) -> Item:
    """The element at `start`: its tag, its content, and where it ends."""
    if start + 2 > len(data):
        raise DerError("the data ends in the middle of an element")
    tag, first = data[start], data[start + 1]
    if tag & 0x1F == 0x1F:
        raise DerError("a tag of more than one byte")
    at = start + 2
    if first < 0x80:
        length = first
    else:
        count = first & 0x7F
        if not 1 <= count <= _LENGTH_BYTES_MAX or at + count > len(data):
            raise DerError("a length that is not one of DER")
        length = int.from_bytes(data[at : at + count], "big")
        at += count
    if at + length > len(data):
        raise DerError("an element is longer than the data that holds it")
    return Item(tag, data[at : at + length], start, at + length)


def items(data: bytes) -> Iterator[Item]:
    """The elements of a content, one after the other."""
    at = 0
    while at < len(data):
        item = read(data, at)
        yield item
        at = item.end


def first_two(data: bytes) -> tuple[Item, Item]:
    """The first two elements of a content that must have them."""
    first = read(data)
    return first, read(data, first.end)


def expect(item: Item, tag: int) -> bytes:
    """The content of an element that must have this tag."""
    if item.tag != tag:
        raise DerError(f"tag {item.tag:#x} where {tag:#x} was expected")
    return item.content


def identifier(content: bytes) -> str:
    """An object identifier in dotted numbers."""
    if not content:
        raise DerError("an empty object identifier")
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if content[-1] & 0x80:
        raise DerError("an object identifier that does not end")
    top = min(numbers[0] // 40, 2)
    return ".".join(map(str, (top, numbers[0] - 40 * top, *numbers[1:])))


class CertificateFields(NamedTuple):
    """What of a certificate is looked at here. Names are the contents of their sequences."""

    issuer: bytes
    subject: bytes
    not_before: datetime
    not_after: datetime
    alternative_names: frozenset[bytes]
    """Each with its tag in front."""

    @classmethod
    def of(cls, certificate: bytes) -> CertificateFields:
        body = expect(read(expect(read(certificate), SEQUENCE)), SEQUENCE)
        fields = list(items(body))
        if fields and fields[0].tag == _VERSION:
            del fields[0]
        if len(fields) < 6:
            raise DerError("a certificate without all its fields")
        begins, ends = first_two(expect(fields[3], SEQUENCE))
        return cls(
            expect(fields[2], SEQUENCE),
            expect(fields[4], SEQUENCE),
            _time(begins),
            _time(ends),
            _alternative_names(fields[6:]),
        )


def _time(item: Item) -> datetime:
    text = item.content.decode("ascii", "replace")
    try:
        if item.tag == UTC_TIME:
            # RFC 5280: years from 50 on are of the last century. strptime would say 69.
            century = "19" if text[:2] >= "50" else "20"
            text = century + text
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise DerError("a time that is not one of a certificate") from error


def _alternative_names(fields: list[Item]) -> frozenset[bytes]:
    for field in fields:
        if field.tag != _EXTENSIONS:
            continue
        for extension in items(expect(read(field.content), SEQUENCE)):
            parts = list(items(expect(extension, SEQUENCE)))
            if parts and parts[0].content == _SUBJECT_ALT_NAME:
                names = expect(read(expect(parts[-1], OCTET_STRING)), SEQUENCE)
                return frozenset(bytes([name.tag]) + name.content for name in items(names))
    return frozenset()
