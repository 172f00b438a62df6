"""Unsigned varints: seven bits a byte, low bits first, the high bit set on all but the last.

Kafka uses them for lengths, counts and tags, none of which passes 32 bits. Generated code reads the first byte on its
own, since it is nearly always the only one, and comes here for the rest.
"""

from tidelog.wire.errors import MalformedError

Buffer = bytes | bytearray | memoryview

ONE_BYTE: tuple[bytes, ...] = tuple(bytes((value,)) for value in range(128))

_UNSIGNED_32_MAX = 0xFFFF_FFFF


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The value at `position` and the position after it. Raises `IndexError` where the buffer ends inside it."""
    first = buffer[position]
    if first < 128:
        return first, position + 1
    return read_uvarint_rest(buffer, position + 1, first)


def read_uvarint_rest(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The same, for a reader that has taken the `first` byte, found more to come and stands behind it."""
    # Unrolled: lengths of record batches take two or three bytes, and every fetch and produce comes through here.
    byte = buffer[position]
    if byte < 128:
        return first - 0x80 | byte << 7, position + 1
    value = first - 0x80 | byte - 0x80 << 7
    byte = buffer[position + 1]
    if byte < 128:
        return value | byte << 14, position + 2
    value |= byte - 0x80 << 14
    byte = buffer[position + 2]
    if byte < 128:
        return value | byte << 21, position + 3
    value |= byte - 0x80 << 21
    byte = buffer[position + 3]
    if byte < 16:
        return value | byte << 28, position + 4
    raise MalformedError("an unsigned varint does not fit 32 bits")


def write_uvarint(value: int) -> bytes:
    """The bytes of `value`, which must lie between 0 and 2**32 - 1."""
    if value < 128:
        return ONE_BYTE[value]
    if value > _UNSIGNED_32_MAX:
        raise OverflowError(f"{value} does not fit an unsigned varint of 32 bits")
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
