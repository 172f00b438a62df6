"""DER by hand, for names and stores that no library would write."""

from __future__ import annotations

from collections.abc import Sequence

Attribute = tuple[str, int, bytes]
"""An object identifier, the tag of the value, and its content."""


def element(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = (length.bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + length.to_bytes(size, "big") + content


def identifier(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    content = bytearray()
    for number in (40 * first + second, *rest):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(number & 0x7F | 0x80)
        content += bytes(reversed(digits))
    return element(0x06, bytes(content))


def name_content(components: Sequence[Sequence[Attribute]]) -> bytes:
    """What is in the sequence of a Name: sets of attributes, the most general first."""
    return b"".join(
        element(0x31, *(element(0x30, identifier(number), element(tag, value)) for number, tag, value in attributes))
        for attributes in components
    )
